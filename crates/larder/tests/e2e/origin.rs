//! A web server whose responses are written in the request URLs.
//!
//! `/name?size=3000&cc=max-age=60&how=short` is a resource of 3,000 bytes whose response is cut
//! off. The parameters, all optional:
//!
//! | parameter | meaning |
//! |---|---|
//! | `size=N` | bytes of the body (1000) |
//! | `status=N` | status code (200) |
//! | `cc=TEXT` | `Cache-Control`; `-` for none (`max-age=3600`) |
//! | `etag=1`, `lm=1` | sends `ETag` or `Last-Modified`, and 304 to a condition that matches |
//! | `weak=1` | the `ETag` is a weak one |
//! | `vary=A,B` | sends `Vary`; the body depends on those request headers |
//! | `h=Name:value` | one more header; may be repeated |
//! | `how=WORD` | how the body is sent, or what goes wrong, see [`How`] |
//! | `gate=NAME` | holds back the second half of the body until the test opens the gate |
//! | `headgate=NAME` | holds back the whole response |
//! | `pace=N` | milliseconds between pieces of 64 KiB |
//! | `ranges=0` | ignores `Range` |
//!
//! All requests are recorded, so that tests can count fetches and check what the proxy sent.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::body::{self, Name};
use crate::message::{self, Head};

/// Maximum duration of any step before a test counts as stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a body is framed, or how the response is broken.
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
    /// `cutchunk`: half of the chunks, no end.
    CutChunk,
    /// `badchunk`: half of the chunks, then an invalid chunk size.
    BadChunk,
    /// `excess`: `Content-Length` states half of what is sent.
    Excess,
    /// `garbage`: not HTTP at all.
    Garbage,
    /// `empty`: the connection is closed without a byte.
    Empty,
    /// `early`: two interim responses (103) before the final one.
    Early,
    /// `two`: two `Content-Length` fields that disagree.
    Two,
}

impl How {
    fn of(word: Option<&str>) -> How {
        match word.unwrap_or("length") {
            "length" => How::Length,
            "chunked" => How::Chunked,
            "trailers" => How::Trailers,
            "close" => How::Close,
            "short" => How::Short,
            "cutchunk" => How::CutChunk,
            "badchunk" => How::BadChunk,
            "excess" => How::Excess,
            "garbage" => How::Garbage,
            "empty" => How::Empty,
            "early" => How::Early,
            "two" => How::Two,
            other => panic!("the origin knows no how={other}"),
        }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The request line and headers.
    pub head: Head,
    /// The request body.
    pub body: Vec<u8>,
    /// Source port of its connection.
    pub from: u16,
}

impl Seen {
    /// Returns the method.
    pub fn method(&self) -> &str {
        self.head.first.split(' ').next().unwrap_or_default()
    }

    /// Returns path and query.
    pub fn target(&self) -> &str {
        self.head.first.split(' ').nth(1).unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    versions: HashMap<String, u64>,
    open: HashSet<String>,
    closed: bool,
    severing: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the origin panics while it holds the lock")
    }

    /// Waits until `ready` returns true. Returns false if the origin is closed or the time is up.
    fn wait(&self, ready: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !ready(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).expect("as in lock").0;
        }
        true
    }
}

