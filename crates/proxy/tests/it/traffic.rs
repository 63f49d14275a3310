//! Mixed traffic through a cache much smaller than the working set: whatever is evicted, joined,
//! validated, cut or abandoned, every byte that arrives is correct.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use testkit::body::fill;
use testkit::client::{Client, Reply, request_text};
use testkit::origin::{Origin, Received, Then};
use testkit::random::Random;

use crate::rig::{Rig, empty_cache_of};

const OBJECTS: usize = 400;
const CLIENTS: u64 = 8;
const REQUESTS: u64 = 250;

/// Returns the seed of this run, or the one to replay.
fn seed() -> u64 {
    let given = std::env::var("LARDER_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        since.as_nanos() as u64
    });
    eprintln!("replay with LARDER_TEST_SEED={seed}");
    seed
}

/// Returns the size of an object, which follows from its number alone.
fn size(object: u64) -> usize {
    let mut random = Random::of(object);
    match random.below(20) {
        0 => 0,
        1 => 1_500_000 + random.below(1_000_000),
        2 | 3 => 100_000 + random.below(200_000),
        _ => random.below(20_000),
    }
}

fn body(object: u64) -> Vec<u8> {
    let mut body = vec![0; size(object)];
    fill(object ^ 0xb0d1, 0, &mut body);
    body
}

fn serve(asked: &Received, stream: &mut TcpStream) -> Then {
    let object: u64 = asked.path.trim_start_matches("/o/").parse().unwrap();
    let tag = format!("\"{object}\"");
    let fields = match object % 7 {
        0 => "Cache-Control: no-store\r\n".to_owned(),
        1 => format!("Cache-Control: max-age=0\r\nETag: {tag}\r\n"),
        2 => format!("Cache-Control: max-age=600\r\nETag: {tag}\r\nVary: X-V\r\n"),
        _ => format!("Cache-Control: max-age=600\r\nETag: {tag}\r\n"),
    };
    if asked.field("if-none-match").as_deref() == Some(&tag) {
        let head = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
        let _ = stream.write_all(head.as_bytes());
        return Then::Stay;
    }
    let body = body(object);
    if asked.method == "HEAD" {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes());
        return Then::Stay;
    }
    let breaks = object % 11 == 3 && asked.number.is_multiple_of(3) && body.len() > 1;
    let sent = if breaks { &body[..body.len() / 2] } else { &body[..] };
    let range = asked.field("range").filter(|_| object.is_multiple_of(2));
    if let Some(range) = range {
        let (first, last) = range["bytes=".len()..].split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        if first < body.len() {
            let last = last.min(body.len() - 1);
            let part = &body[first..=last];
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {first}-{last}/{}\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len(),
                part.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(part);
            return Then::Stay;
        }
    }
    if object.is_multiple_of(3) {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        for piece in sent.chunks(9000) {
            let _ = stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes());
            let _ = stream.write_all(piece);
            let _ = stream.write_all(b"\r\n");
        }
        if !breaks {
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    } else {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(sent);
    }
    if breaks { Then::Close } else { Then::Stay }
}

/// Checks a response to a GET with the requested range.
fn check(object: u64, answer: &Reply, range: Option<(usize, usize)>) {
    let whole = body(object);
    let context = || format!("object {object}, {} {}", answer.status, answer.detail());
    match (answer.status, range) {
        (200, _) if answer.whole => assert!(answer.body == whole, "{}", context()),
        (200, _) => assert!(whole.starts_with(&answer.body), "{}", context()),
        (206, Some((first, last))) => {
            let end = (last + 1).min(whole.len());
            let part = &whole[first..end];
            assert!(part.starts_with(&answer.body), "{}", context());
            assert!(!answer.whole || answer.body == part, "{}", context());
        }
        (416, Some((first, _))) => assert!(first >= whole.len(), "{}", context()),
        (502, _) => {}
        _ => panic!("{}", context()),
    }
}

fn one_client(proxy: std::net::SocketAddr, url: &str, seed: u64, cut: &AtomicU64) {
    let mut random = Random::of(seed);
    let mut client = Client::connect(proxy);
    for _ in 0..REQUESTS {
        // Some objects are requested much more often than others.
        let object = random.below(OBJECTS).min(random.below(OBJECTS)) as u64;
        let url = format!("{url}{object}");
        let first = random.below(size(object) + 10);
        let range = (first, first + random.below(5000));
        let fields = format!("X-V: {}\r\n", random.below(2));
        let answer = match random.below(10) {
            0 => {
                let head = client.send(request_text("HEAD", &url, &fields)).answer_to("HEAD");
                assert!([200, 502].contains(&head.status), "HEAD {object}: {head:?}");
                continue;
            }
            1 | 2 => {
                let fields = format!("{fields}Range: bytes={}-{}\r\n", range.0, range.1);
                let answer = client.get_with(&url, &fields);
                check(object, &answer, Some(range));
                answer
            }
            3 => {
                client.send(request_text("GET", &url, &fields));
                client.head();
                // Leaves in the middle of the body.
                client = Client::connect(proxy);
                continue;
            }
            4 => {
                let fields = format!("{fields}If-None-Match: \"{object}\"\r\n");
                let answer = client.get_with(&url, &fields);
                if answer.status != 304 {
                    check(object, &answer, None);
                }
                answer
            }
            5 => {
                let answer = client.get_with(&url, &format!("{fields}Cache-Control: no-cache\r\n"));
                check(object, &answer, None);
                answer
            }
            _ => {
                let answer = client.get_with(&url, &fields);
                check(object, &answer, None);
                answer
            }
        };
        if !answer.whole {
            cut.fetch_add(1, Ordering::Relaxed);
            client = Client::connect(proxy);
        } else if answer.field("connection").as_deref() == Some("close") {
            client = Client::connect(proxy);
        }
    }
}

#[test]
fn every_byte_of_mixed_traffic_is_correct() {
    let seed = seed();
    let origin = Origin::scripted(serve);
    let mut rig = Rig::forward_with_memory(empty_cache_of(16 << 20), 4 << 20);
    let url = origin.url("/o/");
    let cut = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (proxy, url, cut) = (rig.address, url.clone(), cut.clone());
            thread::spawn(move || one_client(proxy, &url, seed ^ (number << 32), &cut))
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    rig.stop();
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for (outcome, _, _) in rig.seen.outcomes.lock().unwrap().iter() {
        *outcomes.entry(outcome.to_string()).or_default() += 1;
    }
    eprintln!("{} cut, {outcomes:?}", cut.load(Ordering::Relaxed));
    for expected in ["HIT_RAM", "HIT_DISK", "MISS", "REVALIDATED"] {
        assert!(outcomes.contains_key(expected), "{expected}: {outcomes:?}");
    }
    let combined =
        origin.requests().iter().filter(|asked| asked.field("if-range").is_some()).count();
    assert!(combined > 0, "no part was asked for: {outcomes:?}");
    // Only responses that the origin broke, or whose object was evicted under a reader, are cut.
    assert!(cut.load(Ordering::Relaxed) < CLIENTS * REQUESTS / 10, "{outcomes:?}");
}
