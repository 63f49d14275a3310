//! Plain hits are answered ahead of hyper, and nobody can tell: two proxies with the same content
//! are sent the same bytes, one of which answers everything the long way, and what comes back is
//! the same to the byte, and so is what is told to the observer.
//!
//! `LARDER_SEED=<seed> cargo test -p proxy --test it plain_hits` runs a course again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::thread::sleep;
use std::time::Duration;

use device::MemoryDevice;
use proxy::observe::event::Event;
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;

use crate::mutations::Chance;
use crate::origin::{Origin, Then, ok};
use crate::rig::{Rig, empty_cache, wait_until};

/// Heads of answers, by the path that they are for.
const ANSWERS: [(&str, &str); 22] = [
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
    ("/aged", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nAge: 7\r\n"),
    ("/gone", "HTTP/1.1 410 Gone\r\nCache-Control: max-age=600\r\n"),
    ("/moved", "HTTP/1.1 301 Moved Permanently\r\nCache-Control: max-age=600\r\nLocation: /x\r\n"),
    ("/missing", "HTTP/1.1 404 Not Found\r\nCache-Control: max-age=600\r\n"),
    ("/odd", "HTTP/1.1 299 Odd\r\nCache-Control: max-age=600\r\n"),
    ("/seen", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Status: other; hit\r\n"),
    (
        "/tagged",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nSurrogate-Key: a b\r\n\
        Cache-Tag: c\r\nX-Z: 1\r\n",
    ),
    ("/varies", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept\r\n"),
    (
        "/coded",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\
        ETag: \"c\"\r\n",
    ),
    (
        "/chosen",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Cookie, accept-language\r\n\
        Vary: ORIGIN\r\n",
    ),
    ("/agent", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: User-Agent, X-Any\r\n"),
    ("/hosts", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Host, X-Host\r\n"),
    ("/star", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: *\r\nETag: \"s\"\r\n"),
    (
        "/gone-variant",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nVary: Accept-Encoding\r\n\
        ETag: \"g\"\r\n",
    ),
    (
        "/stale",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=0\r\n\
        ETag: \"s\"\r\n",
    ),
    ("/private", "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"),
    (
        "/hop",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
        Keep-Alive: timeout=5\r\n",
    ),
    ("/public", "HTTP/1.1 200 OK\r\nCache-Control: public, s-maxage=600\r\nVia: 1.0 far\r\n"),
    ("/endless", "HTTP/1.1 200 OK\r\nCache-Control: max-age=99999999999\r\n"),
];

/// An origin of these answers, with a body of the path, with chunks where the query asks for them;
/// `?empty` has none.
fn origin() -> Origin {
    Origin::start(|asked, stream| {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let head = ANSWERS.iter().find(|(known, _)| *known == path).map(|(_, head)| *head);
        let head = match asked.field("cookie") {
            // Of one URL some answers vary by this, others by that.
            Some(_) if query == "sets" => {
                Some("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Cookie\r\n")
            }
            _ => head,
        };
        let head = head.unwrap_or("HTTP/1.1 404 Not Found\r\nCache-Control: max-age=600\r\n");
        let body = if query == "empty" { String::new() } else { asked.path.repeat(30) };
        let text = match query {
            "chunks" => format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            ),
            "trailers" => format!(
                "{head}Trailer: x-t\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\
                 X-T: 1\r\n\r\n",
                body.len()
            ),
            _ => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        };
        // Bytes beyond ASCII are single ones.
        let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
        let _ = stream.write_all(if asked.method == "HEAD" { head_of(&bytes) } else { &bytes });
        Then::Stay
    })
}

fn head_of(answer: &[u8]) -> &[u8] {
    let end = crate::client::find(answer, b"\r\n\r\n").unwrap();
    &answer[..end + 4]
}

/// A proxy that answers plain hits ahead of hyper, and one that does not: it believes another one
/// about its clients, which no client here is.
struct Pair {
    rigs: [Rig; 2],
    origins: [Origin; 2],
}

impl Pair {
    fn new(pass_tags: bool) -> Pair {
        let origins = [origin(), origin()];
        let start = |number| Pair::rig(&origins, number, empty_cache(), pass_tags);
        Pair { rigs: [start(0), start(1)], origins }
    }

    fn rig(origins: &[Origin; 2], number: usize, device: MemoryDevice, pass_tags: bool) -> Rig {
        let address = origins[number].address;
        let server = Endpoint::plain(&address.ip().to_string(), address.port());
        Rig::reverse_to_on(Group::one(server), device, |options| {
            options.purging.pass_tags = pass_tags;
            if number == 1 {
                options.forwarded.trust = vec!["192.0.2.0/24".parse().unwrap()].into();
            }
        })
    }

    /// Stops both, and starts them again: nothing is in memory then.
    fn restart(&mut self, pass_tags: bool) {
        for number in [0, 1] {
            self.rigs[number].stop();
            let device = self.rigs[number].device.clone();
            self.rigs[number] = Pair::rig(&self.origins, number, device, pass_tags);
        }
    }

    /// Sends the pieces of a conversation to both, and compares.
    fn compare(&self, pieces: &[&[u8]]) -> String {
        self.compare_as(pieces, |answers| answers)
    }

    /// Does as [`Pair::compare`], by what `seen_as` makes of the answers.
    fn compare_as(&self, pieces: &[&[u8]], seen_as: fn(String) -> String) -> String {
        let seen = |rig: &Rig| {
            let (outcomes, urls) =
                (rig.seen.outcomes.lock().unwrap(), rig.seen.urls.lock().unwrap());
            let refused = rig.seen.refused.lock().unwrap();
            (outcomes.clone(), urls.clone(), refused.clone())
        };
        let answers = |rig: &Rig| seen_as(masked(&talk(rig, pieces)));
        let [fast, slow] = self.rigs.each_ref().map(answers);
        let told: Vec<String> =
            pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        assert_eq!(fast, slow, "to {told:?}");
        wait_until("both have told the same", || seen(&self.rigs[0]) == seen(&self.rigs[1]));
        fast
    }

    /// Asks for everything, so that it is stored. Whether what comes in chunks has ended by the
    /// time that its head is sent, and so has a length, is a matter of moments.
    fn fill(&self) {
        for (path, _) in ANSWERS {
            for query in ["", "?chunks", "?empty", "?trailers"] {
                let text = get(&format!("{path}{query}"), "");
                self.compare_as(&[text.as_bytes()], with_length);
                self.compare_as(&[text.as_bytes()], with_length);
            }
        }
    }

    /// The count of an event at the one and at the other.
    fn total(&self, event: Event) -> [u64; 2] {
        [0, 1].map(|number| self.rigs[number].seen.metrics.total(event))
    }
}

/// Returns an answer in chunks as one with a length.
fn with_length(answer: String) -> String {
    let chunked = "transfer-encoding: chunked";
    let Some((head, mut rest)) = answer.split_once("\r\n\r\n") else { return answer };
    if !head.ends_with(chunked) {
        return answer;
    }
    let mut body = String::new();
    while let Some((size, chunk)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            assert_eq!(chunk, "\r\n");
            break;
        }
        body.push_str(&chunk[..size]);
        rest = chunk[size..].strip_prefix("\r\n").unwrap();
    }
    let head = head.replace(chunked, &format!("content-length: {}", body.len()));
    format!("{head}\r\n\r\n{body}")
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

/// Sends pieces one after the other, and reads to the end of the connection.
fn talk(rig: &Rig, pieces: &[&[u8]]) -> Vec<u8> {
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            sleep(Duration::from_millis(2));
        }
        let _ = stream.write_all(piece);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    read
}

/// Returns what came with the times, the boundaries of parts and the name of the proxy's instance
/// made the same.
fn masked(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    while let Some((_, rest)) = text.split_once("; boundary=")
        && let Some((boundary, _)) = rest.split_once("\r\n")
    {
        let boundary = boundary.to_owned();
        text = text.replace(&format!("; boundary={boundary}"), "").replace(&boundary, "-");
    }
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

/// Returns `line` without what stands between two texts.
fn without(line: &str, begin: &str, end: &str) -> String {
    let Some((before, rest)) = line.split_once(begin) else { return line.to_owned() };
    let Some((_, behind)) = rest.split_once(end) else { return line.to_owned() };
    format!("{before}{begin}{end}{behind}")
}

#[test]
fn every_kind_of_answer_is_the_same_either_way() {
    for pass_tags in [true, false] {
        let pair = Pair::new(pass_tags);
        pair.fill();
        for fields in [
            "Accept: a\r\n",
            "Connection: keep-alive\r\n",
            "Connection: close\r\n",
            "Cache-Control: no-cache\r\n",
            "Cache-Control: max-age=0\r\n",
            "Pragma: no-cache\r\n",
            "If-None-Match: \"a\"\r\n",
            "Range: bytes=1-3\r\n",
            "Authorization: x\r\n",
            "TE: trailers\r\n",
            "User-Agent: u\r\nReferer: r\r\nCookie: c\r\n",
            "Via: 1.1 x\r\n",
            "Content-Length: 0\r\n",
            "Content-Length: 3\r\n",
            "X_Y: z\r\nX-Y: z\r\n",
            "Upgrade: websocket\r\nConnection: upgrade\r\n",
            "Expect: 100-continue\r\n",
            "X-Forwarded-Proto: https\r\n",
            "Forwarded: proto=https\r\n",
            "Soft-Purge: 1\r\n",
        ] {
            for (path, _) in ANSWERS {
                pair.compare(&[get(path, fields).as_bytes()]);
            }
        }
        let [fast, slow] = pair.total(Event::MemoryHit);
        assert!(fast == slow && fast > 100, "{fast} hits from memory, and {slow}");
        assert_eq!(pair.origins[0].count(), pair.origins[1].count());
    }
}

/// Fields of requests, by which variants are selected.
const SELECTING: [&str; 22] = [
    "",
    "Accept-Encoding: gzip, deflate, br\r\n",
    "Accept-Encoding: br,deflate ,, GZIP;q=1.0\r\n",
    "accept-encoding: gzip\r\nAccept-Encoding: deflate, br\r\n",
    "Accept-Encoding: gzip;q=0.5, br\r\n",
    "Accept-Encoding:\r\n",
    "Accept-Encoding: \"gzip, br\r\n",
    "Accept: text/html;Level=1, */*\r\n",
    "Accept: */*, TEXT/html;Level=1;q=1\r\n",
    "Accept: */*, text/html;level=1\r\n",
    "Cookie: a=b; c=d\r\n",
    "Cookie: a=b;c=d\r\n",
    "Cookie: a=b\r\nCookie: c=d\r\n",
    "Cookie:  a=b; c=d \r\nOrigin: http://b.example\r\n",
    "Origin: http://b.example\r\nAccept-Language: de, en;q=0.5\r\n",
    "Origin: http://b.example\r\nAccept-Language: EN;q=0.5,de\r\n",
    "User-Agent: u\r\n",
    "User-Agent: u\r\nX-Any: 1\r\n",
    "X-Host: 1\r\n",
    "Accept-Encoding: gzip\r\nIf-None-Match: \"c\"\r\n",
    "Accept-Encoding: gzip\r\nCookie: a\r\nConnection: close\r\n",
    "Accept_Encoding: gzip\r\n",
];

#[test]
fn every_variant_is_the_same_either_way() {
    let pair = Pair::new(true);
    for path in [
        "/varies",
        "/coded",
        "/chosen",
        "/agent",
        "/hosts",
        "/star",
        "/gone-variant",
        "/coded?sets",
    ] {
        // What the first stores the second may find; in the other order once more.
        for fields in SELECTING.iter().chain(SELECTING.iter().rev()) {
            let text = get(path, fields);
            pair.compare(&[text.as_bytes()]);
            pair.compare(&[text.repeat(2).as_bytes()]);
        }
        assert_eq!(pair.origins[0].count(), pair.origins[1].count(), "{path}");
    }
    let [fast, slow] = pair.total(Event::MemoryHit);
    assert!(fast == slow && fast > 500, "{fast} hits from memory, and {slow}");
}

#[test]
fn what_is_purged_is_gone_under_every_variant() {
    let origin = origin();
    let rig = Rig::reverse(origin.address, true);
    let text = get("/coded", "Accept-Encoding: gzip\r\n");
    let ask = || rig.client().send(&text).answer().detail();
    assert_eq!([ask(), ask()], ["MISS", "HIT_RAM"]);
    // An unsafe request makes the target invalid, with all its variants.
    let delete = "DELETE /coded HTTP/1.1\r\nHost: a.example\r\n\r\n";
    rig.client().send(delete).answer();
    assert_eq!([ask(), ask()], ["MISS", "HIT_RAM"]);
}

#[test]
fn what_is_read_from_the_device_is_the_same_either_way() {
    for (pass_tags, fields) in [(true, ""), (true, "If-None-Match: \"a\"\r\n"), (false, "")] {
        let mut pair = Pair::new(pass_tags);
        pair.fill();
        pair.restart(pass_tags);
        let reads =
            |pair: &Pair| [0, 1].map(|number: usize| pair.rigs[number].device.counts().reads);
        let before = reads(&pair);
        for (path, _) in ANSWERS {
            // The second waits behind the first.
            let texts =
                ["", "?chunks", "?empty"].map(|query| get(&format!("{path}{query}"), fields));
            pair.compare(&[texts.concat().as_bytes()]);
        }
        let [fast, slow] = pair.total(Event::DiskHit);
        assert!(fast == slow && fast > 20, "{fast} hits from the device, and {slow}");
        assert_eq!(pair.origins[0].count(), pair.origins[1].count());
        let [fast, slow] = [0, 1].map(|number| reads(&pair)[number] - before[number]);
        assert!(fast <= slow + 2, "{fast} reads, and {slow}: nothing is read twice");
    }
}

#[test]
fn every_target_and_host_is_the_same_either_way() {
    let pair = Pair::new(true);
    pair.fill();
    for target in [
        "/plain",
        "/plain?",
        "/plain#x",
        "/plain%20",
        "/pl%61in",
        "/plain?%7e",
        "/./plain",
        "//plain",
        "*",
        "plain",
        "?plain",
        "",
        "/plain\u{e9}",
        "/pla|in",
        "/pla\"in",
        "/pla{in}",
        "http://a.example/plain",
        "http://A.example:80/plain",
        "https://a.example/plain",
        "http://b.example/plain",
        "http://u:p@a.example/plain",
        "/%zz",
        "/plain?a=b&c=d;e",
    ] {
        for host in [
            "a.example",
            "A.EXAMPLE",
            "a.example:80",
            "a.example:81",
            "a.example:",
            "",
            "a b",
            "[::1]",
            "a_b",
            "127.0.0.1",
            "u@a.example",
            "a.example/x",
            "a,b",
            "a%41",
        ] {
            let text: Vec<u8> = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
                .chars()
                .map(|c| c as u8)
                .collect();
            // What is stored by the first is found by the second.
            pair.compare(&[&text]);
            pair.compare(&[&text]);
        }
    }
}

#[test]
fn requests_in_a_row_are_answered_in_order_wherever_they_are_split() {
    let pair = Pair::new(true);
    pair.fill();
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
    let whole = pair.compare(&[requests.as_bytes()]);
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 11, "{whole}");
    for at in 1..requests.len() {
        let (first, second) = requests.as_bytes().split_at(at);
        pair.compare(&[first, second]);
    }
    let bytes: Vec<&[u8]> = requests.as_bytes().chunks(1).take(120).collect();
    pair.compare(&bytes);
}

#[test]
fn damaged_requests_are_treated_the_same_either_way() {
    let mut chance = Chance::new();
    let pair = Pair::new(true);
    pair.fill();
    for _ in 0..400 {
        let number = chance.below(ANSWERS.len());
        let text = get(ANSWERS[number].0, "User-Agent: u\r\nAccept: */*\r\n");
        let bytes = chance.damage(&format!("{text}{text}"));
        pair.compare(&[&bytes]);
    }
}

#[test]
fn a_client_that_does_not_read_gets_its_answers_when_it_does() {
    let body = "x".repeat(60_000);
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\n", &body));
    let rig = Rig::reverse(origin.address, true);
    let text = get("/large", "");
    assert!(talk(&rig, &[text.as_bytes()]).ends_with(body.as_bytes()));
    let before = rig.seen.metrics.total(Event::MemoryHit);
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // More than the sockets between take.
    let count = 400;
    let mut writing = stream.try_clone().unwrap();
    let requests = text.repeat(count);
    let writer = std::thread::spawn(move || {
        writing.write_all(requests.as_bytes()).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    sleep(Duration::from_millis(300));
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    writer.join().unwrap();
    let read = String::from_utf8(read).unwrap();
    assert_eq!(read.matches("HTTP/1.1 200 OK").count(), count);
    assert_eq!(read.matches(&body).count(), count);
    let hits = rig.seen.metrics.total(Event::MemoryHit) - before;
    assert_eq!((hits, origin.count()), (count as u64, 1));
}

#[test]
fn hits_behind_many_requests_for_the_origin_are_the_same_either_way() {
    let pair = Pair::new(true);
    pair.fill();
    let private = get("/private", "").repeat(50);
    let text = format!("{private}{}", get("/plain", "").repeat(40));
    let before = pair.total(Event::MemoryHit);
    let told = pair.compare(&[text.as_bytes()]);
    assert_eq!(told.matches("HTTP/1.1 200 OK").count(), 90);
    assert_eq!(pair.total(Event::MemoryHit), before.map(|hits| hits + 40));
}

#[test]
fn what_is_being_read_when_the_drain_begins_is_answered() {
    let mut pair = Pair::new(true);
    pair.fill();
    pair.restart(true);
    let talks: Vec<_> = [0, 1]
        .map(|number| {
            let rig = &pair.rigs[number];
            rig.device.hold();
            let mut client = rig.client();
            client.send(get("/plain", ""));
            wait_until("it is read", || !rig.device.held().is_empty());
            rig.control.drain();
            sleep(Duration::from_millis(50));
            rig.device.release_all();
            let answer = client.answer();
            assert!(client.closed());
            (answer.status, answer.detail(), answer.field("connection"), answer.body)
        })
        .into();
    assert_eq!(talks[0], talks[1]);
    let close = Some("close".to_owned());
    assert_eq!((talks[0].0, &*talks[0].1, &talks[0].2), (200, "HIT_DISK", &close));
}

/// Asks for `path` so many times at once, and waits for the answers.
fn flood(rig: &Rig, path: &str, count: usize, begin: &Barrier) {
    let mut stream = TcpStream::connect(rig.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    begin.wait();
    stream.write_all(get(path, "").repeat(count).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    assert_eq!(String::from_utf8(read).unwrap().matches("HTTP/1.1 200 OK").count(), count);
}

/// Returns the longest runs of one URL in what was told while two connections asked at once;
/// `None` when they did not.
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
fn who_asks_without_waiting_takes_turns_with_others() {
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\n", "x"));
    let rig = Rig::reverse_of_one_worker(origin.address);
    // Of 64 bytes, so that each piece that is read ends with one: hyper sees none of them.
    let paths = ["one", "two"].map(|name| format!("/{name:x<29}"));
    let paths = [&*paths[0], &*paths[1]];
    assert_eq!(get(paths[0], "").len(), 64);
    for path in paths {
        assert!(!talk(&rig, &[get(path, "").as_bytes()]).is_empty());
    }
    // They do not meet each time: one may begin late.
    let runs: Vec<_> = (0..100).filter_map(|_| longest_run(&rig, paths, 300)).take(5).collect();
    assert!(runs.len() == 5 && runs.iter().all(|run| *run <= 16), "{runs:?}");
}
