//! Reference implementation on the standard library's formatting, to compare [`Record::write`]
//! with.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use net::address;

use super::{Format, Hierarchy, Record, without_port};

/// Formats into a byte vector, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        { let _infallible = write!($out, $($arg)*); }
    };
}

pub fn write(record: &Record<'_>, format: &Format, out: &mut Vec<u8>) {
    match format {
        Format::Combined => combined(record, out),
        Format::Squid => squid(record, out),
        Format::Json => json(record, out),
        Format::Own(_) => {}
    }
    out.push(b'\n');
}

fn combined(record: &Record<'_>, out: &mut Vec<u8>) {
    put!(out, "{} - - [", address::canonical(record.client));
    put!(out, "{}", calendar(record.ended, "%d/%b/%Y:%H:%M:%S +0000"));
    out.extend_from_slice(b"] \"");
    if record.method.is_empty() {
        out.push(b'-');
    } else {
        quoted(record.method.as_bytes(), out);
        out.push(b' ');
        let (before, after) = without_user(record.url);
        quoted(before.as_bytes(), out);
        quoted(after.as_bytes(), out);
        put!(out, " {:?}", record.version);
    }
    put!(out, "\" {:03} ", record.status);
    match record.body_out {
        0 => out.push(b'-'),
        bytes => put!(out, "{bytes}"),
    }
    out.extend_from_slice(b" \"");
    match record.referer {
        Some(bytes) => {
            let (before, after) = bytes_without_user(bytes);
            quoted(before, out);
            quoted(after, out);
        }
        None => out.push(b'-'),
    }
    out.extend_from_slice(b"\" \"");
    quoted(record.user_agent.unwrap_or(b"-"), out);
    put!(out, "\" {}", record.outcome);
}

fn squid(record: &Record<'_>, out: &mut Vec<u8>) {
    let ended = record.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    put!(
        out,
        "{}.{:03} {:6} {} {}/{:03} {} ",
        ended.as_secs(),
        ended.subsec_millis(),
        record.duration.as_millis(),
        address::canonical(record.client),
        record.outcome.squid_code(record.aborted),
        record.status,
        record.bytes_out,
    );
    if record.method.is_empty() {
        out.extend_from_slice(b"NONE error:invalid-request");
    } else {
        percent(record.method.as_bytes(), out);
        out.push(b' ');
        let (before, after) = without_user(record.url);
        percent(before.as_bytes(), out);
        percent(after.as_bytes(), out);
    }
    out.extend_from_slice(b" - ");
    match record.hierarchy {
        Hierarchy::None => out.extend_from_slice(b"HIER_NONE/-"),
        Hierarchy::Direct(origin) => {
            out.extend_from_slice(b"HIER_DIRECT/");
            percent(without_port(origin).as_bytes(), out);
        }
        Hierarchy::Parent(peer) => {
            out.extend_from_slice(b"FIRSTUP_PARENT/");
            percent(without_port(peer).as_bytes(), out);
        }
    }
    out.push(b' ');
    // Squid logs the media type without its parameters.
    let kind = record.content_type.unwrap_or_default();
    match kind.split(|&b| matches!(b, b';' | b' ' | b'\t')).next() {
        None | Some([]) => out.push(b'-'),
        Some(kind) => percent(kind, out),
    }
}

