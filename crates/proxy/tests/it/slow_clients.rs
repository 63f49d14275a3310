//! Clients that send or read slowly, or that leave: they occupy neither a connection to an origin
//! nor one of its request slots.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use proxy::observe::event::Event;
use testkit::message::find;
use testkit::origin::{Origin, Then, ok};
use upstream::servers::group::{Group, GroupOptions, Server};
use upstream::settings::endpoint::Endpoint;

use crate::rig::{Rig, wait_until};

const UNCACHED: &str = "Cache-Control: no-store\r\n";

/// Starts a proxy for an origin that gets one request at a time.
fn one_at_a_time(origin: SocketAddr) -> Rig {
    let mut server = Server::new(Endpoint::plain(&origin.ip().to_string(), origin.port()));
    server.max_requests = Some(1);
    Rig::reverse_to(Group::new("main", vec![server], GroupOptions::default()), |_| ())
}

fn head(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

#[test]
fn the_origin_is_asked_when_the_body_is_complete() {
    let origin = Origin::always(ok(UNCACHED, "x"));
    let rig = one_at_a_time(origin.address());
    let parts = [
        ("Content-Length: 10\r\n", ["01234", "56789"], "0123456789"),
        (
            "Transfer-Encoding: chunked\r\n",
            ["5\r\n01234\r\n", "0\r\n\r\n"],
            "5\r\n01234\r\n0\r\n\r\n",
        ),
    ];
    for (fields, [first, rest], whole) in parts {
        let mut client = rig.client();
        client.send(head("POST", "/upload", fields)).send(first);
        let mut other = rig.client();
        assert_eq!(other.send(head("GET", "/other", "")).answer().status, 200);
        assert_eq!(origin.requests().last().unwrap().path, "/other");
        assert_eq!(client.send(rest).answer().status, 200);
        let asked = origin.requests().pop().unwrap();
        assert!(asked.bytes.ends_with(whole.as_bytes()), "{asked:?}");
    }
}

#[test]
fn a_long_body_is_streamed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = listener.local_addr().unwrap();
    let rig = Rig::reverse_to(Group::one(Endpoint::plain("127.0.0.1", origin.port())), |options| {
        options.client.request_buffer = 4;
    });
    for fields in ["", "Expect: 100-continue\r\n", "Content-Type: application/grpc\r\n"] {
        let mut client = rig.client();
        client.send(head("POST", "/", &format!("Content-Length: 8\r\n{fields}")));
        if fields.is_empty() {
            client.send("01234");
        }
        let (mut stream, _) = listener.accept().unwrap();
        let (mut read, mut buffer) = (Vec::new(), [0; 1024]);
        let is_asked_on = fields.starts_with("Expect");
        while find(&read, if fields.is_empty() { b"01234" } else { b"\r\n\r\n" }).is_none() {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0);
            read.extend_from_slice(&buffer[..count]);
        }
        if is_asked_on {
            assert!(find(&read, b"Expect: 100-continue").is_some());
        }
        stream.write_all(ok("Connection: close\r\n", "x").as_bytes()).unwrap();
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_client_gets_100_continue_for_a_buffered_body() {
    let origin = Origin::always(ok(UNCACHED, "x"));
    let rig = one_at_a_time(origin.address());
    let mut client = rig.client();
    client.send(head("POST", "/", "Expect: 100-continue\r\nContent-Length: 3\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    assert_eq!(origin.count(), 0);
    assert_eq!(client.send("abc").answer().status, 200);
    let asked = origin.requests().pop().unwrap();
    assert_eq!((asked.field("expect"), asked.body), (None, b"abc".to_vec()));
}

#[test]
fn a_response_is_read_whole_for_a_stalled_client() {
    const LENGTH: usize = 6 << 20;
    let body: Arc<Vec<u8>> = Arc::new((0..LENGTH).map(|at| (at / 7 % 251) as u8).collect());
    let (sent, is_sent) = (body.clone(), Arc::new(AtomicBool::new(false)));
    let done = is_sent.clone();
    let origin = Origin::scripted(move |asked, stream| {
        if asked.path == "/small" {
            let _ = stream.write_all(ok(UNCACHED, "x").as_bytes());
            return Then::Stay;
        }
        let head = format!("HTTP/1.1 200 OK\r\n{UNCACHED}Content-Length: {LENGTH}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&sent);
        done.store(true, SeqCst);
        Then::Stay
    });
    let rig = one_at_a_time(origin.address());
    let range = "Range: bytes=1000-\r\n";
    for (fields, status, from) in
        [("", 200, 0), ("If-None-Match: \"x\"\r\n", 200, 0), (range, 206, 1000)]
    {
        is_sent.store(false, SeqCst);
        let mut client = rig.client();
        client.send(head("GET", &format!("/large{status}{}", fields.len()), fields));
        wait_until("the origin has sent all", || is_sent.load(SeqCst));
        assert_eq!(rig.client().send(head("GET", "/small", "")).answer().status, 200);
        let answer = client.answer();
        assert!(answer.status == status && answer.body == body[from..]);
    }
}

#[test]
fn a_disconnected_client_frees_its_request_slot() {
    let origin = Origin::scripted(|asked, stream| {
        match asked.path.as_str() {
            // The proxy ends this connection.
            "/held" => assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0),
            _ => stream.write_all(ok(UNCACHED, "x").as_bytes()).unwrap(),
        }
        Then::Stay
    });
    let rig = one_at_a_time(origin.address());
    // Requests without a body and requests with one take different paths.
    for (number, method) in ["GET", "POST"].iter().cycle().take(4).enumerate() {
        let mut client = rig.client();
        client.send(head(method, "/held", "Content-Length: 0\r\n"));
        origin.await_count(2 * number + 1);
        // A half-closed client may still read, and a POST may have been carried out. Such a request
        // ends because another one waits.
        let _kept = match number < 2 {
            true => {
                client.reset();
                None
            }
            false => {
                client.half_close();
                Some(client)
            }
        };
        assert_eq!(rig.client().send(head("GET", "/x", "")).answer().status, 200);
    }
}

#[test]
fn a_fetch_continues_while_another_client_waits() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let origin = Origin::scripted(move |_, stream| {
        wait_until("the gate is open", || gate.load(SeqCst));
        let _ = stream.write_all(ok("Cache-Control: max-age=60\r\n", "x").as_bytes());
        Then::Stay
    });
    let rig = one_at_a_time(origin.address());
    let (mut first, mut second) = (rig.client(), rig.client());
    first.send(head("GET", "/", ""));
    origin.await_count(1);
    second.send(head("GET", "/", ""));
    wait_until("another one waits", || rig.seen.metrics.total(Event::FollowerJoined) == 1);
    first.reset();
    open.store(true, SeqCst);
    assert_eq!(second.answer().text(), "x");
    assert_eq!(origin.count(), 1);
}