/// The running server; it stops responding on drop.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Origin {
    /// Starts the server on a free port of the loopback interface.
    pub fn start() -> Origin {
        Origin::start_at("127.0.0.1:0")
    }

    /// Starts the server at `address`.
    pub fn start_at(address: &str) -> Origin {
        let listener = TcpListener::bind(address).expect("the origin's address can be bound");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let server = shared.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                if server.lock().closed {
                    return;
                }
                let (Ok(connection), server) = (connection, server.clone()) else { continue };
                thread::spawn(move || serve(connection, &server));
            }
        });
        Origin { address, shared }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the absolute URL of `target`.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Returns the number of requests for `target`, with any method.
    pub fn fetches(&self, target: &str) -> usize {
        self.requests(target).len()
    }

    /// Returns the requests for `target`, in order of arrival.
    pub fn requests(&self, target: &str) -> Vec<Seen> {
        self.shared.lock().seen.iter().filter(|s| s.target() == target).cloned().collect()
    }

    /// Waits until `count` requests for `target` have arrived.
    pub fn await_fetches(&self, target: &str, count: usize) {
        let arrived = |s: &State| s.seen.iter().filter(|s| s.target() == target).count() >= count;
        assert!(self.shared.wait(arrived), "{count} fetches of {target} did not arrive");
    }

    /// Changes the version of `target`, and so its body and validators.
    pub fn change(&self, target: &str) {
        *self.shared.lock().versions.entry(target.into()).or_default() += 1;
    }

    /// From now on, closes a reused connection at its next request, without a response, like a
    /// server whose idle timeout expires at that very moment.
    pub fn sever_used_connections(&self) {
        self.shared.lock().severing = true;
    }

    /// Opens a gate: responses that wait at it continue, and later ones do not wait.
    pub fn open(&self, gate: &str) {
        self.shared.lock().open.insert(gate.into());
        self.shared.changed.notify_all();
    }

    /// Closes a gate again.
    pub fn close(&self, gate: &str) {
        self.shared.lock().open.remove(gate);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        // Wakes the accepting thread, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(connection: TcpStream, shared: &Shared) {
    let _ = connection.set_nodelay(true);
    let Ok(mut writer) = connection.try_clone() else { return };
    let from = connection.peer_addr().map_or(0, |address| address.port());
    let mut reader = BufReader::new(connection);
    let mut used = false;
    while let Ok(Some(head)) = message::read_head(&mut reader) {
        let Ok(body) = message::read_request_body(&mut reader, &head) else { return };
        let seen = Seen { head, body, from };
        {
            let mut state = shared.lock();
            if state.closed || state.severing && used {
                return;
            }
            state.seen.push(seen.clone());
        }
        shared.changed.notify_all();
        match Answer::to(&seen, shared).send(&mut writer, shared) {
            Ok(true) => used = true,
            _ => {
                let _ = writer.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

/// Returns the values of `key` in the query of `target`.
fn parameters<'a>(target: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(move |p| {
        let (name, value) = p.split_once('=')?;
        (name == key).then_some(value)
    })
}

/// Returns the first value of `key` in the query of `target`.
pub fn parameter<'a>(target: &'a str, key: &'a str) -> Option<&'a str> {
    parameters(target, key).next()
}

/// Returns the size that `target` specifies.
pub fn size_of(target: &str) -> u64 {
    parameter(target, "size").map_or(1000, |s| s.parse().expect("size is a number"))
}

struct Answer {
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

impl Answer {
    fn to(seen: &Seen, shared: &Shared) -> Answer {
        let target = seen.target();
        let version = shared.lock().versions.get(target).copied().unwrap_or(0);
        let vary = parameter(target, "vary");
        let variant = vary.map_or(String::new(), |names| {
            let said = names.split(',').map(|n| seen.head.get(n).unwrap_or("-"));
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
        let mut answer = Answer {
            head_only: seen.method() == "HEAD",
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
        let current = answer.validate(seen, version);
        if current {
            (answer.status, answer.end) = (304, 0);
        } else if status == 200 && parameter(target, "ranges") != Some("0") {
            answer.range(seen, size);
        }
        answer
    }

    /// Adds the validators; returns whether the request's condition matches them.
    fn validate(&mut self, seen: &Seen, version: u64) -> bool {
        let mut current = false;
        if parameter(seen.target(), "etag").is_some() {
            let weak = if parameter(seen.target(), "weak").is_some() { "W/" } else { "" };
            let tag = format!("{weak}\"v{version}-{:x}\"", self.seed & 0xffff);
            current |= seen.head.get("if-none-match").is_some_and(|m| m.contains(&tag));
            self.headers.push(format!("ETag: {tag}"));
            if parameter(seen.target(), "ranges").is_some() {
                self.headers.push("Accept-Ranges: bytes".to_owned());
            }
        }
        if parameter(seen.target(), "lm").is_some() {
            let changed = std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000 + version);
            let text = httpdate::fmt_http_date(changed);
            current |= seen.head.get("if-modified-since") == Some(&text);
            self.headers.push(format!("Last-Modified: {text}"));
        }
        current && ["GET", "HEAD"].contains(&seen.method())
    }

    /// Applies a single range `bytes=A-B` or `bytes=A-` inside the body, unless `If-Range` names
    /// another version.
    fn range(&mut self, seen: &Seen, size: u64) {
        let named = |tag: &str| self.headers.iter().any(|line| line == &format!("ETag: {tag}"));
        if seen.head.get("if-range").is_some_and(|tag| !named(tag)) {
            return;
        }
        let Some(range) = seen.head.get("range").and_then(|r| r.strip_prefix("bytes=")) else {
            return;
        };
        let Some((first, last)) = range.split_once('-') else { return };
        let Ok(first) = first.parse::<u64>() else { return };
        let last = last.parse().unwrap_or(u64::MAX).min(size.saturating_sub(1));
        if seen.method() == "GET" && first <= last && first < size {
            (self.status, self.begin, self.end) = (206, first, last + 1);
            self.headers.push(format!("Content-Range: bytes {first}-{last}/{size}"));
        }
    }

    /// Sends the response; returns whether the connection can be reused.
    fn send(&self, to: &mut TcpStream, shared: &Shared) -> io::Result<bool> {
        if let Some(gate) = &self.headgate {
            shared.wait(|s| s.open.contains(gate));
        }
        match self.how {
            How::Garbage => {
                to.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\nnot at all\r\n")?;
                return Ok(false);
            }
            How::Empty => return Ok(false),
            How::Early => {
                let early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
                to.write_all(early)?;
                to.write_all(early)?;
            }
            _ => {}
        }
        to.write_all(self.head().as_bytes())?;
        if self.head_only || self.status == 304 {
            return Ok(true);
        }
        match self.how {
            How::Chunked | How::Trailers | How::CutChunk | How::BadChunk => {
                self.send_chunks(to, shared)?;
            }
            How::Short => self.send_bytes(to, shared, self.begin + self.len() / 2)?,
            _ => self.send_bytes(to, shared, self.end)?,
        }
        Ok(matches!(self.how, How::Length | How::Chunked | How::Trailers | How::Early))
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
        let len = self.len();
        match self.how {
            _ if self.status == 304 => {}
            How::Chunked | How::CutChunk | How::BadChunk => {
                head.push_str("Transfer-Encoding: chunked\r\n");
            }
            How::Trailers => {
                head.push_str("Trailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n");
            }
            How::Close => head.push_str("Connection: close\r\n"),
            How::Excess => head.push_str(&format!("Content-Length: {}\r\n", len / 2)),
            How::Two => {
                let (a, b) = (len, len + 1);
                head.push_str(&format!("Content-Length: {a}\r\nContent-Length: {b}\r\n"));
            }
            _ => head.push_str(&format!("Content-Length: {len}\r\n")),
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
            shared.wait(|s| s.open.contains(gate));
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
        let broken = matches!(self.how, How::CutChunk | How::BadChunk);
        let end = if broken { self.begin + self.len() / 2 } else { self.end };
        let mut at = self.begin;
        while at < end {
            self.pause(at, shared);
            let piece = self.piece(at, end, 1 + body::mix(at ^ self.seed) % (48 << 10));
            write!(to, "{:x}\r\n", piece.len())?;
            to.write_all(&piece)?;
            to.write_all(b"\r\n")?;
            at += piece.len() as u64;
        }
        match self.how {
            How::CutChunk => Ok(()),
            How::BadChunk => to.write_all(b"xyz\r\nmore\r\n"),
            How::Trailers => to.write_all(b"0\r\nX-Trailer: behind\r\n\r\n"),
            _ => to.write_all(b"0\r\n\r\n"),
        }
    }
}
