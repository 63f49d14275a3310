//! Fuzz tests of the parsers of bytes from peers. The input is pieces of real syntax in random
//! order, some of them damaged. A parser must never panic, must give the same result however the
//! bytes are split, and must not accept damaged input as something else.
//!
//! The parsers of caching fields are tested likewise in `semantics`, those of the device in
//! `store`; heads and frames go through the real program in `tests/it/mutations.rs`.
//!
//! Runs for one second, or for `LARDER_FUZZ_SECONDS`. `LARDER_SEED` sets the seed, which is printed
//! when a test fails.

use std::hash::BuildHasher as _;
use std::time::Duration;

use crate::message::scheme::Scheme;
use fastrand::Rng;
use http1::RequestHead;
use net::clock::TokioClock;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Builder;
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;

use crate::downstream::proxy_protocol;
use crate::downstream::proxy_protocol::ProxyHeader;
use crate::origin::site::{Front, Site};
use crate::request::purge_order::{Purge, Scope};
use crate::request::target;

/// Source of random input that prints its seed when a test panics.
struct Chance(u64, Rng);

impl Chance {
    fn new() -> Chance {
        let seed = match std::env::var("LARDER_SEED") {
            Ok(text) => text.parse().expect("LARDER_SEED is a number"),
            Err(_) => std::hash::RandomState::new().hash_one(()),
        };
        Chance(seed, Rng::with_seed(seed))
    }

    /// Returns up to `most` pieces in random order, some of them damaged.
    fn noise(&mut self, pieces: &[&[u8]], most: usize) -> Vec<u8> {
        let random = &mut self.1;
        let mut bytes = Vec::new();
        for _ in 0..random.usize(..=most) {
            match random.u8(..10) {
                0 => bytes.extend((0..random.usize(..5)).map(|_| random.u8(..))),
                _ => bytes.extend_from_slice(pieces[random.usize(..pieces.len())]),
            }
        }
        if random.bool() && !bytes.is_empty() {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes
    }
}

impl Drop for Chance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with LARDER_SEED={}", self.0);
        }
    }
}

/// Minimum number of rounds, also on a machine too slow to reach it in the given time.
const ROUNDS_MIN: usize = 60_000;

/// Repeats `round` for the time set in the environment (one second by default), and at least
/// [`ROUNDS_MIN`] times.
fn rounds(mut round: impl FnMut(&mut Chance)) {
    let seconds = std::env::var("LARDER_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let (clock, time) = (TokioClock::system(), Duration::from_secs(seconds.unwrap_or(1)));
    let mut chance = Chance::new();
    let mut played = 0;
    while clock.running() < time || played < ROUNDS_MIN {
        (0..50).for_each(|_| round(&mut chance));
        played += 50;
    }
}

const BALANCER: [&[u8]; 16] = [
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"192.0.2.7 192.0.2.1 ",
    b"2001:db8::9 ::1 ",
    b"5 80",
    b"65536 ",
    b"\r\n",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11\0\x0c",
    b"\x21\x21\0\x24",
    b"\x20\0\0\0",
    b"\x21\x31\0\xd8",
    b"\xc0\0\x02\x07\xc0\0\x02\x01\0\x05\0\x50",
    b"\x20\0\x05\x01\0\0\0\0",
];

#[test]
fn fuzz_proxy_protocol_headers() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut read = 0;
    rounds(|chance| {
        let mut bytes = match chance.1.u8(..3) {
            0 => b"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\nGET".to_vec(),
            1 => [BALANCER[9], BALANCER[10], BALANCER[14], b"GET"].concat(),
            _ => Vec::new(),
        };
        bytes.extend(chance.noise(&BALANCER, 12));
        let whole = runtime.block_on(proxy_protocol::read(&mut &bytes[..]));
        let (one, other) = bytes.split_at(chance.1.usize(..=bytes.len()));
        let (mut one, mut other) = (one, other);
        let mut cut = (&mut one).chain(&mut other);
        let pieces = runtime.block_on(proxy_protocol::read(&mut cut));
        match (whole, pieces) {
            (Ok((told, rest)), Ok((ProxyHeader { client, is_tls }, early))) => {
                assert!(bytes.ends_with(&rest), "{bytes:?}");
                assert_eq!((told.client, told.is_tls), (client, is_tls), "{bytes:?}");
                assert!(rest.starts_with(&early), "{bytes:?}");
                read += 1;
            }
            (Err(_), Err(_)) => {}
            (whole, pieces) => panic!("{bytes:?}: {whole:?} and {pieces:?}"),
        }
    });
    assert!(read > 10, "hardly one was read");
}

