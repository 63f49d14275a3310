//! One request as one line, in each format of the access log.
//!
//! What a client or an origin sent is data, and stays within its field: quotes, backslashes, blanks
//! where they separate, control bytes and everything beyond ASCII are escaped in the way the
//! format's readers know. A line is ASCII and has exactly one line feed, its last byte. User
//! information (`user:password@`) of the URL and of the referring URL is left out.

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Version;
use net::address;

use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;

/// Formats into a byte vector, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        { let _infallible = write!($out, $($arg)*); }
    };
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The combined format of web servers, times in UTC, with the outcome's name behind it.
    #[default]
    Combined,
    /// Squid's native format: `%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt`.
    Squid,
    /// A JSON object.
    Json,
}

/// The source of an answer, in Squid's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy<'a> {
    /// None: it came from the cache or from the proxy itself.
    None,
    /// From the origin that the client named: its address, or host and port.
    Direct(&'a str),
    /// From an upstream that the configuration names: a host name or an address.
    Parent(&'a str),
}

/// The facts of a request for the log.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When the request ended.
    pub ended: SystemTime,
    /// Time from the first byte of the request to the last of the answer.
    pub duration: Duration,
    /// Address of the client.
    pub client: IpAddr,
    /// Method; empty when the request could not be read.
    pub method: &'a str,
    /// Target: the URL with its query, `host:port` for `CONNECT`; empty when the request could
    /// not be read.
    pub url: &'a str,
    /// Version that the client spoke.
    pub version: Version,
    /// The TLS session of the client's connection.
    pub tls: Option<&'a TlsFacts>,
    /// Status of the answer; 0 when none was sent.
    pub status: u16,
    /// Bytes sent to the client, the head included as far as it is known.
    pub bytes_out: u64,
    /// Bytes of the answer's body sent to the client.
    pub body_out: u64,
    /// `Referer` of the request.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent` of the request.
    pub user_agent: Option<&'a [u8]>,
    /// `Content-Type` of the answer.
    pub content_type: Option<&'a [u8]>,
    /// The outcome.
    pub outcome: Outcome,
    /// The client left, or the answer was cut.
    pub aborted: bool,
    /// The source of the answer.
    pub hierarchy: Hierarchy<'a>,
    /// The addresses and ports of all servers that were asked, with commas between.
    pub upstream_addresses: Option<&'a str>,
}

