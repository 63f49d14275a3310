//! Formats one request as one line, in each format of the access log.
//!
//! Values sent by a client or an origin are untrusted and cannot leave their field. Quotes,
//! backslashes, spaces where they separate fields, control bytes and non-ASCII bytes are escaped as
//! readers of the format expect. A line is ASCII and contains exactly one line feed, its last byte.
//! User information (`user:password@`) is removed from the URL and from the referring URL.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Version, header};

use super::format::Format;
use super::text::{self, Calendar};
use crate::message::template::{Piece, Template, Variable};
use crate::message::trace_context::TraceContext;
use crate::observe::log_fields::LogFields;
use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;

/// Returns the text that precedes the value of a JSON member other than the first.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":").as_bytes()
    };
}

/// Returns the text that precedes the text in a JSON member other than the first.
macro_rules! text_key {
    ($name:literal) => {
        concat!(",\"", $name, "\":\"").as_bytes()
    };
}

/// Source of a response, in Squid's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy<'a> {
    /// No server: the response came from the cache or from the proxy itself.
    None,
    /// The origin that the client named: its address, or host and port.
    Direct(&'a str),
    /// An upstream from the configuration: a host name or an address.
    Parent(&'a str),
}

/// The logged facts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// End of the request.
    pub ended: SystemTime,
    /// Time from the first byte of the request to the last byte of the response.
    pub duration: Duration,
    /// Client address.
    pub client: IpAddr,
    /// Method; empty if the request could not be read.
    pub method: &'a str,
    /// Target: the URL with its query, or `host:port` for `CONNECT`. Empty if the request could not
    /// be read.
    pub url: &'a str,
    /// HTTP version of the request.
    pub version: Version,
    /// TLS session of the client's connection.
    pub tls: Option<&'a TlsFacts>,
    /// Response status; 0 if none was sent.
    pub status: u16,
    /// Bytes sent to the client, including the head as far as its size is known.
    pub bytes_out: u64,
    /// Bytes of the response body sent to the client.
    pub body_out: u64,
    /// `Referer` of the request.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent` of the request.
    pub user_agent: Option<&'a [u8]>,
    /// `Content-Type` of the response.
    pub content_type: Option<&'a [u8]>,
    /// The outcome.
    pub outcome: Outcome,
    /// True if the client disconnected or the response was truncated.
    pub aborted: bool,
    /// The source of the response.
    pub hierarchy: Hierarchy<'a>,
    /// The addresses and ports of all servers contacted, separated by commas.
    pub upstream_addresses: Option<&'a str>,
    /// Further texts and times; `None` if the request could not be read.
    pub texts: Option<&'a LogFields>,
}

