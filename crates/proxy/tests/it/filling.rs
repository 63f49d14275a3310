//! Fills: one fetch for many clients, and the ways in which it can fail.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use testkit::client::{Reply, request_text};
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Starts an origin that sends the pieces that a test hands it, then closes or waits.
fn stepwise() -> (Origin, Sender<Vec<u8>>) {
    let (sender, receiver): (Sender<Vec<u8>>, Receiver<Vec<u8>>) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let origin = Origin::scripted(move |_, stream| {
        for piece in receiver.lock().unwrap().iter() {
            if piece.is_empty() {
                return Then::Close;
            }
            if stream.write_all(&piece).is_err() {
                return Then::Close;
            }
        }
        Then::Close
    });
    (origin, sender)
}

#[test]
fn a_hundred_clients_cause_one_fetch_and_get_the_same() {
    let body: String = (0..40_000).map(|i| format!("{i:05}")).collect();
    let (origin, pieces) = stepwise();
    let rig = Rig::forward();
    let url = origin.url("/one");
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let mut client = rig.client();
            client.send(request_text("GET", &url, ""));
            thread::spawn(move || client.answer())
        })
        .collect();
    origin.await_count(1);
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n", body.len());
    pieces.send(head.into_bytes()).unwrap();
    for piece in body.as_bytes().chunks(7001) {
        pieces.send(piece.to_vec()).unwrap();
    }
    let answers: Vec<Reply> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    for answer in &answers {
        assert!(answer.whole && answer.body == body.as_bytes(), "{}", answer.detail());
    }
    assert_eq!(origin.count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.detail() == "MISS").count(), 1);
}

