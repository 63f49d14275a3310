//! An HTTP/1.1 client that sends exactly the given bytes, and returns every byte of the responses.
//!
//! [`Client`] blocks on a socket of this machine. [`Request::exchange`] does the same over any
//! asynchronous stream, also in virtual time.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::body::{self, Name, size_of};
use crate::io::{PATIENCE, fill, is_silence, read_more};
use crate::message::{Body, Fields, Head, find};

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Status line and fields.
    pub head: Head,
    /// The body as far as it was received, unless it was only checked.
    pub body: Vec<u8>,
    /// Number of body bytes received.
    pub len: u64,
    /// True if the body ended as framed; false if the connection broke.
    pub whole: bool,
    /// Interim responses before this one.
    pub interim: Vec<Head>,
    /// Fields after a chunked body, with names in lower case.
    pub trailers: Fields,
}

impl Reply {
    fn new(head: Head, interim: Vec<Head>) -> io::Result<Reply> {
        let (status, trailers) = (head.status()?, Fields::new());
        Ok(Reply { status, head, body: Vec::new(), len: 0, whole: false, interim, trailers })
    }

    /// Returns the first value of a field; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.head.get(name).unwrap_or_default()
    }

    /// Returns all values of a field, joined with commas.
    pub fn field(&self, name: &str) -> Option<String> {
        self.head.field(name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns `Cache-Status` with the members of all caches; empty without one.
    pub fn cache_status(&self) -> String {
        self.field("cache-status").unwrap_or_default()
    }

    /// Returns `detail` of the proxy's own member of `Cache-Status`, which is the last (other nodes
    /// of a fleet add theirs before); empty without one.
    pub fn detail(&self) -> String {
        let status = self.head.values("cache-status").next_back().unwrap_or_default();
        let detail = status.rsplit_once("detail=").map_or("", |(_, detail)| detail);
        detail.trim_matches('"').to_owned()
    }

    /// Returns the outcome of the request: [`Reply::detail`] without the reason in brackets.
    ///
    /// # Panics
    ///
    /// The proxy named none.
    #[track_caller]
    pub fn outcome(&self) -> String {
        let detail = self.detail();
        assert!(!detail.is_empty(), "no outcome in {:?}", self.head);
        detail.split('(').next().unwrap_or_default().to_owned()
    }

    /// Panics unless this is the whole correct body of `target`, in the version that the response
    /// names.
    #[track_caller]
    pub fn verify(&self, target: &str) {
        assert!(self.whole, "cut off: {:?} after {} bytes", self.head, self.len);
        assert_eq!(self.len, size_of(target), "length of {target}: {:?}", self.head);
        self.verify_from(target, 0);
    }

    /// Panics unless the received bytes are those of `target` from `offset` on.
    #[track_caller]
    pub fn verify_from(&self, target: &str, offset: u64) {
        let wrong = body::difference(seed(&self.head, target), offset, &self.body);
        assert_eq!(wrong, None, "first wrong byte of {target}: {:?}", self.head);
    }
}

fn seed(head: &Head, target: &str) -> u64 {
    let version = head.get("x-version").and_then(|v| v.parse().ok());
    let version = version.unwrap_or_else(|| panic!("not the origin's response: {head:?}"));
    let variant = head.get("x-variant").unwrap_or_default().to_owned();
    Name { target: target.into(), version, variant }.seed()
}

/// A connection that can be used for several requests. Methods without an `io::Result` panic if the
/// proxy fails or is silent for longer than [`PATIENCE`].
pub struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    interim: Vec<Head>,
    takes_silence: bool,
}

