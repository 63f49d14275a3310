//! Attacks on the correctness of the proxy: messages that two parsers could read differently,
//! responses that must not reach a second client, and origins that violate the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, mpsc};
use std::thread;

use testkit::client::{Reply, exchange_bytes, request_text};
use testkit::io::PATIENCE;
use testkit::origin::{Origin, Received, Then, ok};

use crate::rig::Rig;

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Starts an origin that holds the responses numbered `held` until the test sends a message for
/// each.
fn held_origin(
    held: std::ops::Range<usize>,
    answer: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> (Origin, Sender<()>) {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let origin = Origin::scripted(move |asked, stream| {
        if held.contains(&asked.number) {
            let _ = receiver.lock().unwrap().recv();
        }
        let _ = stream.write_all(answer(asked).as_bytes());
        Then::Stay
    });
    (origin, sender)
}

fn ask(rig: &Rig, url: &str, fields: &str) -> thread::JoinHandle<Reply> {
    let mut client = rig.client();
    client.send(request_text("GET", url, fields));
    thread::spawn(move || client.answer())
}

#[test]
fn a_follower_of_another_variant_gets_its_own_after_an_overtaken_fill() {
    let (origin, go) = held_origin(0..1, |asked| match asked.method.as_str() {
        "DELETE" => ok("", "gone"),
        _ => {
            let language = asked.field("accept-language").unwrap_or_default();
            ok(&format!("{FRESH}Vary: Accept-Language\r\n"), &format!("in {language}"))
        }
    });
    let rig = Rig::forward();
    let url = origin.url("/v");
    let first = ask(&rig, &url, "Accept-Language: de\r\n");
    origin.await_count(1);
    let followers: Vec<_> = (0..4).map(|_| ask(&rig, &url, "Accept-Language: en\r\n")).collect();
    thread::sleep(std::time::Duration::from_millis(50));
    rig.client().send(request_text("DELETE", &url, "")).answer();
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().text(), "in de");
    for fill_response in followers {
        let answer = fill_response.join().unwrap();
        assert_eq!(answer.text(), "in en", "{}", answer.detail());
    }
}

#[test]
fn a_304_for_one_client_reaches_no_other() {
    let (origin, go) = held_origin(1..2, |asked| match asked.number {
        0 => ok("Cache-Control: max-age=0\r\nETag: \"v\"\r\n", "body"),
        n => format!(
            "HTTP/1.1 304 Not Modified\r\nCache-Control: private, max-age=60\r\nETag: \"v\"\r\n\
             Set-Cookie: client={n}\r\n\r\n"
        ),
    });
    let rig = Rig::forward_with(|options| options.fill.unshareable_for = Default::default());
    let url = origin.url("/p");
    rig.client().get(&url);
    let first = ask(&rig, &url, "");
    origin.await_count(2);
    let followers: Vec<_> = (0..4).map(|_| ask(&rig, &url, "")).collect();
    thread::sleep(std::time::Duration::from_millis(50));
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().field("set-cookie").unwrap(), "client=1");
    for fill_response in followers {
        let answer = fill_response.join().unwrap();
        assert_ne!(answer.field("set-cookie").as_deref(), Some("client=1"), "{answer:?}");
    }
}

#[test]
fn the_upstream_of_a_site_gets_the_host_that_is_in_the_key() {
    let origin = Origin::scripted(|asked, stream| {
        let host = asked.field("host").unwrap_or("missing".to_owned());
        let _ = stream.write_all(ok(FRESH, &format!("site {host}")).as_bytes());
        Then::Stay
    });
    let rig = Rig::reverse(origin.address(), true);
    let mut client = rig.client();
    let answer = client.send("GET http://a.example:81/ HTTP/1.0\r\n\r\n").answer();
    assert_eq!(answer.text(), "site a.example:81");
    let answer = rig.client().send("GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n").answer();
    assert_eq!(
        (answer.text().as_str(), answer.detail().as_str()),
        ("site a.example:81", "HIT_RAM")
    );
}