const TARGETS: [&[u8]; 24] = [
    b"http://",
    b"https://",
    b"ftp://",
    b"/",
    b"//",
    b"*",
    b"?",
    b"#",
    b"@",
    b":",
    b":80",
    b":0",
    b"[::1]",
    b"[",
    b"]",
    b"a.example",
    b"A",
    b"..",
    b"%2e",
    b"%",
    b"u:p@",
    b"x=y&z",
    b";",
    b"\\",
];

fn site() -> Front {
    let servers = Group::one(Endpoint::plain("127.0.0.1", 8080));
    Front::reverse(vec![Site::new("a", servers).with_pass_host(true)])
}

/// Returns the head of a random request; `None` when it does not parse.
fn some_request(chance: &mut Chance) -> Option<RequestHead> {
    let methods = ["GET", "OPTIONS", "CONNECT", "PUT"];
    let mut text = format!("{} ", methods[chance.1.usize(..4)]).into_bytes();
    text.extend(chance.noise(&TARGETS, 6));
    text.extend(b" HTTP/1.1\r\n");
    for _ in 0..chance.1.usize(..3) {
        let host = chance.noise(&TARGETS, 3);
        text.extend([b"Host: ", &host[..], b"\r\n"].concat());
    }
    read(&text)
}

/// Parses a head without its final empty line; `None` when it does not parse as a whole.
fn read(text: &[u8]) -> Option<RequestHead> {
    let (text, mut head) = ([text, b"\r\n"].concat(), RequestHead::default());
    let (length, _) = head.read(&text, text.len()).ok()??;
    (length == text.len()).then_some(head)
}

#[test]
fn fuzz_request_targets() {
    let (forward, reverse, mut taken) = (Front::forward(), site(), 0);
    rounds(|chance| {
        let Some(head) = some_request(chance) else { return };
        let _ = target::tunnel_target(&head);
        for front in [&forward, &reverse] {
            let Ok(target) = target::target(&head, front, Scheme::Http) else { continue };
            taken += 1;
            let text = format!("{head:?} became {target:?}");
            assert!(target.port != 0 && !target.host.contains(['@', '/', '?', '#', ' ']), "{text}");
            // A request for the target's authority has the same target.
            let (path, authority) = (head.target.path_and_query(), target.authority());
            let again = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n");
            let Some(again) = read(again.as_bytes()).filter(|_| path.starts_with('/')) else {
                continue;
            };
            if !target.host.is_empty() {
                let said = target::target(&again, &reverse, target.scheme).expect(&text);
                assert_eq!(said.authority(), authority, "{text}");
            }
        }
    });
    assert!(taken > 10, "hardly one was taken");
}

const QUERIES: [&[u8]; 22] = [
    b"url=",
    b"prefix=",
    b"host=",
    b"tag=",
    b"everything",
    b"everything=",
    b"soft",
    b"soft=1",
    b"&",
    b"=",
    b"%",
    b"%2f",
    b"http://a.example/",
    b"http%3A%2F%2Fa%2F",
    b"a.example:80",
    b"{",
    b"}",
    b"\"url\":",
    b"\"http://a/\"",
    b"[\"x\"]",
    b",",
    b"\"tags\":",
];

#[test]
fn purge_requests_are_carried_out() {
    let mut understood = 0;
    rounds(|chance| {
        let query = chance.noise(&QUERIES, 5);
        let query = String::from_utf8_lossy(&query).into_owned();
        let kinds = [None, Some("application/json; x"), Some("application/x-www-form-urlencoded")];
        let body = chance.noise(&QUERIES, 6);
        let body = if chance.1.bool() { &body[..] } else { b"" };
        match Purge::read(Some(&query), kinds[chance.1.usize(..3)], body) {
            Ok(purge) => {
                understood += 1;
                // No input without the word may purge everything.
                let mut words = [query.as_bytes(), body].into_iter();
                let said = words.any(|text| text.windows(10).any(|word| word == b"everything"));
                assert!(purge.scope != Scope::Everything || said, "{query:?} {body:?}");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    });
    assert!(understood > 10, "hardly one was understood");
}