impl Client {
    /// Connects.
    pub fn connect(to: SocketAddr) -> Client {
        Client::open(to).expect("the proxy accepts connections")
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// No connection can be established.
    pub fn open(to: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let (buffer, interim) = (BytesMut::new(), Vec::new());
        Ok(Client { stream, buffer, interim, takes_silence: false })
    }

    /// Returns the socket, for unusual operations.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.try_send(bytes).expect("the proxy reads");
        self
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Shuts down the sending side; the proxy may still respond.
    pub fn half_close(&mut self) -> &mut Client {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
        self
    }

    /// Resets the connection, which the proxy cannot mistake for a half-close.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    }

    /// Sends a GET for an absolute URL and reads the response.
    pub fn get(&mut self, url: &str) -> Reply {
        self.get_with(url, "")
    }

    /// Works like [`Client::get`] with further fields, each ended by CR LF.
    pub fn get_with(&mut self, url: &str, fields: &str) -> Reply {
        self.send(request_text("GET", url, fields)).answer()
    }

    /// Returns the next head, which may be that of an interim response.
    pub fn head(&mut self) -> Head {
        self.any_head().expect("the proxy responds")
    }

    fn any_head(&mut self) -> io::Result<Head> {
        loop {
            if let Some(head) = Head::take(&mut self.buffer)? {
                return Ok(head);
            }
            if !self.fill()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns the next final head. The interim ones before it become part of the response that
    /// [`Client::rest`] returns.
    ///
    /// # Errors
    ///
    /// The connection ends before, or the head is malformed.
    pub fn read_head(&mut self) -> io::Result<Head> {
        loop {
            let head = self.any_head()?;
            match head.status()? {
                101 | 200.. => return Ok(head),
                _ => self.interim.push(head),
            }
        }
    }

    /// Returns the response to a GET.
    pub fn answer(&mut self) -> Reply {
        self.answer_to("GET")
    }

    /// Returns the response to a request with `method`.
    pub fn answer_to(&mut self, method: &str) -> Reply {
        self.read(method).expect("the proxy responds")
    }

    /// Returns the response to a request with `method`.
    ///
    /// # Errors
    ///
    /// The connection ends before the head does, or the head is malformed.
    pub fn read(&mut self, method: &str) -> io::Result<Reply> {
        let head = self.read_head()?;
        Ok(self.rest(head, method))
    }

    /// Counts a body that falls silent as cut off from now on, instead of panicking.
    pub fn take_silence(&mut self) {
        self.takes_silence = true;
    }

    /// Returns the response to a request with `method` whose head has been read.
    pub fn rest(&mut self, head: Head, method: &str) -> Reply {
        let mut body = Vec::new();
        let reply = self.rest_with(head, method, |_, bytes| body.extend_from_slice(bytes));
        Reply { body, ..reply.expect("a status line") }
    }

    /// Works like [`Client::rest`], but passes the body to `take` with its head.
    ///
    /// # Errors
    ///
    /// The head is malformed.
    pub fn rest_with(
        &mut self,
        head: Head,
        method: &str,
        mut take: impl FnMut(&Head, &[u8]),
    ) -> io::Result<Reply> {
        let mut body = Body::of_response(&head, method)?;
        let mut reply = Reply::new(head, std::mem::take(&mut self.interim))?;
        loop {
            let taken = body.take(&mut self.buffer, |bytes| {
                reply.len += bytes.len() as u64;
                take(&reply.head, bytes);
            });
            match taken {
                Ok(Some(trailers)) => {
                    (reply.whole, reply.trailers) = (true, trailers);
                    return Ok(reply);
                }
                Ok(None) => {}
                Err(_) => return Ok(reply),
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => {
                    reply.whole = body.ends_with_connection();
                    return Ok(reply);
                }
                Err(error) if is_silence(&error) && !self.takes_silence => {
                    panic!("no more of {:?} after {} bytes", reply.head, reply.len)
                }
                Err(_) => return Ok(reply),
            }
        }
    }

    /// Reads exactly `n` further bytes; returns false if the connection ends before.
    pub fn exactly(&mut self, n: usize, into: &mut Vec<u8>) -> bool {
        while self.buffer.len() < n {
            if !self.fill_or_end() {
                into.extend_from_slice(&self.buffer.split());
                return false;
            }
        }
        into.extend_from_slice(&self.buffer.split_to(n));
        true
    }

    /// Reads all bytes up to the end of the connection.
    pub fn to_end(&mut self) -> Vec<u8> {
        while self.fill_or_end() {}
        self.buffer.split().to_vec()
    }

    /// Returns the next line without its terminator; `None` if the connection ends before.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end + 2);
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.fill_or_end() {
                return None;
            }
        }
    }

    /// Returns whether the proxy closes the connection now without another byte.
    pub fn closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill_or_end()
    }

    /// Returns whether the proxy has closed the connection without another byte `after` a time.
    pub fn is_closed_after(&mut self, after: Duration) -> bool {
        let before = self.stream.read_timeout().expect("an open socket");
        self.stream.set_read_timeout(Some(after)).expect("a time that is not zero");
        let filled = self.fill();
        self.stream.set_read_timeout(before).expect("a time that was set");
        self.buffer.is_empty() && matches!(filled, Ok(false))
    }

