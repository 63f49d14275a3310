//! One keep-alive connection of a load generator: sends a request and reads the whole response.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum bytes of a response head.
const HEAD_MAX: usize = 16 << 10;

/// A keep-alive connection.
pub struct Connection<S = TcpStream> {
    to: SocketAddr,
    stream: S,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects; response bodies have at most `body_max` bytes.
    ///
    /// # Errors
    ///
    /// When no server listens at `to`.
    pub async fn open(to: SocketAddr, body_max: usize) -> Result<Connection, String> {
        let fail = |e: std::io::Error| format!("the load generator at {to}: {e}");
        let stream = TcpStream::connect(to).await.map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        Ok(Connection::over(stream, to, body_max))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Returns a connection over a stream that is already open to `to`.
    pub fn over(stream: S, to: SocketAddr, body_max: usize) -> Connection<S> {
        Connection { to, stream, buffer: vec![0; body_max + HEAD_MAX] }
    }

    /// Requests `path` and returns the body of the response.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the response is not 200, has no length or is too long.
    pub async fn get(&mut self, path: &str) -> Result<&[u8], String> {
        self.get_all(path).await.map(|(_, body)| body)
    }

    /// Requests `path` and returns the head and the body of the response.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::get`].
    pub async fn get_all(&mut self, path: &str) -> Result<(&[u8], &[u8]), String> {
        let (head, body) = self.ask(path, "").await?;
        if !head.starts_with(b"HTTP/1.1 200") {
            let text = String::from_utf8_lossy(head);
            return Err(format!("{path}: a wrong answer: {text}"));
        }
        Ok((head, body))
    }

    /// Requests `path` with further fields, each of which ends with CR LF. Returns the head and the
    /// body of the response, whatever its status.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the response has no length or is too long.
    pub async fn ask(&mut self, path: &str, fields: &str) -> Result<(&[u8], &[u8]), String> {
        let to = self.to;
        let fail = |e: std::io::Error| format!("the load generator at {to}: {e}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench.test\r\n{fields}\r\n");
        self.stream.write_all(request.as_bytes()).await.map_err(fail)?;
        self.stream.flush().await.map_err(fail)?;
        let mut filled = 0;
        let (head, length) = loop {
            let got = self.stream.read(&mut self.buffer[filled..]).await.map_err(fail)?;
            if got == 0 {
                return Err(format!("{path}: the connection was closed"));
            }
            filled += got;
            if let Some((head, length)) = framing(&self.buffer[..filled])? {
                if filled >= head + length {
                    break (head, length);
                }
                if head + length > self.buffer.len() {
                    return Err(format!("{path}: an answer of {length} bytes"));
                }
            }
        };
        Ok((&self.buffer[..head], &self.buffer[head..head + length]))
    }
}

/// Returns the length of the head and of the body, as soon as the head is complete.
fn framing(bytes: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    if bytes.starts_with(b"HTTP/1.1 304 ") {
        return Ok(Some((end + 4, 0)));
    }
    for line in bytes[..end].split(|b| *b == b'\n') {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(b"content-length") {
            let text = String::from_utf8_lossy(&line[colon + 1..]);
            let length = text.trim().parse().map_err(|_| format!("a length of {text:?}"))?;
            return Ok(Some((end + 4, length)));
        }
    }
    Err(format!("an answer without a length: {}", String::from_utf8_lossy(&bytes[..end])))
}

/// Runs the futures concurrently until all are done; the first error ends all.
///
/// # Errors
///
/// The first error.
pub async fn all<F>(futures: Vec<F>) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let mut failed = None;
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
        });
        match failed {
            Some(why) => std::task::Poll::Ready(Err(why)),
            None if waiting.is_empty() => std::task::Poll::Ready(Ok(())),
            None => std::task::Poll::Pending,
        }
    })
    .await
}

#[test]
fn framing_waits_for_the_head_and_finds_the_length() {
    assert_eq!(framing(b"HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n";
    assert_eq!(framing(head), Ok(Some((head.len(), 12))));
    assert!(framing(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    let head = b"HTTP/1.1 304 Not Modified\r\n\r\n";
    assert_eq!(framing(head), Ok(Some((head.len(), 0))));
}
