//! Formats one request as one line, in each format of the access log.
//!
//! Values sent by a client or an origin are untrusted and cannot leave their field. Quotes,
//! backslashes, spaces where they separate fields, control bytes and non-ASCII bytes are escaped as
//! readers of the format expect. A line is ASCII and contains exactly one line feed, its last byte.
//! User information (`user:password@`) is removed from the URL and from the referring URL.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Version;

use super::text::{self, Calendar};
use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;

/// Returns the text that precedes the value of a JSON member other than the first.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":").as_bytes()
    };
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The combined format of web servers with times in UTC, followed by the outcome's name.
    #[default]
    Combined,
    /// Squid's native format: `%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt`.
    Squid,
    /// A JSON object.
    Json,
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
        text::number(millis(self.duration), out);
        text::thousandths(self.duration.subsec_micros() % 1000, out);
        out.extend_from_slice(b",\"client\":\"");
        text::address(self.client, out);
        out.push(b'"');
        string(key!("method"), Some(self.method.as_bytes()).filter(|m| !m.is_empty()), out);
        let (before, after) = split_user(self.url.as_bytes());
        if !(before.is_empty() && after.is_empty()) {
            string_of_two(key!("url"), (before, after), out);
        }
        name(key!("version"), version_text(self.version), out);
        out.extend_from_slice(key!("status"));
        text::number(u64::from(self.status), out);
        if let Some(tls) = self.tls {
            name(key!("tls"), tls.version, out);
            name(key!("cipher"), tls.cipher, out);
            string(key!("sni"), tls.sni.as_deref().map(str::as_bytes), out);
        }
        out.extend_from_slice(key!("bytes_out"));
        text::number(self.bytes_out, out);
        out.extend_from_slice(key!("body_out"));
        text::number(self.body_out, out);
        name(key!("outcome"), self.outcome.name(), out);
        if let Some(reason) = self.outcome.reason() {
            name(key!("reason"), reason, out);
        }
        out.extend_from_slice(key!("aborted"));
        out.extend_from_slice(if self.aborted { b"true" } else { b"false" });
        if let Hierarchy::Direct(peer) | Hierarchy::Parent(peer) = self.hierarchy {
            string(key!("upstream"), Some(peer.as_bytes()), out);
        }
        string(key!("upstream_addr"), self.upstream_addresses.map(str::as_bytes), out);
        if let Some(referer) = self.referer {
            string_of_two(key!("referer"), split_user(referer), out);
        }
        string(key!("user_agent"), self.user_agent, out);
        string(key!("content_type"), self.content_type, out);
        out.push(b'}');
    }

    /// Returns the end of the request as the time since 1970. A clock set before 1970 counts as
    /// 1970.
    fn since_1970(&self) -> Duration {
        self.ended.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
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
    out.push(b'"');
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
    out.push(b'"');
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