    /// Returns whether bytes have been received that no response needed.
    pub fn has_excess(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Reads more; returns false at the end of the connection, in order or by a reset.
    fn fill_or_end(&mut self) -> bool {
        match self.fill() {
            Ok(more) => more,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("reading from the proxy: {error}; so far {:?}", self.buffer),
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        fill(&mut self.stream, &mut self.buffer)
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

/// Returns the text of a request without a body, with these fields, each ended by CR LF.
pub fn request_text(method: &str, url: &str, fields: &str) -> String {
    let host = url.split('/').nth(2).unwrap_or("");
    format!("{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

impl Request {
    /// Adds a field.
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
    ///
    /// # Errors
    ///
    /// There is no response.
    pub fn try_send(&self, to: SocketAddr) -> io::Result<Reply> {
        self.send_on(&mut Client::open(to)?)
    }

    /// Sends the request over a connection.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub fn send_on(&self, client: &mut Client) -> io::Result<Reply> {
        client.try_send(self.bytes())?;
        client.read(&self.method)
    }

    /// Sends the request over a connection and checks the body against `target` as it arrives,
    /// without keeping it. Panics at the first wrong byte.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub fn check_on(&self, client: &mut Client, target: &str) -> io::Result<Reply> {
        client.try_send(self.bytes())?;
        let mut at = 0;
        let head = client.read_head()?;
        client.rest_with(head, &self.method, |head, bytes| {
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
            Err(e) => panic!("{} {}: no response: {e}", self.method, self.url),
        }
    }

    /// Sends the request over an asynchronous stream. Returns the response and its bytes as
    /// received, including interim responses.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn exchange(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<(Reply, Vec<u8>)> {
        stream.write_all(&self.bytes()).await?;
        let (mut buffer, mut received, mut interim) = (BytesMut::new(), Vec::new(), Vec::new());
        let mut reply = loop {
            match Head::take(&mut buffer)? {
                Some(head) if matches!(head.status()?, 101 | 200..) => {
                    break Reply::new(head, interim)?;
                }
                Some(head) => interim.push(head),
                None if read_more(&mut stream, &mut buffer, &mut received).await? => {}
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        };
        let mut body = Body::of_response(&reply.head, &self.method)?;
        reply.whole = loop {
            let kept = &mut reply.body;
            match body.take(&mut buffer, |bytes| kept.extend_from_slice(bytes)) {
                Ok(Some(trailers)) => {
                    reply.trailers = trailers;
                    break true;
                }
                Ok(None) => {}
                Err(_) => break false,
            }
            match read_more(&mut stream, &mut buffer, &mut received).await {
                Ok(true) => {}
                Ok(false) => break body.ends_with_connection(),
                Err(_) => break false,
            }
        };
        reply.len = reply.body.len() as u64;
        received.truncate(received.len() - buffer.len());
        Ok((reply, received))
    }
}

/// The bytes received on a connection.
pub struct RawReply {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Which side ended the connection.
    pub end: &'static str,
}

/// Sends pieces on a new connection, and reads until the end. Calls `after` after each piece with
/// the number of pieces left. The client ends its side after a `silence`, so that a proxy that
/// waits for more learns that nothing comes; without a `silence`, at once. Then it reads for at
/// most `patience`.
pub fn exchange_bytes(
    to: SocketAddr,
    pieces: &[impl AsRef<[u8]>],
    mut after: impl FnMut(&TcpStream, usize),
    (silence, patience): (Option<Duration>, Duration),
) -> RawReply {
    let mut stream = TcpStream::connect(to).expect("the proxy accepts");
    stream.set_nodelay(true).expect("a TCP connection");
    for (number, piece) in pieces.iter().enumerate() {
        // A proxy that rejects the request need not read all of it.
        let _ = stream.write_all(piece.as_ref());
        after(&stream, pieces.len() - number - 1);
    }
    let mut bytes = Vec::new();
    if silence.is_some() {
        stream.set_read_timeout(silence).expect("a time-out can be set");
        match stream.read_to_end(&mut bytes) {
            Err(error) if is_silence(&error) => (),
            _ => return RawReply { bytes, end: "the server closed" },
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(patience)).expect("a time-out can be set");
    match stream.read_to_end(&mut bytes) {
        Err(error) if is_silence(&error) => RawReply { bytes, end: "the server did not close" },
        _ => RawReply { bytes, end: "the client closed" },
    }
}
