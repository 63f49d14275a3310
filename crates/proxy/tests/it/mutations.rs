//! Randomly damaged messages from both sides: whatever arrives, the proxy keeps running, and its
//! output is valid HTTP.
//!
//! `LARDER_SEED=<seed> cargo test -p proxy --test it mutations` repeats a run.

use std::hash::BuildHasher as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use testkit::client::exchange_bytes;
use testkit::io::PATIENCE;
use testkit::listener::serve_each;
use testkit::origin::{Origin, ok};
use testkit::random::Random;

use crate::rig::Rig;

const ROUNDS: usize = 250;

/// Randomness that prints its seed when a test fails.
struct Chance {
    seed: u64,
    random: Random,
}

impl Chance {
    fn new() -> Chance {
        let seed = match std::env::var("LARDER_SEED") {
            Ok(text) => text.parse().expect("LARDER_SEED is a number"),
            Err(_) => std::hash::RandomState::new().hash_one(()),
        };
        Chance { seed, random: Random::of(seed) }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    fn damage(&mut self, text: &str) -> Vec<u8> {
        self.random.damage(text.as_bytes())
    }
}

impl Drop for Chance {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("replay with LARDER_SEED={}", self.seed);
        }
    }
}

/// Sends bytes, and reads until the end of the connection.
fn talk(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    exchange_bytes(address, &[bytes], |_, _| (), (None, PATIENCE)).bytes
}

#[test]
fn damaged_requests_get_a_valid_response_or_none() {
    let mut chance = Chance::new();
    let origin = Origin::always(ok("Cache-Control: max-age=60\r\n", "hello"));
    let rig = Rig::reverse(origin.address(), true);
    let good = "GET /good HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for round in 0..ROUNDS {
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let whole = [
            format!(
                "GET /{round}?a=b HTTP/1.1\r\nHost: a\r\nAccept: x\r\nRange: bytes=1-2\r\n\r\n"
            ),
            format!(
                "POST /{round} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}",
                smuggled.len()
            ),
            format!(
                "PUT /{round} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {:x};x=y\r\n{smuggled}\r\n0\r\nT: u\r\n\r\n",
                smuggled.len()
            ),
        ];
        let kind = chance.below(whole.len());
        let head = whole[kind].find("\r\n\r\n").unwrap() + 2;
        // Only the fields are damaged: the request line stays, and the rest is the body that the
        // fields frame.
        let (head, body) = whole[kind].split_at(head);
        let line = head.find("\r\n").unwrap() + 2;
        let mut bytes = head.as_bytes()[..line].to_vec();
        bytes.extend(chance.damage(&head[line..]));
        bytes.extend(body.as_bytes());
        let said = talk(rig.address, &bytes);
        let shown = String::from_utf8_lossy(&bytes);
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 "), "round {round}: {shown:?}");
    }
    let said = talk(rig.address, good.as_bytes());
    assert!(said.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&said));
}

/// Starts an origin with damaged responses; each connection gets the next.
fn damaged_origin(answers: Vec<Vec<u8>>) -> (SocketAddr, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let address = serve_each(move |mut stream| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        let mut head = [0; 4096];
        let _ = stream.read(&mut head);
        let _ = stream.write_all(&answers[at % answers.len()]);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read(&mut head);
    });
    (address, answered)
}