impl Record<'_> {
    /// Appends the line to `out`.
    pub fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Combined => self.combined(out),
            Format::Squid => self.squid(out),
            Format::Json => self.json(out),
        }
        out.push(b'\n');
    }

    fn combined(&self, out: &mut Vec<u8>) {
        put!(out, "{} - - [", address::canonical(self.client));
        calendar(self.ended, |_, clf| out.extend_from_slice(clf.as_bytes()));
        out.extend_from_slice(b"] \"");
        if self.method.is_empty() {
            out.push(b'-');
        } else {
            quoted(self.method.as_bytes(), out);
            out.push(b' ');
            let (before, after) = without_user(self.url);
            quoted(before.as_bytes(), out);
            quoted(after.as_bytes(), out);
            put!(out, " {:?}", self.version);
        }
        put!(out, "\" {:03} ", self.status);
        match self.body_out {
            0 => out.push(b'-'),
            bytes => put!(out, "{bytes}"),
        }
        out.extend_from_slice(b" \"");
        match self.referer {
            Some(bytes) => {
                let (before, after) = bytes_without_user(bytes);
                quoted(before, out);
                quoted(after, out);
            }
            None => out.push(b'-'),
        }
        out.extend_from_slice(b"\" \"");
        quoted(self.user_agent.unwrap_or(b"-"), out);
        put!(out, "\" {}", self.outcome);
    }

    fn squid(&self, out: &mut Vec<u8>) {
        let ended = self.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        put!(
            out,
            "{}.{:03} {:6} {} {}/{:03} {} ",
            ended.as_secs(),
            ended.subsec_millis(),
            self.duration.as_millis(),
            address::canonical(self.client),
            self.outcome.squid_code(self.aborted),
            self.status,
            self.bytes_out,
        );
        if self.method.is_empty() {
            out.extend_from_slice(b"NONE error:invalid-request");
        } else {
            percent(self.method.as_bytes(), out);
            out.push(b' ');
            let (before, after) = without_user(self.url);
            percent(before.as_bytes(), out);
            percent(after.as_bytes(), out);
        }
        out.extend_from_slice(b" - ");
        match self.hierarchy {
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
        let kind = self.content_type.unwrap_or_default();
        match kind.split(|&b| matches!(b, b';' | b' ' | b'\t')).next() {
            None | Some([]) => out.push(b'-'),
            Some(kind) => percent(kind, out),
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        calendar(self.ended, |iso, _| out.extend_from_slice(iso.as_bytes()));
        let millis = self.ended.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_millis();
        let micros = self.duration.as_micros();
        put!(out, ".{millis:03}Z\",\"duration_ms\":{}.{:03}", micros / 1000, micros % 1000);
        put!(out, ",\"client\":\"{}\"", address::canonical(self.client));
        field("method", Some(self.method.as_bytes()).filter(|m| !m.is_empty()), out);
        let (before, after) = without_user(self.url);
        let whole;
        let url = match before.is_empty() {
            true => after,
            false => {
                whole = [before, after].concat();
                &whole
            }
        };
        field("url", Some(url.as_bytes()).filter(|url| !url.is_empty()), out);
        put!(out, ",\"version\":\"{:?}\",\"status\":{}", self.version, self.status);
        if let Some(tls) = self.tls {
            put!(out, ",\"tls\":\"{}\",\"cipher\":\"{}\"", tls.version, tls.cipher);
            field("sni", tls.sni.as_deref().map(str::as_bytes), out);
        }
        put!(out, ",\"bytes_out\":{},\"body_out\":{}", self.bytes_out, self.body_out);
        put!(out, ",\"outcome\":\"{}\"", self.outcome.name());
        field("reason", self.outcome.reason().map(str::as_bytes), out);
        put!(out, ",\"aborted\":{}", self.aborted);
        match self.hierarchy {
            Hierarchy::None => {}
            Hierarchy::Direct(peer) | Hierarchy::Parent(peer) => {
                field("upstream", Some(peer.as_bytes()), out)
            }
        }
        field("upstream_addr", self.upstream_addresses.map(str::as_bytes), out);
        let referer = self.referer.map(|bytes| {
            let (before, after) = bytes_without_user(bytes);
            [before, after].concat()
        });
        field("referer", referer.as_deref(), out);
        field("user_agent", self.user_agent, out);
        field("content_type", self.content_type, out);
        out.push(b'}');
    }
}

/// Calls `with` with the second of `time` as `2026-01-02T03:04:05` and as
/// `02/Jan/2026:03:04:05 +0000`. Formatted once for each second and thread.
fn calendar(time: SystemTime, with: impl FnOnce(&str, &str)) {
    thread_local! {
        static LAST: RefCell<(i64, String, String)> = const {
            RefCell::new((i64::MIN, String::new(), String::new()))
        };
    }
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    LAST.with_borrow_mut(|(last, iso, clf)| {
        if *last != seconds {
            let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
            *iso = time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            *clf = time.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
            *last = seconds;
        }
        with(iso, clf);
    });
}

/// Returns the host of `authority`, as Squid names the server: analysers count by it.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, _)) if host.starts_with('[') && host.ends_with(']') => &host[1..host.len() - 1],
        Some((host, _)) if !host.contains(':') => host,
        _ => authority,
    }
}

/// Returns the parts of the URL before and behind its user information.
fn without_user(url: &str) -> (&str, &str) {
    let (before, after) = split_user(url.as_bytes());
    (&url[..before], &url[after..])
}

fn bytes_without_user(url: &[u8]) -> (&[u8], &[u8]) {
    let (before, after) = split_user(url);
    (&url[..before], &url[after..])
}

/// Returns where the user information begins and ends; both ends are next to ASCII bytes.
fn split_user(url: &[u8]) -> (usize, usize) {
    if url.first() == Some(&b'/') {
        return (0, 0);
    }
    // Only a slash tells `scheme:` from the `user:` of an authority-form target.
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

/// Copies the runs of bytes that `plain` accepts and calls `escape` for the others.
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

/// Percent-encodes all but visible ASCII, for a field between blanks.
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

/// Appends `,"name":"value"`, or nothing without a value.
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

#[cfg(test)]
mod tests;
