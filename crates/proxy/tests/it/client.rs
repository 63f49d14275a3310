//! A client that sends exactly the given bytes and parses responses strictly.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough for any machine; only reached if the proxy hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// False if the connection ended before the body did.
    pub complete: bool,
}

impl Answer {
    /// Returns the values of a field, joined.
    pub fn field(&self, name: &str) -> Option<String> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        let first = values.next()?;
        Some(values.fold(first, |all, next| format!("{all}, {next}")))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the outcome named in `Cache-Status`.
    pub fn detail(&self) -> String {
        let status = self.field("cache-status").unwrap_or_default();
        let detail = status.rsplit_once("detail=").map_or("", |(_, detail)| detail);
        detail.trim_matches('"').to_owned()
    }
}

impl Client {
    pub fn connect(proxy: SocketAddr) -> Client {
        let stream = TcpStream::connect(proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, read: Vec::new() }
    }

    pub fn send(&mut self, text: impl AsRef<[u8]>) -> &mut Client {
        self.stream.write_all(text.as_ref()).unwrap();
        self
    }

    /// Shuts down the sending side; the proxy may still respond.
    pub fn half_close(&mut self) -> &mut Client {
        self.stream.shutdown(Shutdown::Write).unwrap();
        self
    }

    /// Resets the connection, which the proxy cannot mistake for a half-close.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Sends a GET for an absolute URL and reads the response.
    pub fn get(&mut self, url: &str) -> Answer {
        self.get_with(url, "")
    }

    /// Works like [`Client::get`] with further fields, each ended by CRLF.
    pub fn get_with(&mut self, url: &str, fields: &str) -> Answer {
        self.send(request("GET", url, fields)).answer()
    }

    /// Returns the head of the next response, including 1xx, with one char per byte.
    pub fn head(&mut self) -> String {
        loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                return self.read.drain(..end + 4).map(char::from).collect();
            }
            assert!(self.fill(), "connection ended within a head: {:?}", self.read);
        }
    }

    pub fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// Returns the next final response to a request with `method`.
    pub fn answer_to(&mut self, method: &str) -> Answer {
        let head = self.head();
        self.rest(head, method)
    }

    /// Returns the rest of a response whose head has been read.
    pub fn rest(&mut self, head: String, method: &str) -> Answer {
        let status: u16 = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new(), complete: true };
        if method == "HEAD" || status == 304 || status == 204 {
            return answer;
        }
        if answer.field("transfer-encoding").is_some_and(|t| t.ends_with("chunked")) {
            answer.complete = self.chunked(&mut answer.body);
        } else if let Some(length) = answer.field("content-length") {
            answer.complete = self.exactly(length.parse().unwrap(), &mut answer.body);
        } else {
            while self.fill() {}
            answer.body = std::mem::take(&mut self.read);
        }
        answer
    }

    /// Reads exactly `n` further bytes; returns false if the connection ends before.
    pub fn exactly(&mut self, n: usize, into: &mut Vec<u8>) -> bool {
        while self.read.len() < n {
            if !self.fill() {
                into.append(&mut self.read);
                return false;
            }
        }
        into.extend(self.read.drain(..n));
        true
    }

    fn chunked(&mut self, into: &mut Vec<u8>) -> bool {
        loop {
            let Some(line) = self.line() else { return false };
            let size = usize::from_str_radix(line.split(';').next().unwrap().trim(), 16).unwrap();
            if size == 0 {
                // Trailers, then an empty line.
                while self.line().is_some_and(|line| !line.is_empty()) {}
                return true;
            }
            if !self.exactly(size, into) || self.line().is_none() {
                return false;
            }
        }
    }

    /// Returns the next line without its terminator.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.read, b"\r\n") {
                let line: Vec<u8> = self.read.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Returns whether the proxy closes the connection now without another byte.
    pub fn closed(&mut self) -> bool {
        self.read.is_empty() && !self.fill()
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0u8; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&buffer[..n]);
                true
            }
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(e) => panic!("reading from the proxy: {e}; so far {:?}", self.read.len()),
        }
    }
}

/// Returns a request with `Host` from its URL.
pub fn request(method: &str, url: &str, fields: &str) -> String {
    let host = url.split('/').nth(2).unwrap_or("");
    format!("{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