#[test]
fn followers_stream_available_bytes_before_the_end() {
    let (origin, pieces) = stepwise();
    let rig = Rig::forward();
    let url = origin.url("/s");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n");
    pieces.send(format!("{head}3\r\nabc\r\n").into_bytes()).unwrap();
    assert!(first.head().starts_with("HTTP/1.1 200"));
    let mut second = rig.client();
    second.send(request_text("GET", &url, ""));
    let head = second.head();
    assert!(head.contains("HIT_FILL") && head.contains("collapsed"), "{head}");
    for client in [&mut first, &mut second] {
        assert_eq!(client.line().unwrap(), "3");
        assert_eq!(client.line().unwrap(), "abc");
    }
    pieces.send(b"3\r\ndef\r\n0\r\n\r\n".to_vec()).unwrap();
    for client in [&mut first, &mut second] {
        let rest: Vec<_> = std::iter::from_fn(|| client.line()).take(4).collect();
        assert_eq!(rest, ["3", "def", "0", ""]);
    }
    assert_eq!(rig.client().get(&url).text(), "abcdef");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_broken_transfer_is_cut_for_all_and_not_stored() {
    for head in [
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\n12345\r\n",
    ] {
        let (origin, pieces) = stepwise();
        let mut rig = Rig::forward();
        let url = origin.url("/d");
        let mut clients: Vec<_> = (0..5).map(|_| rig.client()).collect();
        for client in &mut clients {
            client.send(request_text("GET", &url, ""));
        }
        origin.await_count(1);
        pieces.send(head.as_bytes().to_vec()).unwrap();
        let heads: Vec<_> = clients.iter_mut().map(|client| client.head()).collect();
        pieces.send(Vec::new()).unwrap();
        for (client, client_head) in clients.iter_mut().zip(heads) {
            let answer = client.rest(client_head, "GET");
            assert!(!answer.whole, "{head:?}: {answer:?}");
        }
        // Nothing was stored: this is a separate fetch, which fails in the same way.
        pieces.send(Vec::new()).unwrap();
        assert_eq!(rig.client().get(&url).status, 502);
        rig.stop();
    }
}

#[test]
fn a_body_delimited_by_close_is_stored_after_a_clean_end() {
    let origin = Origin::scripted(|_, stream| {
        let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n{FRESH}\r\nuntil the end").as_bytes());
        Then::Close
    });
    let rig = Rig::forward();
    assert_eq!(rig.client().get(&origin.url("/")).text(), "until the end");
    let answer = rig.client().get(&origin.url("/"));
    assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("until the end", "HIT_RAM"));
    assert_eq!(answer.field("content-length").unwrap(), "13");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_disconnected_client_stops_neither_the_fill_nor_others() {
    let (origin, pieces) = stepwise();
    let rig = Rig::forward();
    let url = origin.url("/l");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 10\r\n\r\n12345");
    pieces.send(head.into_bytes()).unwrap();
    assert!(first.head().starts_with("HTTP/1.1 200"));
    let mut second = rig.client();
    second.send(request_text("GET", &url, ""));
    assert!(second.head().contains("HIT_FILL"));
    drop(first);
    drop(second);
    // Only five bytes are missing, so the fill is worth finishing.
    pieces.send(b"67890".to_vec()).unwrap();
    wait_until("the object is stored", || rig.client().get(&url).detail() == "HIT_RAM");
    assert_eq!(rig.client().get(&url).text(), "1234567890");
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_abandoned_fill_is_ended_when_much_is_missing() {
    let gone = Arc::new(Mutex::new(false));
    let origin = {
        let gone = gone.clone();
        Origin::scripted(move |asked, stream| {
            if asked.number > 0 {
                let _ = stream.write_all(ok(FRESH, "small now").as_bytes());
                return Then::Stay;
            }
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 100000000\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[0; 65536]).is_ok() {}
            *gone.lock().unwrap() = true;
            Then::Close
        })
    };
    let rig = Rig::forward();
    let mut client = rig.client();
    client.send(request_text("GET", &origin.url("/"), ""));
    client.head();
    drop(client);
    wait_until("the origin sees the end", || *gone.lock().unwrap());
    assert_eq!(rig.client().get(&origin.url("/")).text(), "small now");
}

#[test]
fn a_slow_follower_continues_from_the_store_during_the_fill() {
    let body: Vec<u8> = (0..6_000_000u32).map(|i| (i.wrapping_mul(7919) >> 8) as u8).collect();
    let origin = {
        let body = body.clone();
        Origin::scripted(move |_, stream| {
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
            Then::Stay
        })
    };
    let rig = Rig::forward();
    let url = origin.url("/slow");
    let mut slow = rig.client();
    slow.send(request_text("GET", &url, ""));
    slow.head();
    // The slow client does not read; another client gets the whole body meanwhile.
    let fast = rig.client().get(&url);
    assert!(fast.whole && fast.body == body, "{}", fast.detail());
    let mut read = Vec::new();
    assert!(slow.exactly(body.len(), &mut read));
    assert!(read == body);
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_unstored_fill_follows_its_clients_pace() {
    let sent = Arc::new(Mutex::new(0usize));
    let origin = {
        let sent = sent.clone();
        Origin::scripted(move |_, stream| {
            let head =
                "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 50000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            for _ in 0..500 {
                if stream.write_all(&[b'x'; 100_000]).is_err() {
                    break;
                }
                *sent.lock().unwrap() += 100_000;
            }
            Then::Stay
        })
    };
    let rig = Rig::forward_with(|options| options.client.buffers = 1 << 20);
    let mut client = rig.client();
    client.send(request_text("GET", &origin.url("/"), ""));
    client.head();
    thread::sleep(std::time::Duration::from_millis(300));
    // Sockets and buffers hold some of it, but never the whole.
    assert!(*sent.lock().unwrap() < 40_000_000);
    let mut body = Vec::new();
    assert!(client.exactly(50_000_000, &mut body));
    assert!(body.iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_stalled_client_does_not_stop_other_followers() {
    // The body is larger than the socket buffers, and too large to be stored.
    let (origin, pieces) = stepwise();
    let rig = Rig::forward();
    let url = origin.url("/");
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 60000000\r\n\r\n");
    let mut stalled = rig.client();
    stalled.send(request_text("GET", &url, ""));
    pieces.send(head.into_bytes()).unwrap();
    stalled.head();
    let mut other = rig.client();
    other.send(request_text("GET", &url, ""));
    other.head();
    for _ in 0..60 {
        pieces.send(vec![b'x'; 1_000_000]).unwrap();
    }
    let mut body = Vec::new();
    assert!(other.exactly(60_000_000, &mut body));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_range_of_a_running_fill_is_served_when_available() {
    let (origin, pieces) = stepwise();
    let rig = Rig::forward_with(|options| options.fill.follow_distance = 0);
    let url = origin.url("/part");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    let head = format!(
        "HTTP/1.1 200 OK\r\n{FRESH}Accept-Ranges: bytes\r\nContent-Length: 10\r\n\r\n01234"
    );
    pieces.send(head.into_bytes()).unwrap();
    first.head();
    let mut read = Vec::new();
    assert!(first.exactly(5, &mut read));
    let part = rig.client().get_with(&url, "Range: bytes=2-4\r\n");
    assert_eq!(
        (part.status, part.text().as_str(), part.detail().as_str()),
        (206, "234", "HIT_FILL")
    );
    assert_eq!(part.field("content-range").unwrap(), "bytes 2-4/10");
    // Beyond the bytes received so far: the request goes to the origin unchanged.
    let mut beyond = rig.client();
    beyond.send(request_text("GET", &url, "Range: bytes=7-8\r\n"));
    origin.await_count(2);
    assert_eq!(origin.requests()[1].field("range").unwrap(), "bytes=7-8");
    pieces.send(b"56789".to_vec()).unwrap();
    assert!(first.exactly(5, &mut read) && read == b"0123456789");
    pieces.send(Vec::new()).unwrap();
    let answer = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7-8/10\r\n\
        Content-Length: 2\r\n\r\n78";
    pieces.send(answer.as_bytes().to_vec()).unwrap();
    let part = beyond.answer();
    assert_eq!((part.text().as_str(), part.detail().as_str()), ("78", "BYPASS(range-beyond-fill)"));
}

#[test]
fn a_removal_overtakes_a_running_fill() {
    let (origin, pieces) = stepwise();
    let rig = Rig::forward();
    let url = origin.url("/r");
    let mut client = rig.client();
    client.send(request_text("GET", &url, ""));
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 6\r\n\r\nold");
    pieces.send(head.into_bytes()).unwrap();
    client.head();
    // The origin is busy with the GET. The DELETE gets a connection of its own, but the scripted
    // origin takes pieces in order: hand it that response before the end of the first.
    let delete = {
        let mut client = rig.client();
        client.send(request_text("DELETE", &url, ""));
        thread::spawn(move || client.answer())
    };
    origin.await_count(2);
    pieces.send(b"old".to_vec()).unwrap();
    pieces.send(Vec::new()).unwrap();
    let mut body = Vec::new();
    assert!(client.exactly(6, &mut body) && body == b"oldold");
    pieces.send(ok("", "gone").into_bytes()).unwrap();
    pieces.send(Vec::new()).unwrap();
    assert_eq!(delete.join().unwrap().status, 200);
    pieces.send(ok(FRESH, "new").into_bytes()).unwrap();
    pieces.send(Vec::new()).unwrap();
    assert_eq!(rig.client().get(&url).text(), "new");
}

#[test]
fn an_origin_whose_parts_are_shorter_than_they_say_is_not_asked_without_end() {
    let origin = Origin::scripted(|_, stream| {
        let part = "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nCache-Control: max-age=99\r\n\
                    Content-Range: bytes 0-9/30\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\n0123\r\n0\r\n\r\n";
        stream.write_all(part.as_bytes()).unwrap();
        Then::Stay
    });
    let rig = Rig::forward();
    for _ in 0..3 {
        let before = origin.count();
        let mut client = rig.client();
        client.send(request_text("GET", &origin.url("/"), "Range: bytes=0-9\r\n"));
        assert_eq!(client.head().status().unwrap(), 206);
        assert!(origin.count() - before < 20, "{} requests", origin.count() - before);
    }
}
