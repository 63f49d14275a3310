//! A client that sends bytes unchanged, and reads the responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::message::{self, Head};

/// Silence after which the client ends its side, so that a proxy that waits for more learns that
/// nothing comes.
const SILENCE: Duration = Duration::from_millis(400);

/// Pause between two parts of a request.
const PAUSE: Duration = Duration::from_millis(20);

/// Sends bytes on a new connection, part after part, and returns all received bytes until it ends.
pub fn exchange(proxy: SocketAddr, parts: &[&[u8]], patience: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy).expect("the proxy accepts");
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        // A proxy that rejects the request need not read all of it.
        let _ = stream.write_all(part);
    }
    let mut read = Vec::new();
    stream.set_read_timeout(Some(SILENCE)).expect("a time-out can be set");
    if let Err(error) = stream.read_to_end(&mut read)
        && matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    {
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(patience)).expect("a time-out can be set");
        let _ = stream.read_to_end(&mut read);
    }
    read
}

/// Returns the statuses of the final responses in these bytes, in order. No body contains such a
/// line.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.match_indices("HTTP/1.").filter_map(|(at, _)| {
        let rest = text.get(at + 9..)?;
        let digits = rest.get(..3)?;
        let is_line = text.as_bytes().get(at + 8) == Some(&b' ')
            && rest.as_bytes().get(3).is_none_or(|b| b" \r".contains(b));
        digits.parse().ok().filter(|status| is_line && *status >= 200)
    });
    lines.collect()
}

/// A response, as far as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// True if its end is where its head states.
    pub whole: bool,
}

impl Answer {
    /// Returns the value for bytes that are not a response, or for no bytes.
    fn none() -> Answer {
        Answer { status: 0, head: String::new(), body: String::new(), whole: false }
    }
}

/// A connection for a sequence of requests.
pub struct Client {
    proxy: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
    patience: Duration,
}

impl Client {
    pub fn new(proxy: SocketAddr, patience: Duration) -> Client {
        Client { proxy, stream: None, patience }
    }

    /// Sends a request on the previous connection if it still exists; 1xx responses are skipped.
    pub fn ask(&mut self, method: &str, path: &str) -> Answer {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: site.test\r\n\r\n");
        let mut stream = self.stream.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(self.proxy).expect("the proxy accepts");
            stream.set_read_timeout(Some(self.patience)).expect("a time-out can be set");
            BufReader::new(stream)
        });
        let _ = stream.get_mut().write_all(request.as_bytes());
        let (answer, stays) = read_answer(&mut stream, method);
        let stays = stays && !ended(&mut stream, self.patience);
        self.stream = stays.then_some(stream);
        answer
    }
}

/// Reads one response; also returns whether the connection can be reused.
fn read_answer(stream: &mut BufReader<TcpStream>, method: &str) -> (Answer, bool) {
    let head = loop {
        match read_head(stream) {
            Some(head) if head.first.starts_with("HTTP/1.1 1") => {}
            Some(head) => break head,
            None => return (Answer::none(), false),
        }
    };
    let Some(status) = head.first.get(9..12).and_then(|digits| digits.parse().ok()) else {
        return (Answer::none(), false);
    };
    let mut body = Vec::new();
    let bodiless = method == "HEAD" || [204, 304].contains(&status);
    let mut stays = !head.get("connection").is_some_and(|value| value.contains("close"));
    let read = match (bodiless, head.chunked(), head.length()) {
        (true, ..) => Ok(()),
        (_, true, _) => {
            message::read_chunks(stream, |bytes| body.extend_from_slice(bytes)).map(drop)
        }
        (_, _, Some(length)) => {
            message::read_exactly(stream, length, |bytes| body.extend_from_slice(bytes))
        }
        _ => {
            stays = false;
            stream.read_to_end(&mut body).map(drop)
        }
    };
    stays &= stream.buffer().is_empty();
    let text: Vec<_> =
        head.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let answer = Answer {
        status,
        head: text.join("\n"),
        body: String::from_utf8_lossy(&body).into_owned(),
        whole: read.is_ok(),
    };
    (answer, stays && read.is_ok())
}

/// Reads a head with any bytes in its values; returns `None` if there is none.
fn read_head(stream: &mut impl BufRead) -> Option<Head> {
    let mut line = || {
        let mut bytes = Vec::new();
        stream.read_until(b'\n', &mut bytes).ok()?;
        let line = bytes.strip_suffix(b"\r\n")?;
        Some(line.iter().map(|&b| char::from(b)).collect::<String>())
    };
    let mut head = Head { first: line()?, headers: Vec::new() };
    loop {
        let field = line()?;
        if field.is_empty() {
            return Some(head);
        }
        let (name, value) = field.split_once(':')?;
        head.headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// Returns whether the other side has closed the connection.
fn ended(stream: &mut BufReader<TcpStream>, patience: Duration) -> bool {
    let _ = stream.get_ref().set_read_timeout(Some(Duration::from_millis(5)));
    let ended = matches!(stream.fill_buf(), Ok([]));
    let _ = stream.get_ref().set_read_timeout(Some(patience));
    ended
}
