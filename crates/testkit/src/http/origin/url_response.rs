//! Responses that are written in the request URLs.
//!
//! `/name?size=3000&cc=max-age=60&how=short` is a resource of 3,000 bytes whose response is cut
//! off. The parameters, all optional:
//!
//! | parameter | meaning |
//! |---|---|
//! | `size=N` | bytes of the body (1000) |
//! | `status=N` | status code (200) |
//! | `cc=TEXT` | `Cache-Control`; `-` for none (`max-age=3600`) |
//! | `etag=1` | sends `ETag`, and 304 to a condition that matches |
//! | `vary=A,B` | sends `Vary`; the body depends on those request headers |
//! | `h=Name:value` | one more header; may be repeated |
//! | `how=WORD` | how the body is sent, see [`How`] |
//! | `gate=NAME` | holds back the second half of the body until the test opens the gate |
//! | `headgate=NAME` | holds back the whole response |
//! | `pace=N` | milliseconds between pieces of 64 KiB |
//! | `ranges=0` | ignores `Range` |
//!
//! The body follows from the URL, too ([`crate::body`]).

use std::io::{self, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::{Received, Shared, Then};
use crate::body::{self, Name, parameter, parameters, size_of};

/// How a body is framed, or broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// `length`: `Content-Length`, no fault.
    Length,
    /// `chunked`: chunks of uneven sizes.
    Chunked,
    /// `trailers`: chunks, and a trailer after them.
    Trailers,
    /// `close`: no framing; the end of the connection ends the body.
    Close,
    /// `short`: `Content-Length` states the whole, half of it is sent.
    Short,
}

impl How {
    fn of(word: Option<&str>) -> How {
        match word.unwrap_or("length") {
            "length" => How::Length,
            "chunked" => How::Chunked,
            "trailers" => How::Trailers,
            "close" => How::Close,
            "short" => How::Short,
            other => panic!("the origin knows no how={other}"),
        }
    }
}

/// Sends the response that the URL of `request` describes.
pub(crate) fn respond(request: &Received, to: &mut TcpStream, shared: &Shared) -> io::Result<Then> {
    let stays = Response::to(request, shared).send(to, shared)?;
    Ok(if stays { Then::Stay } else { Then::Close })
}

struct Response {
    head_only: bool,
    how: How,
    status: u16,
    headers: Vec<String>,
    seed: u64,
    /// The part of the body that is sent.
    begin: u64,
    end: u64,
    gate: Option<String>,
    headgate: Option<String>,
    pace: Duration,
}

impl Response {
    fn to(request: &Received, shared: &Shared) -> Response {
        let target = &*request.path;
        let version = shared.version(target);
        let vary = parameter(target, "vary");
        let variant = vary.map_or(String::new(), |names| {
            let said = names.split(',').map(|n| request.head.get(n).unwrap_or("-"));
            said.collect::<Vec<_>>().join("|")
        });
        let seed = Name { target: target.into(), version, variant: variant.clone() }.seed();
        let mut headers = vec![format!("X-Version: {version}"), format!("X-Variant: {variant}")];
        headers.push(format!("Date: {}", httpdate::fmt_http_date(std::time::SystemTime::now())));
        match parameter(target, "cc") {
            None => headers.push("Cache-Control: max-age=3600".into()),
            Some("-") => {}
            Some(text) => headers.push(format!("Cache-Control: {text}")),
        }
        headers.extend(vary.map(|v| format!("Vary: {v}")));
        for more in parameters(target, "h") {
            headers.push(more.replacen(':', ": ", 1));
        }
        let size = size_of(target);
        let status = parameter(target, "status").map_or(200, |s| s.parse().expect("a status"));
        let mut response = Response {
            head_only: request.method == "HEAD",
            how: How::of(parameter(target, "how")),
            status,
            headers,
            seed,
            begin: 0,
            end: size,
            gate: parameter(target, "gate").map(str::to_owned),
            headgate: parameter(target, "headgate").map(str::to_owned),
            pace: Duration::from_millis(
                parameter(target, "pace").map_or(0, |p| p.parse().expect("milliseconds")),
            ),
        };
        let current = response.validate(request, version);
        if current {
            (response.status, response.end) = (304, 0);
        } else if status == 200 && parameter(target, "ranges") != Some("0") {
            response.range(request, size);
        }
        response
    }