fn json(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    put!(out, "{}", calendar(record.ended, "%Y-%m-%dT%H:%M:%S"));
    let millis = record.ended.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_millis();
    let micros = record.duration.as_micros();
    put!(out, ".{millis:03}Z\",\"duration_ms\":{}.{:03}", micros / 1000, micros % 1000);
    put!(out, ",\"client\":\"{}\"", address::canonical(record.client));
    field("method", Some(record.method.as_bytes()).filter(|m| !m.is_empty()), out);
    let (before, after) = without_user(record.url);
    let whole;
    let url = match before.is_empty() {
        true => after,
        false => {
            whole = [before, after].concat();
            &whole
        }
    };
    field("url", Some(url.as_bytes()).filter(|url| !url.is_empty()), out);
    put!(out, ",\"version\":\"{:?}\",\"status\":{}", record.version, record.status);
    if let Some(tls) = record.tls {
        put!(out, ",\"tls\":\"{}\",\"cipher\":\"{}\"", tls.version, tls.cipher);
        field("sni", tls.sni.as_deref().map(str::as_bytes), out);
    }
    put!(out, ",\"bytes_out\":{},\"body_out\":{}", record.bytes_out, record.body_out);
    put!(out, ",\"outcome\":\"{}\"", record.outcome.name());
    field("reason", record.outcome.reason().map(str::as_bytes), out);
    put!(out, ",\"aborted\":{}", record.aborted);
    match record.hierarchy {
        Hierarchy::None => {}
        Hierarchy::Direct(peer) | Hierarchy::Parent(peer) => {
            field("upstream", Some(peer.as_bytes()), out)
        }
    }
    field("upstream_addr", record.upstream_addresses.map(str::as_bytes), out);
    let referer = record.referer.map(|bytes| {
        let (before, after) = bytes_without_user(bytes);
        [before, after].concat()
    });
    field("referer", referer.as_deref(), out);
    field("user_agent", record.user_agent, out);
    field("content_type", record.content_type, out);
    out.push(b'}');
}

fn calendar(time: SystemTime, format: &str) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX));
    time.unwrap_or(jiff::Timestamp::MAX).strftime(format).to_string()
}

/// Returns the parts of the URL before and after its user information.
fn without_user(url: &str) -> (&str, &str) {
    let (before, after) = split_user(url.as_bytes());
    (&url[..before], &url[after..])
}

fn bytes_without_user(url: &[u8]) -> (&[u8], &[u8]) {
    let (before, after) = split_user(url);
    (&url[..before], &url[after..])
}

/// Returns the start and end of the user information; both are next to ASCII bytes.
fn split_user(url: &[u8]) -> (usize, usize) {
    if url.first() == Some(&b'/') {
        return (0, 0);
    }
    // Only a slash distinguishes `scheme:` from the `user:` of an authority-form target.
    let scheme = url.iter().position(|&b| !(b.is_ascii_alphanumeric() || b"+-.".contains(&b)));
    let start = match scheme {
        Some(colon) if url[colon..].starts_with(b":/") => {
            let slashes = url[colon + 1..].iter().take_while(|&&b| b == b'/').count();
            colon + 1 + slashes
        }
        _ => 0,
    };
    let rest = &url[start..];
    let end = rest.iter().position(|b| b"/?#".contains(b)).unwrap_or(rest.len());
    match rest[..end].iter().rposition(|&b| b == b'@') {
        Some(at) => (start, start + at + 1),
        None => (start, start),
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Copies the runs of bytes that `plain` accepts and calls `escape` for each other byte.
fn escape(
    bytes: &[u8],
    out: &mut Vec<u8>,
    plain: impl Fn(u8) -> bool,
    mut escape: impl FnMut(u8, &mut Vec<u8>),
) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&b| !plain(b)) {
        out.extend_from_slice(&rest[..at]);
        escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn visible_or_space(b: u8) -> bool {
    matches!(b, b' '..=b'~')
}

/// Escapes as web servers do within quotes: `\"`, `\\`, `\xHH`.
fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    let plain = |b| visible_or_space(b) && b != b'"' && b != b'\\';
    escape(bytes, out, plain, |b, out| match b {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
        _ => {
            let hex = |n: u8| HEX[usize::from(n)];
            out.extend_from_slice(&[b'\\', b'x', hex(b >> 4), hex(b & 15)]);
        }
    });
}

/// Percent-encodes everything but visible ASCII, for a field delimited by spaces.
fn percent(bytes: &[u8], out: &mut Vec<u8>) {
    escape(
        bytes,
        out,
        |b| b.is_ascii_graphic(),
        |b, out| {
            put!(out, "%{b:02X}");
        },
    );
}

/// Appends `,"name":"value"`; appends nothing if `value` is `None`.
fn field(name: &str, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(value) = value else { return };
    put!(out, ",\"{name}\":\"");
    if value.iter().all(|&b| visible_or_space(b) && b != b'"' && b != b'\\') {
        out.extend_from_slice(value);
    } else {
        for c in String::from_utf8_lossy(value).chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                ' '..='~' => out.push(c as u8),
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        put!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
    }
    out.push(b'"');
}