#[test]
fn a_client_without_framing_detects_a_truncated_response() {
    let origin = Origin::scripted(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n");
        let _ = stream.write_all(format!("{head}5\r\n12345\r\n").as_bytes());
        Then::Close
    });
    let rig = Rig::forward();
    let mut stream = TcpStream::connect(rig.address).unwrap();
    let host = origin.address();
    write!(stream, "GET http://{host}/ HTTP/1.0\r\n\r\n").unwrap();
    let mut read = Vec::new();
    // The end of a connection would complete the body, so only a reset shows that it is truncated.
    let error = stream.read_to_end(&mut read).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_connect_has_no_body() {
    let rig = Rig::forward();
    for fields in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let connect =
            format!("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n{fields}\r\n");
        let answer = rig.client().send(connect).send("0\r\n\r\n").answer();
        assert_eq!((answer.status, answer.detail().as_str()), (400, "INVALID(body)"), "{fields}");
    }
}

/// Sends the bytes as a client; returns the requests that the origin received and the statuses of
/// the responses.
fn smuggle(bytes: &str) -> (Vec<String>, Vec<u16>) {
    let origin = Origin::always(ok("Cache-Control: no-store\r\n", ""));
    let rig = Rig::forward();
    let bytes = bytes.replace("ORIGIN", &origin.address().to_string());
    let read = exchange_bytes(rig.address, &[bytes], |_, _| (), (None, PATIENCE)).bytes;
    let read = String::from_utf8_lossy(&read).into_owned();
    let statuses =
        read.match_indices("HTTP/1.1 ").map(|(at, _)| read[at + 9..at + 12].parse().unwrap());
    let asked = origin.requests().iter().map(|a| format!("{} {}", a.method, a.path)).collect();
    (asked, statuses.collect())
}

#[test]
fn requests_after_an_error_are_answered_in_order_or_not_at_all() {
    let get = |path: &str| format!("GET http://ORIGIN{path} HTTP/1.1\r\nHost: ORIGIN\r\n\r\n");
    let wrong = "GET /no-proxy HTTP/1.1\r\nHost: ORIGIN\r\n\r\n";
    let (asked, statuses) = smuggle(&format!("{}{wrong}{}", get("/a"), get("/b")));
    assert_eq!((asked.len(), statuses.as_slice()), (2, &[200, 400, 200][..]));
    let (asked, statuses) = smuggle(&format!("{}nonsense\r\n\r\n{}", get("/a"), get("/b")));
    assert_eq!(
        (asked.as_slice(), statuses.as_slice()),
        (&["GET /a".to_owned()][..], &[200, 400][..])
    );
    // The body of a rejected request is not read as a request.
    let post = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n";
    let (asked, statuses) = smuggle(&format!("{post}{}", get("/body")));
    assert_eq!((asked.len(), statuses.as_slice()), (0, &[400][..]));
}

#[test]
fn a_slow_client_gets_a_whole_body_that_the_store_refuses_midway() {
    // Larger than a quarter of the cache, a fact known only after the whole body.
    let body: Vec<u8> = (0..40_000_000u32).map(|i| (i.wrapping_mul(7919) >> 8) as u8).collect();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(50_000) {
        answer.extend([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    answer.extend(b"0\r\n\r\n");
    let (has_joined, joined) = mpsc::channel();
    let joined = Mutex::new(joined);
    let origin = Origin::scripted(move |_, stream| {
        let (first, rest) = answer.split_at(1_000_000);
        stream.write_all(first).unwrap();
        joined.lock().unwrap().recv().unwrap();
        // The client may be gone.
        let _ = stream.write_all(rest);
        Then::Close
    });
    let rig = Rig::forward();
    let (mut slow, mut fast) = (rig.client(), rig.client());
    slow.send(request_text("GET", &origin.url("/"), ""));
    let head = slow.head();
    fast.send(request_text("GET", &origin.url("/"), ""));
    fast.head();
    has_joined.send(()).unwrap();
    // Nearly as much as the store accepts.
    let mut read = Vec::new();
    assert!(fast.exactly(16_300_000, &mut read));
    drop(fast);
    let answer = slow.rest(head, "GET");
    assert!(answer.whole && answer.body == body, "{} bytes", answer.body.len());
    assert_eq!(origin.count(), 1);
}
