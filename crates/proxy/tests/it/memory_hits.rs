//! Hits from memory as seen by clients: many in a row on one connection, split anywhere, unread,
//! behind misses, beside concurrent clients, and while the proxy drains.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Barrier;
use std::thread::sleep;
use std::time::Duration;

use proxy::observe::event::Event;
use testkit::client::exchange_bytes;
use testkit::io::PATIENCE;
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

/// Heads of responses by path.
const RESPONSES: [(&str, &str); 7] = [
    ("/plain", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\n"),
    (
        "/many",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-A: 1\r\nx-b: 2\r\nX-a: 3\r\n\
        X-Empty:\r\nX-High: caf\u{e9}\r\nLink: <a>\r\nLink: <b>\r\n",
    ),
    (
        "/type",
        "HTTP/1.1 200 Fine\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\n\
        Content-Type: text/css\r\nDate: Mon, 05 Jan 2026 10:00:00 GMT\r\n",
    ),
    ("/gone", "HTTP/1.1 410 Gone\r\nCache-Control: max-age=600\r\n"),
    ("/varies", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept\r\n"),
    (
        "/coded",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\
        ETag: \"c\"\r\n",
    ),
    ("/private", "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"),
];

/// Starts an origin with these responses; the body repeats the path.
fn origin() -> Origin {
    Origin::scripted(|asked, stream| {
        let head = RESPONSES.iter().find(|(known, _)| *known == asked.path);
        let head = head.map_or("HTTP/1.1 404 Not Found\r\n", |(_, head)| *head);
        let body = asked.path.repeat(30);
        let sent = if asked.method == "HEAD" { "" } else { &*body };
        let text = format!("{head}Content-Length: {}\r\n\r\n{sent}", body.len());
        // Characters beyond ASCII are single bytes.
        let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
        let _ = stream.write_all(&bytes);
        Then::Stay
    })
}

/// Requests all paths, so that their responses are stored.
fn fill(rig: &Rig) {
    for (path, _) in RESPONSES {
        rig.client().send(get(path, "")).answer();
    }
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

/// Sends pieces one after the other, and reads to the end of the connection.
fn talk(rig: &Rig, pieces: &[&[u8]]) -> Vec<u8> {
    let pause = |_: &_, left: usize| {
        if left > 0 {
            sleep(Duration::from_millis(2));
        }
    };
    exchange_bytes(rig.address, pieces, pause, (None, PATIENCE)).bytes
}

/// Masks times, ages and the name of the instance in responses.
fn masked(bytes: &[u8]) -> String {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let line = match line {
            _ if line.starts_with("date: ") => "date: -\r\n".to_owned(),
            _ if line.starts_with("age: ") => "age: -\r\n".to_owned(),
            _ if line.starts_with("via: ") => without(line, "(", ")"),
            _ if line.starts_with("cache-status: ") => without(line, "ttl=", ";"),
            _ => line.to_owned(),
        };
        out.push_str(&line);
    }
    out
}

/// Returns `line` without the text between `begin` and `end`.
fn without(line: &str, begin: &str, end: &str) -> String {
    let Some((before, rest)) = line.split_once(begin) else { return line.to_owned() };
    let Some((_, behind)) = rest.split_once(end) else { return line.to_owned() };
    format!("{before}{begin}{end}{behind}")
}

#[test]
fn pipelined_hits_are_answered_in_order_wherever_they_are_split() {
    let origin = origin();
    let rig = Rig::reverse(origin.address(), true);
    fill(&rig);
    let answers = |pieces: &[&[u8]]| masked(&talk(&rig, pieces));
    let requests = [
        get("/plain", "User-Agent: u\r\n"),
        get("/plain", "If-None-Match: \"a\"\r\n"),
        get("/many", ""),
        "POST /plain HTTP/1.1\r\nHost: a.example\r\nContent-Length: 38\r\n\r\n\
         GET /many HTTP/1.1\r\nHost: a.example\r\n\r\n"
            .to_owned(),
        "\r\n".to_owned(),
        get("/type", ""),
        get("/gone", "Connection: keep-alive\r\n"),
        get("/varies", ""),
        get("/private", ""),
        get("/plain", ""),
        "HEAD /plain HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
        get("/many", "Connection: close\r\n"),
        get("/many", ""),
    ]
    .concat();
    // The POST invalidates the stored response of its URL, so the next request is a miss again.
    let whole = answers(&[requests.as_bytes()]);
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 11, "{whole}");
    for at in 1..requests.len() {
        let (first, second) = requests.as_bytes().split_at(at);
        assert_eq!(answers(&[first, second]), whole, "split at {at}");
    }
    let mut bytes: Vec<&[u8]> = requests.as_bytes().chunks(1).take(120).collect();
    bytes.push(&requests.as_bytes()[120..]);
    assert_eq!(answers(&bytes), whole);
}

#[test]
fn a_client_that_reads_late_gets_all_responses() {
    let body = "x".repeat(60_000);
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\n", &body));
    let rig = Rig::reverse(origin.address(), true);
    let text = get("/large", "");
    assert!(talk(&rig, &[text.as_bytes()]).ends_with(body.as_bytes()));
    let before = rig.seen.metrics.total(Event::MemoryHit);
    let mut client = rig.client();
    // More than the socket buffers hold.
    let count = 400;
    let mut writing = client.stream().try_clone().unwrap();
    let requests = text.repeat(count);
    let writer = std::thread::spawn(move || {
        writing.write_all(requests.as_bytes()).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    sleep(Duration::from_millis(300));
    let read = String::from_utf8(client.to_end()).unwrap();
    writer.join().unwrap();
    assert_eq!(read.matches("HTTP/1.1 200 OK").count(), count);
    assert_eq!(read.matches(&body).count(), count);
    let hits = rig.seen.metrics.total(Event::MemoryHit) - before;
    assert_eq!((hits, origin.count()), (count as u64, 1));
}

#[test]
fn hits_after_many_misses_are_answered_in_order() {
    let origin = origin();
    let rig = Rig::reverse(origin.address(), true);
    fill(&rig);
    let private = get("/private", "").repeat(50);
    let text = format!("{private}{}", get("/plain", "").repeat(40));
    let before = rig.seen.metrics.total(Event::MemoryHit);
    let told = masked(&talk(&rig, &[text.as_bytes()]));
    assert_eq!(told.matches("HTTP/1.1 200 OK").count(), 90);
    let first_hit = told.find("HIT_RAM").unwrap();
    assert_eq!(told[first_hit..].matches("HTTP/1.1 200 OK").count(), 39);
    assert_eq!(rig.seen.metrics.total(Event::MemoryHit), before + 40);
}

#[test]
fn requests_being_read_at_the_drain_are_answered() {
    let origin = origin();
    let mut rig = Rig::reverse(origin.address(), true);
    fill(&rig);
    rig.stop();
    let rig = Rig::reverse_on(origin.address(), rig.device.clone());
    // The reads of the start are done once a response has arrived.
    assert_eq!(rig.client().send(get("/private", "")).answer().status, 200);
    rig.device.hold();
    let mut client = rig.client();
    client.send(get("/plain", ""));
    wait_until("it is read", || !rig.device.held().is_empty());
    rig.control.drain();
    sleep(Duration::from_millis(50));
    rig.device.release_all();
    let answer = client.answer();
    assert!(client.closed());
    let close = Some("close".to_owned());
    assert_eq!((answer.status, &*answer.detail()), (200, "HIT_DISK"));
    assert_eq!(answer.field("connection"), close);
}

/// Sends `count` requests for `path` at once, and reads the responses.
fn flood(rig: &Rig, path: &str, count: usize, begin: &Barrier) {
    let mut client = rig.client();
    begin.wait();
    client.send(get(path, "").repeat(count)).half_close();
    let read = String::from_utf8(client.to_end()).unwrap();
    assert_eq!(read.matches("HTTP/1.1 200 OK").count(), count);
}

/// Returns the longest run of one URL in the observed requests while two connections send
/// concurrently; `None` if they did not overlap.
fn longest_run(rig: &Rig, paths: [&str; 2], count: usize) -> Option<usize> {
    let before = rig.seen.urls.lock().unwrap().len();
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for path in paths {
            let begin = &begin;
            scope.spawn(move || flood(rig, path, count, begin));
        }
    });
    wait_until("all is told", || rig.seen.urls.lock().unwrap().len() == before + 2 * count);
    let urls = rig.seen.urls.lock().unwrap();
    let told = &urls[before..];
    let first = |path: &str| told.iter().position(|url| url.ends_with(path));
    let last = |path: &str| told.iter().rposition(|url| url.ends_with(path));
    let [one, other] = paths;
    let (from, to) = (first(one).max(first(other))?, last(one).min(last(other))?);
    let both = told.get(from..to)?;
    let runs = both.chunk_by(|one, other| one == other).map(<[String]>::len);
    (both.len() > count).then(|| runs.max().unwrap_or(0))
}

#[test]
fn a_pipelining_client_takes_turns_with_others() {
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\n", "x"));
    let rig = Rig::reverse_of_one_worker(origin.address());
    let paths = ["/one", "/two"];
    for path in paths {
        assert!(!talk(&rig, &[get(path, "").as_bytes()]).is_empty());
    }
    // The two do not overlap each time: one may begin late.
    let runs: Vec<_> = (0..100).filter_map(|_| longest_run(&rig, paths, 300)).take(5).collect();
    assert!(runs.len() == 5 && runs.iter().all(|run| *run <= 16), "{runs:?}");
}
