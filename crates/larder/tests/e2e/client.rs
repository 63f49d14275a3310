//! A client that sends exactly the given bytes, and checks the responses.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::body::{self, Name};
use crate::message::{self, Head};
use crate::origin::{self, PATIENCE};

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: Head,
    /// The body as far as it was received, unless it was only checked.
    pub body: Vec<u8>,
    /// Number of body bytes received.
    pub len: u64,
    /// True if the body ended as framed; false if the connection broke.
    pub whole: bool,
    /// Interim responses before this one.
    pub interim: Vec<Head>,
}

impl Reply {
    /// Returns the first value of a header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.head.get(name).unwrap_or_default()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the outcome of the request: `detail` of the proxy's own member of `Cache-Status`,
    /// which is the last (other nodes of a fleet add theirs before), without the reason in
    /// brackets.
    pub fn outcome(&self) -> String {
        let fields = self.head.headers.iter().rev();
        let mut fields = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        let status = fields.next().map_or("", |(_, status)| status.as_str());
        let ours = status.rsplit(',').next().unwrap_or_default();
        let detail = ours.split(';').find_map(|p| p.trim().strip_prefix("detail="));
        let detail = detail.unwrap_or_else(|| panic!("no outcome in {:?}", self.head));
        detail.trim_matches('"').split('(').next().unwrap_or_default().to_owned()
    }

    /// Panics unless this is the whole correct body of `target`, in the version that the response
    /// names.
    #[track_caller]
    pub fn verify(&self, target: &str) {
        assert!(self.whole, "cut off: {:?} after {} bytes", self.head, self.len);
        assert_eq!(self.len, origin::size_of(target), "length of {target}: {:?}", self.head);
        self.verify_from(target, 0);
    }

    /// Panics unless the received bytes are those of `target` from `offset` on.
    #[track_caller]
    pub fn verify_from(&self, target: &str, offset: u64) {
        let seed = self.seed(target);
        let wrong = body::difference(seed, offset, &self.body);
        assert_eq!(wrong, None, "first wrong byte of {target}: {:?}", self.head);
    }

    fn seed(&self, target: &str) -> u64 {
        seed(&self.head, target)
    }
}

fn seed(head: &Head, target: &str) -> u64 {
    let version = head.get("x-version").and_then(|v| v.parse().ok());
    let version = version.unwrap_or_else(|| panic!("not the origin's answer: {head:?}"));
    let variant = head.get("x-variant").unwrap_or_default().to_owned();
    Name { target: target.into(), version, variant }.seed()
}

/// A reusable connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub fn open(to: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    /// Returns the socket, for unusual operations.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads a final head, and the interim ones before it.
    pub fn read_head(&mut self) -> io::Result<(Head, Vec<Head>)> {
        let mut interim = Vec::new();
        loop {
            let head = message::read_head(&mut self.reader)?
                .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
            if head.first.split(' ').nth(1).is_some_and(|s| s.starts_with('1') && s != "101") {
                interim.push(head);
            } else {
                return Ok((head, interim));
            }
        }
    }

    /// Reads the response to a request with `method`, keeping the body.
    pub fn read(&mut self, method: &str) -> io::Result<Reply> {
        let head = self.read_head()?;
        self.read_body(method, head)
    }

    /// Reads the body of a head that [`Connection::read_head`] returned.
    pub fn read_body(&mut self, method: &str, head: (Head, Vec<Head>)) -> io::Result<Reply> {
        let mut body = Vec::new();
        let mut reply = self.body_with(method, head, |_, bytes| body.extend_from_slice(bytes))?;
        reply.body = body;
        Ok(reply)
    }

    /// Reads the response to a request with `method`, passing the body to `take` with its head.
    pub fn read_with(&mut self, method: &str, take: impl FnMut(&Head, &[u8])) -> io::Result<Reply> {
        let head = self.read_head()?;
        self.body_with(method, head, take)
    }

    /// Works like [`Connection::read_body`], but passes the body to `take` with its head.
    pub fn body_with(
        &mut self,
        method: &str,
        (head, interim): (Head, Vec<Head>),
        mut take: impl FnMut(&Head, &[u8]),
    ) -> io::Result<Reply> {
        let status = head.first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("no status line: {head:?}"));
        let mut len = 0;
        let mut count = |bytes: &[u8]| {
            len += bytes.len() as u64;
            take(&head, bytes);
        };
        let tunnel = method == "CONNECT" && status == 200;
        let whole = if method == "HEAD" || [204, 304].contains(&status) || tunnel {
            true
        } else if head.chunked() {
            message::read_chunks(&mut self.reader, count).is_ok()
        } else if let Some(length) = head.length() {
            message::read_exactly(&mut self.reader, length, count).is_ok()
        } else {
            let mut buffer = vec![0; 64 << 10];
            loop {
                match self.reader.read(&mut buffer) {
                    Ok(0) => break true,
                    Ok(n) => count(&buffer[..n]),
                    Err(_) => break false,
                }
            }
        };
        Ok(Reply { status, head, body: Vec::new(), len, whole, interim })
    }
}

/// A request to be sent through a proxy, or to one site.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

/// Returns a `GET` of an absolute URL, or of a path for a reverse proxy.
pub fn get(url: &str) -> Request {
    request("GET", url)
}

/// Returns a request with any method.
pub fn request(method: &str, url: &str) -> Request {
    Request { method: method.into(), url: url.into(), headers: Vec::new(), body: Vec::new() }
}

impl Request {
    /// Adds a header line.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push(format!("{name}: {value}"));
        self
    }

    /// Adds a body.
    pub fn body(mut self, body: &[u8]) -> Request {
        self.body = body.to_vec();
        self.header("Content-Length", &body.len().to_string())
    }

    /// Returns the bytes on the wire. `Host` follows from the URL unless a header names it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.url);
        if !self.headers.iter().any(|h| h.to_ascii_lowercase().starts_with("host:")) {
            let rest = self.url.strip_prefix("http://").unwrap_or("site.test");
            let host = rest.split('/').next().unwrap_or_default();
            text.push_str(&format!("Host: {host}\r\n"));
        }
        for header in &self.headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends the request over a new connection.
    pub fn try_send(&self, to: SocketAddr) -> io::Result<Reply> {
        self.send_on(&mut Connection::open(to)?)
    }

    /// Sends the request over `connection`.
    pub fn send_on(&self, connection: &mut Connection) -> io::Result<Reply> {
        connection.send(&self.bytes())?;
        connection.read(&self.method)
    }

    /// Sends the request over `connection` and checks the body against `target` as it arrives,
    /// without keeping it. Panics at the first wrong byte.
    pub fn check_on(&self, connection: &mut Connection, target: &str) -> io::Result<Reply> {
        connection.send(&self.bytes())?;
        let mut at = 0;
        connection.read_with(&self.method, |head, bytes| {
            let wrong = body::difference(seed(head, target), at, bytes);
            assert_eq!(wrong, None, "first wrong byte of {target}: {head:?}");
            at += bytes.len() as u64;
        })
    }

    /// Sends the request over a new connection; panics if there is no response.
    #[track_caller]
    pub fn send(&self, to: SocketAddr) -> Reply {
        match self.try_send(to) {
            Ok(reply) => reply,
            Err(e) => panic!("{} {}: no answer: {e}", self.method, self.url),
        }
    }
}
