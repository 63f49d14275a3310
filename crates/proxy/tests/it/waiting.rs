//! Connections that wait for their next request, whose bytes arrive in any pieces.

use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use proxy::observe::event::Event;
use testkit::client::{exchange_bytes, request_text};
use testkit::io::PATIENCE;
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

/// Starts an origin that echoes the request.
fn echo() -> Origin {
    Origin::scripted(|asked, stream| {
        let body = String::from_utf8_lossy(&asked.body);
        let text = format!("{} {} {body}", asked.method, asked.path);
        let _ = stream.write_all(ok("Cache-Control: no-store\r\n", &text).as_bytes());
        Then::Stay
    })
}

#[test]
fn a_waiting_connection_ends_with_its_client_or_the_proxy() {
    let origin = echo();
    let mut rig = Rig::forward();
    let open = |rig: &Rig| {
        let total = |event| rig.seen.metrics.total(event);
        total(Event::ConnectionOpened) - total(Event::ConnectionClosed)
    };
    let mut clients = [rig.client(), rig.client(), rig.client()];
    for client in &mut clients[1..] {
        assert_eq!(client.get(&origin.url("/")).status, 200);
    }
    wait_until("all are open", || open(&rig) == 3);
    let [mut silent, mut leaving, mut staying] = clients;
    leaving.half_close();
    assert!(leaving.closed());
    wait_until("who left is gone", || open(&rig) == 2);
    rig.stop();
    assert!(silent.closed() && staying.closed());
}

/// The response comes before the body: bytes that arrive afterwards are not read as a request.
#[test]
fn an_unread_body_is_not_a_request() {
    let origin = echo();
    let rig = Rig::forward();
    let smuggled = request_text("GET", &origin.url("/smuggled"), "");
    for sent in [0, 1, smuggled.len() - 1, smuggled.len()] {
        let fields = format!("Max-Forwards: 0\r\nContent-Length: {}\r\n", smuggled.len());
        let head = request_text("OPTIONS", &origin.url("/"), &fields);
        let (first, rest) = smuggled.split_at(sent);
        let pieces = [head + first, rest.to_owned()];
        let pause = |_: &_, _| sleep(Duration::from_millis(30));
        // The connection may be closed before the second piece.
        let read = exchange_bytes(rig.address, &pieces, pause, (None, PATIENCE)).bytes;
        assert!(read.is_empty() || read.starts_with(b"HTTP/1.1 200 "), "{sent}");
    }
    assert!(
        origin.requests().iter().all(|asked| asked.path != "/smuggled"),
        "{:?}",
        origin.requests()
    );
}

/// Requests of all kinds, in pieces with pauses in between.
#[test]
fn requests_in_any_pieces_are_answered_in_order() {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let origin = echo();
    let rig = Rig::forward();
    for _ in 0..6 {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for n in 0..random.usize(1..12) {
            let url = origin.url(&format!("/{n}"));
            let text = match random.u8(..4) {
                0 => {
                    expected.push(format!("POST /{n} abc"));
                    request_text("POST", &url, "Content-Length: 3\r\n") + "abc"
                }
                1 => {
                    let chunks = "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
                    expected.push(format!("POST /{n} "));
                    request_text("POST", &url, "Transfer-Encoding: chunked\r\n") + chunks
                }
                _ => {
                    expected.push(format!("GET /{n} "));
                    request_text("GET", &url, "")
                }
            };
            bytes.extend_from_slice(text.as_bytes());
            bytes.extend_from_slice(["", "", "\r\n", "\n"][random.usize(..4)].as_bytes());
        }
        let mut client = rig.client();
        assert_eq!(client.get(&origin.url("/first")).status, 200);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let size = match random.u8(..3) {
                0 => 1,
                1 => random.usize(1..=rest.len().min(20)),
                _ => random.usize(1..=rest.len().min(400)),
            };
            let (piece, left) = rest.split_at(size);
            client.send(piece);
            rest = left;
            if random.u8(..3) == 0 {
                sleep(Duration::from_millis(random.u64(..25)));
            }
        }
        for text in expected {
            let answer = client.answer();
            assert!(answer.text().starts_with(&text), "{text:?}: {answer:?}");
        }
    }
}