impl Record<'_> {
    /// Appends the line to `out`.
    pub fn write(&self, format: &Format, out: &mut Vec<u8>) {
        match format {
            Format::Combined => self.combined(out),
            Format::Squid => self.squid(out),
            Format::Json => self.json(out),
            Format::Own(template) => self.own(template, out),
        }
        out.push(b'\n');
    }

    fn combined(&self, out: &mut Vec<u8>) {
        text::address(self.client, out);
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(&Calendar::of(self.since_1970().as_secs()).clf);
        out.extend_from_slice(b"] \"");
        if self.method.is_empty() {
            out.push(b'-');
        } else {
            text::quoted(self.method.as_bytes(), out);
            out.push(b' ');
            without_user(self.url.as_bytes(), out, text::quoted);
            out.push(b' ');
            out.extend_from_slice(version_text(self.version).as_bytes());
        }
        out.extend_from_slice(b"\" ");
        text::padded(u64::from(self.status), 3, b'0', out);
        out.push(b' ');
        match self.body_out {
            0 => out.push(b'-'),
            bytes => text::number(bytes, out),
        }
        out.extend_from_slice(b" \"");
        without_user(self.referer.unwrap_or(b"-"), out, text::quoted);
        out.extend_from_slice(b"\" \"");
        text::quoted(self.user_agent.unwrap_or(b"-"), out);
        out.extend_from_slice(b"\" ");
        out.extend_from_slice(self.outcome.name().as_bytes());
        if let Some(reason) = self.outcome.reason() {
            out.push(b'(');
            out.extend_from_slice(reason.as_bytes());
            out.push(b')');
        }
    }

    fn squid(&self, out: &mut Vec<u8>) {
        let ended = self.since_1970();
        text::number(ended.as_secs(), out);
        text::thousandths(ended.subsec_millis(), out);
        out.push(b' ');
        text::padded(millis(self.duration), 6, b' ', out);
        out.push(b' ');
        text::address(self.client, out);
        out.push(b' ');
        out.extend_from_slice(self.outcome.squid_code(self.aborted).as_bytes());
        out.push(b'/');
        text::padded(u64::from(self.status), 3, b'0', out);
        out.push(b' ');
        text::number(self.bytes_out, out);
        out.push(b' ');
        if self.method.is_empty() {
            out.extend_from_slice(b"NONE error:invalid-request");
        } else {
            text::percent(self.method.as_bytes(), out);
            out.push(b' ');
            without_user(self.url.as_bytes(), out, text::percent);
        }
        out.extend_from_slice(b" - ");
        match self.hierarchy {
            Hierarchy::None => out.extend_from_slice(b"HIER_NONE/-"),
            Hierarchy::Direct(origin) => {
                out.extend_from_slice(b"HIER_DIRECT/");
                text::percent(without_port(origin).as_bytes(), out);
            }
            Hierarchy::Parent(peer) => {
                out.extend_from_slice(b"FIRSTUP_PARENT/");
                text::percent(without_port(peer).as_bytes(), out);
            }
        }
        out.push(b' ');
        // Squid logs the media type without its parameters.
        let kind = self.content_type.unwrap_or_default();
        match kind.split(|&b| matches!(b, b';' | b' ' | b'\t')).next() {
            None | Some([]) => out.push(b'-'),
            Some(kind) => text::percent(kind, out),
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        let ended = self.since_1970();
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&Calendar::of(ended.as_secs()).iso);
        text::thousandths(ended.subsec_millis(), out);
        out.extend_from_slice(b"Z\",\"duration_ms\":");
        fractional_millis(self.duration, out);
        out.extend_from_slice(b",\"client\":\"");
        text::address(self.client, out);
        out.push(b'"');
        string(text_key!("method"), Some(self.method.as_bytes()).filter(|m| !m.is_empty()), out);
        let (before, after) = split_user(self.url.as_bytes());
        if !(before.is_empty() && after.is_empty()) {
            string_of_two(text_key!("url"), (before, after), out);
        }
        name(text_key!("version"), version_text(self.version), out);
        out.extend_from_slice(key!("status"));
        text::number(u64::from(self.status), out);
        if let Some(tls) = self.tls {
            name(text_key!("tls"), tls.version, out);
            name(text_key!("cipher"), tls.cipher, out);
            string(text_key!("sni"), tls.sni.as_deref().map(str::as_bytes), out);
        }
        out.extend_from_slice(key!("bytes_out"));
        text::number(self.bytes_out, out);
        out.extend_from_slice(key!("body_out"));
        text::number(self.body_out, out);
        name(text_key!("outcome"), self.outcome.name(), out);
        if let Some(reason) = self.outcome.reason() {
            name(text_key!("reason"), reason, out);
        }
        out.extend_from_slice(key!("aborted"));
        out.extend_from_slice(if self.aborted { b"true" } else { b"false" });
        if let Hierarchy::Direct(peer) | Hierarchy::Parent(peer) = self.hierarchy {
            string(text_key!("upstream"), Some(peer.as_bytes()), out);
        }
        string(text_key!("upstream_addr"), self.upstream_addresses.map(str::as_bytes), out);
        if let Some(texts) = self.texts {
            json_texts(texts, out);
        }
        if let Some(referer) = self.referer {
            string_of_two(text_key!("referer"), split_user(referer), out);
        }
        string(text_key!("user_agent"), self.user_agent, out);
        string(text_key!("content_type"), self.content_type, out);
        out.push(b'}');
    }

    /// Writes a line in the operator's own format. Variables without a value become `-`.
    fn own(&self, template: &Template, out: &mut Vec<u8>) {
        let mut number = 0;
        for piece in template.pieces() {
            let variable = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Piece::Variable(variable) => variable,
            };
            let begin = out.len();
            match self.texts.and_then(|texts| texts.variable(number)) {
                Some(value) if *variable == Variable::Header(header::REFERER) => {
                    without_user(value, out, text::nginx);
                }
                Some(value) => text::nginx(value, out),
                None => self.variable(variable, out),
            }
            if out.len() == begin {
                out.push(b'-');
            }
            number += 1;
        }
    }

    /// Writes the value of a variable that is known only now.
    fn variable(&self, variable: &Variable, out: &mut Vec<u8>) {
        let texts = self.texts;
        match variable {
            Variable::ClientIp => text::address(self.client, out),
            Variable::Status => text::padded(u64::from(self.status), 3, b'0', out),
            Variable::Outcome => out.extend_from_slice(self.outcome.text().as_bytes()),
            Variable::Bytes => text::number(self.bytes_out, out),
            Variable::Age => {
                texts
                    .and_then(|texts| texts.age)
                    .into_iter()
                    .for_each(|age| text::number(age, out));
            }
            Variable::Duration => seconds(Some(self.duration), out),
            Variable::FirstByte => seconds(texts.and_then(|texts| texts.first_byte), out),
            Variable::UpstreamTime => seconds(texts.and_then(|texts| texts.upstream_time), out),
            Variable::UpstreamStatus => {
                let status = texts.and_then(|texts| texts.upstream_status);
                status.into_iter().for_each(|status| text::number(status.into(), out));
            }
            Variable::Upstream => match (self.upstream_addresses, self.hierarchy) {
                (Some(servers), _)
                | (None, Hierarchy::Direct(servers) | Hierarchy::Parent(servers)) => {
                    text::nginx(servers.as_bytes(), out);
                }
                (None, Hierarchy::None) => {}
            },
            Variable::Time => {
                let ended = self.since_1970();
                out.extend_from_slice(&Calendar::of(ended.as_secs()).iso);
                text::thousandths(ended.subsec_millis(), out);
                out.push(b'Z');
            }
            _ => {}
        }
    }

    /// Returns the end of the request as the time since 1970. A clock set before 1970 counts as
    /// 1970.
    fn since_1970(&self) -> Duration {
        self.ended.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// Appends the members for what is known of requests that could be read.
fn json_texts(texts: &LogFields, out: &mut Vec<u8>) {
    if let Some(time) = texts.upstream_time {
        out.extend_from_slice(key!("upstream_time_ms"));
        fractional_millis(time, out);
    }
    if let Some(time) = texts.first_byte {
        out.extend_from_slice(key!("first_byte_ms"));
        fractional_millis(time, out);
    }
    string(text_key!("request_id"), texts.request_id(), out);
    let trace = texts.trace();
    string(text_key!("trace_id"), trace.map(TraceContext::trace_id), out);
    string(text_key!("span_id"), trace.map(TraceContext::span_id), out);
    string(text_key!("site"), texts.site(), out);
    string(text_key!("rule"), texts.rule(), out);
}

/// Appends milliseconds with three decimals.
fn fractional_millis(time: Duration, out: &mut Vec<u8>) {
    text::number(millis(time), out);
    text::thousandths(time.subsec_micros() % 1000, out);
}

/// Appends seconds with six decimals.
fn seconds(time: Option<Duration>, out: &mut Vec<u8>) {
    let Some(time) = time else { return };
    text::number(time.as_secs(), out);
    text::thousandths(time.subsec_millis(), out);
    text::padded(u64::from(time.subsec_micros() % 1000), 3, b'0', out);
}

/// Returns the duration in whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn version_text(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// Returns the host of `authority`. Squid logs the server this way, and analysers group by it.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, _)) if host.starts_with('[') && host.ends_with(']') => &host[1..host.len() - 1],
        Some((host, _)) if !host.contains(':') => host,
        _ => authority,
    }
}

/// Passes the URL without its user information to `write`.
fn without_user(url: &[u8], out: &mut Vec<u8>, write: impl Fn(&[u8], &mut Vec<u8>)) {
    let (before, after) = split_user(url);
    if !before.is_empty() {
        write(before, out);
    }
    write(after, out);
}

/// Returns the parts of the URL before and after its user information. Without user information the
/// first part is empty. Both parts end and begin next to ASCII bytes.
fn split_user(url: &[u8]) -> (&[u8], &[u8]) {
    if text::all(url, |b| b != b'@') || url.first() == Some(&b'/') {
        return (b"", url);
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
        Some(at) => (&url[..start], &rest[at + 1..]),
        None => (b"", url),
    }
}

/// Appends a member whose value is one of the program's own names, which need no escaping.
#[inline]
fn name(key: &[u8], name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

/// Appends a string member; appends nothing if `value` is `None`.
#[inline]
fn string(key: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        string_of_two(key, (b"", value), out);
    }
}

/// Appends a string member made of two parts.
#[inline]
fn string_of_two(key: &[u8], (first, second): (&[u8], &[u8]), out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    if !first.is_empty() {
        text::json(first, out);
    }
    text::json(second, out);
    out.push(b'"');
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