    /// Adds the validator; returns whether the request's condition matches it.
    fn validate(&mut self, request: &Received, version: u64) -> bool {
        let mut current = false;
        if parameter(&request.path, "etag").is_some() {
            let tag = format!("\"v{version}-{:x}\"", self.seed & 0xffff);
            current = request.head.get("if-none-match").is_some_and(|m| m.contains(&tag));
            self.headers.push(format!("ETag: {tag}"));
            if parameter(&request.path, "ranges").is_some() {
                self.headers.push("Accept-Ranges: bytes".to_owned());
            }
        }
        current && ["GET", "HEAD"].contains(&&*request.method)
    }

    /// Applies a single range `bytes=A-B` or `bytes=A-` inside the body, unless `If-Range` names
    /// another version.
    fn range(&mut self, request: &Received, size: u64) {
        let named = |tag: &str| self.headers.iter().any(|line| line == &format!("ETag: {tag}"));
        if request.head.get("if-range").is_some_and(|tag| !named(tag)) {
            return;
        }
        let Some(range) = request.head.get("range").and_then(|r| r.strip_prefix("bytes=")) else {
            return;
        };
        let Some((first, last)) = range.split_once('-') else { return };
        let Ok(first) = first.parse::<u64>() else { return };
        let last = last.parse().unwrap_or(u64::MAX).min(size.saturating_sub(1));
        if request.method == "GET" && first <= last && first < size {
            (self.status, self.begin, self.end) = (206, first, last + 1);
            self.headers.push(format!("Content-Range: bytes {first}-{last}/{size}"));
        }
    }

    /// Sends the response; returns whether the connection can be reused.
    fn send(&self, to: &mut TcpStream, shared: &Shared) -> io::Result<bool> {
        if let Some(gate) = &self.headgate {
            shared.pass(gate);
        }
        to.write_all(self.head().as_bytes())?;
        if self.head_only || self.status == 304 {
            return Ok(true);
        }
        match self.how {
            How::Chunked | How::Trailers => self.send_chunks(to, shared)?,
            How::Short => self.send_bytes(to, shared, self.begin + self.len() / 2)?,
            _ => self.send_bytes(to, shared, self.end)?,
        }
        Ok(matches!(self.how, How::Length | How::Chunked | How::Trailers))
    }

    fn len(&self) -> u64 {
        self.end - self.begin
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} As-Asked\r\n", self.status);
        for header in &self.headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        match self.how {
            _ if self.status == 304 => {}
            How::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            How::Trailers => {
                head.push_str("Trailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n");
            }
            How::Close => head.push_str("Connection: close\r\n"),
            _ => head.push_str(&format!("Content-Length: {}\r\n", self.len())),
        }
        head.push_str("\r\n");
        head
    }

    /// Waits as configured before the byte at `at` is sent.
    fn pause(&self, at: u64, shared: &Shared) {
        if at > self.begin && !self.pace.is_zero() {
            thread::sleep(self.pace);
        }
        if let Some(gate) = &self.gate
            && at >= self.begin + self.len() / 2
        {
            shared.pass(gate);
        }
    }

    /// Returns the piece from `at` on: at most `limit` bytes, never across the middle, where gates
    /// are.
    fn piece(&self, at: u64, end: u64, limit: u64) -> Vec<u8> {
        let middle = self.begin + self.len() / 2;
        let end = if at < middle { end.min(middle) } else { end };
        let mut piece = vec![0; limit.min(end - at) as usize];
        body::fill(self.seed, at, &mut piece);
        piece
    }

    fn send_bytes(&self, to: &mut TcpStream, shared: &Shared, end: u64) -> io::Result<()> {
        let mut at = self.begin;
        while at < end {
            self.pause(at, shared);
            let piece = self.piece(at, end, 64 << 10);
            to.write_all(&piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn send_chunks(&self, to: &mut TcpStream, shared: &Shared) -> io::Result<()> {
        let mut at = self.begin;
        while at < self.end {
            self.pause(at, shared);
            let piece = self.piece(at, self.end, 1 + body::mix(at ^ self.seed) % (48 << 10));
            write!(to, "{:x}\r\n", piece.len())?;
            to.write_all(&piece)?;
            to.write_all(b"\r\n")?;
            at += piece.len() as u64;
        }
        match self.how {
            How::Trailers => to.write_all(b"0\r\nX-Trailer: behind\r\n\r\n"),
            _ => to.write_all(b"0\r\n\r\n"),
        }
    }
}