#[test]
fn damaged_responses_become_responses_or_errors() {
    let mut chance = Chance::new();
    let whole = [
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n\
         hello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n5\r\nhello\r\n0\r\n\
         T: u\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n\
         no",
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\nContent-Length: 2\r\n\r\nel",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
    ];
    let mut damaged = || {
        let kind = chance.below(whole.len());
        chance.damage(whole[kind])
    };
    let answers: Vec<Vec<u8>> = (0..ROUNDS).map(|_| damaged()).collect();
    let (address, answered) = damaged_origin(answers.clone());
    let rig = Rig::reverse(address, true);
    for round in 0..ROUNDS {
        let range = if round % 3 == 0 { "Range: bytes=1-2\r\n" } else { "" };
        let path = round / 2;
        let ask = format!("GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{range}\r\n");
        let said = talk(rig.address, ask.as_bytes());
        let so_far = answered.load(Ordering::SeqCst);
        let last = so_far.checked_sub(1).map(|at| String::from_utf8_lossy(&answers[at % ROUNDS]));
        let text: String = said.iter().map(|&byte| char::from(byte)).collect();
        assert!(text.starts_with("HTTP/1.1 "), "round {round}: {last:?} became {text:?}");
        // Whatever the origin sent, the proxy sends one response, and its length, if stated, is
        // true.
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        if head.starts_with("HTTP/1.1 1") {
            continue;
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if let Some(length) = length.map(|length| length.parse::<usize>().unwrap()) {
            assert!(body.chars().count() <= length, "round {round}: {last:?} became {text:?}");
        }
        assert!(!head.contains('\0') && !head.contains("\r\r"), "round {round}: {text:?}");
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Encodes an HTTP/2 frame (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns random frames, most of them in a valid order.
fn frames(chance: &mut Chance) -> Vec<u8> {
    const GET: &[u8] = b"\x82\x86\x84\x41\x01a";
    const POST: &[u8] = b"\x83\x86\x84\x41\x01a\x0f\x0d\x013";
    let mut bytes = frame(4, 0, 0, b"");
    for number in 0..1 + chance.below(6) as u32 {
        let stream = 2 * number + 1;
        bytes.extend(match chance.below(12) {
            0..=3 => frame(1, 5, stream, GET),
            4 => [frame(1, 1, stream, &GET[..3]), frame(9, 4, stream, &GET[3..])].concat(),
            5 => [frame(1, 4, stream, POST), frame(0, 1, stream, b"abc")].concat(),
            6 => [frame(1, 4, stream, POST), frame(0, 1, stream, b"abcde")].concat(),
            7 => [frame(1, 5, stream, GET), frame(3, 0, stream, b"\0\0\0\x08")].concat(),
            8 => frame(6, 0, 0, b"12345678"),
            9 => frame(8, 0, chance.below(2) as u32 * stream, b"\x7f\xff\xff\xff"),
            10 => frame(4, 0, 0, b"\0\x01\0\0\x10\0\0\x04\0\0\0\0"),
            _ => frame(chance.below(16) as u8, chance.below(256) as u8, stream, b"\0\0\0\x01\x82"),
        });
    }
    for _ in 0..chance.below(4) {
        let at = chance.below(bytes.len());
        match chance.below(3) {
            0 => bytes[at] = chance.below(256) as u8,
            1 => bytes.truncate(at + 1),
            _ => drop(bytes.splice(at..at, [chance.below(256) as u8])),
        }
    }
    bytes
}

/// Returns whether these bytes are a sequence of complete frames.
fn are_frames(mut bytes: &[u8]) -> bool {
    while let Some(head) = bytes.get(..9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some(rest) = bytes.get(9 + length..) else { return false };
        bytes = rest;
    }
    bytes.is_empty()
}

#[test]
fn damaged_frames_end_at_most_their_connection() {
    let mut chance = Chance::new();
    let origin = Origin::always(ok("Cache-Control: max-age=60\r\n", "hello"));
    let rig = Rig::h2c(origin.address());
    for round in 0..ROUNDS {
        let frames = frames(&mut chance);
        let said = talk(rig.address, &[PREFACE, &frames].concat());
        assert!(are_frames(&said), "round {round}: {frames:?} became {said:?}");
    }
    let good = [PREFACE, &frame(4, 0, 0, b""), &frame(1, 5, 1, b"\x82\x86\x84\x41\x01a")].concat();
    // The sending side stays open, since its end would end an HTTP/2 connection.
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&good).unwrap();
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while !said.windows(5).any(|word| word == b"hello") {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "{said:?}");
        said.extend_from_slice(&piece[..n]);
    }
}
