//! Responses that the proxy compresses, while they are fetched, by many clients at once, and when
//! fetches and clients break off.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use compression::{Coding, Compress};
use proxy::observe::event::Event;
use testkit::client::{Client, Reply};
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const PAGE: &str = "Content-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"v\"\r\n";
const PRIVATE: &str = "Content-Type: text/html\r\nCache-Control: private\r\nETag: \"v\"\r\n";
const MOST: u64 = 4 << 20;

fn compressing(origin: &Origin) -> Rig {
    Rig::h2c_with(origin.address(), |options| {
        options.compress = Compress {
            codings: Coding::ALL.to_vec(),
            types: vec!["text/html".to_owned()],
            least: 10,
            most: MOST,
        };
    })
}

fn text(length: usize, seed: usize) -> String {
    let numbers = (0..).map(|n: usize| format!("<p>{}</p>\n", n * 7919 + seed));
    let mut text = String::with_capacity(length + 20);
    for number in numbers {
        if text.len() >= length {
            break;
        }
        text.push_str(&number);
    }
    text.truncate(length);
    text
}

fn asked(path: &str, coding: &str, fields: &str) -> String {
    let accepts = if coding.is_empty() { "" } else { "Accept-Encoding: " };
    let end = if coding.is_empty() { "" } else { "\r\n" };
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{accepts}{coding}{end}{fields}\r\n")
}

fn get(rig: &Rig, path: &str, coding: &str) -> Reply {
    rig.client().send(asked(path, coding, "")).answer()
}

/// Returns the body of a complete response without its coding.
#[track_caller]
fn decoded(reply: &Reply) -> String {
    assert!(reply.whole, "{:?}", reply.head);
    let (mut bytes, mut text) = (&reply.body[..], String::new());
    match reply.header("content-encoding") {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut text),
        "zstd" => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_string(&mut text),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut text),
        _ => bytes.read_to_string(&mut text),
    }
    .unwrap();
    text
}

#[test]
fn clients_at_once_cost_one_fetch_and_one_compression_for_each_coding() {
    let page = text(700_000, 0);
    let (fetches, sent) = (Arc::new(AtomicUsize::new(0)), page.clone());
    let count = fetches.clone();
    let origin = Origin::scripted(move |asked, stream| {
        assert_eq!(asked.field("accept-encoding").as_deref(), Some("identity"));
        count.fetch_add(1, SeqCst);
        let _ = stream.write_all(ok(PAGE, &sent).as_bytes());
        Then::Stay
    });
    let rig = compressing(&origin);
    let start = Barrier::new(200);
    thread::scope(|scope| {
        for number in 0..200 {
            let (rig, start, page) = (&rig, &start, &page);
            scope.spawn(move || {
                let coding = ["", "gzip", "br", "zstd"][number % 4];
                start.wait();
                let reply = get(rig, "/page", coding);
                assert_eq!(reply.header("content-encoding"), coding);
                assert_eq!(reply.header("vary"), "Accept-Encoding");
                assert!(decoded(&reply) == *page);
            });
        }
    });
    assert_eq!((fetches.load(SeqCst), rig.seen.metrics.total(Event::Compressed)), (1, 3));
    // Each form is stored, alike for all.
    for coding in ["gzip", "br", "zstd"] {
        let bodies = [0, 1].map(|_| get(&rig, "/page", coding));
        assert_eq!(bodies[0].body, bodies[1].body);
        assert_eq!(bodies[0].header("content-length"), bodies[0].body.len().to_string());
    }
    assert_eq!(rig.seen.metrics.total(Event::Compressed), 3);
}

#[test]
fn sizes_decide_and_lengths_need_not_be_known() {
    let origin = Origin::scripted(|asked, stream| {
        let (kind, length) = asked.path[1..].split_once('/').unwrap();
        let body = text(length.parse().unwrap(), 0);
        let text = match kind {
            "chunked" => {
                let chunk = format!("{:x}\r\n{body}\r\n", body.len());
                let chunk = if body.is_empty() { "" } else { &chunk };
                format!(
                    "HTTP/1.1 200 OK\r\n{PAGE}Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
                )
            }
            _ => ok(PAGE, &body),
        };
        let _ = stream.write_all(text.as_bytes());
        Then::Stay
    });
    let rig = compressing(&origin);
    let (most, more) = (MOST as usize, MOST as usize + 1);
    for (length, is_coded) in
        [(0, false), (1, false), (9, false), (10, true), (most, true), (more, false)]
    {
        let reply = get(&rig, &format!("/known/{length}"), "gzip");
        assert_eq!(reply.header("content-encoding") == "gzip", is_coded, "{length}");
        assert!(decoded(&reply) == text(length, 0), "{length}");
        for _ in 0..2 {
            let reply = get(&rig, &format!("/chunked/{length}"), "gzip");
            assert!(decoded(&reply) == text(length, 0), "{length}");
        }
        let reply = get(&rig, &format!("/chunked/{length}"), "gzip");
        assert_eq!(reply.header("content-encoding") == "gzip", is_coded, "{length}");
    }
    let old = "GET /known/10 HTTP/1.0\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n";
    assert_eq!(decoded(&rig.client().send(old).answer()), text(10, 0));
    let old = "GET /known/2000 HTTP/1.0\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n";
    assert_eq!(decoded(&rig.client().send(old).answer()), text(2000, 0));
}

/// Sends half of a page, calls `wait`, and sends the other half.
fn in_halves(stream: &mut TcpStream, fields: &str, page: &str, wait: impl FnOnce()) {
    let text = ok(fields, page);
    let (first, second) = text.split_at(text.len() - page.len() / 2);
    let _ = stream.write_all(first.as_bytes());
    wait();
    let _ = stream.write_all(second.as_bytes());
}

#[test]
fn what_a_private_page_has_so_far_does_not_wait_for_the_rest() {
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    let origin = Origin::scripted(move |_, stream| {
        in_halves(stream, PRIVATE, &text(2000, 0), || _ = held.wait());
        Then::Stay
    });
    let rig = compressing(&origin);
    let mut client = rig.client();
    client.send(asked("/page", "gzip", ""));
    let head = client.head();
    assert_eq!((head.get("content-encoding"), head.get("etag")), (Some("gzip"), Some("W/\"v\"")));
    // The first chunk: its size, its bytes.
    let size = usize::from_str_radix(&client.line().unwrap(), 16).unwrap();
    let mut coded = Vec::new();
    assert!(client.exactly(size, &mut coded));
    let mut first = [0; 1000];
    flate2::read::GzDecoder::new(&coded[..]).read_exact(&mut first).unwrap();
    assert_eq!(first, text(2000, 0).as_bytes()[..1000]);
    gate.wait();
    while client.line().unwrap() != "0" {}
}

#[test]
fn a_broken_fetch_breaks_the_form_and_stores_nothing() {
    let origin = Origin::scripted(|asked, stream| {
        let (page, is_first) = (text(500_000, 0), asked.number == 0);
        let sent = ok(PAGE, &page);
        let length = if is_first { sent.len() / 2 } else { sent.len() };
        let _ = stream.write_all(&sent.as_bytes()[..length]);
        if is_first { Then::Close } else { Then::Stay }
    });
    let rig = compressing(&origin);
    assert!(!get(&rig, "/page", "br").whole);
    for _ in 0..2 {
        assert!(decoded(&get(&rig, "/page", "br")) == text(500_000, 0));
    }
}

#[test]
fn a_client_that_leaves_harms_no_other() {
    let origin = Origin::scripted(|_, stream| {
        let _ = stream.write_all(ok(PAGE, &text(MOST as usize, 0)).as_bytes());
        Then::Stay
    });
    let rig = compressing(&origin);
    for _ in 0..5 {
        let mut client = rig.client();
        client.send(asked("/page", "br", "")).head();
        client.reset();
    }
    assert!(decoded(&get(&rig, "/page", "br")) == text(MOST as usize, 0));
    assert!(decoded(&get(&rig, "/page", "")) == text(MOST as usize, 0));
    wait_until("all encoders end", || decoded(&get(&rig, "/page", "br")).len() == MOST as usize);
}

#[test]
fn after_a_removal_no_form_of_the_old_body_comes_back() {
    let version = Arc::new(AtomicUsize::new(0));
    let (current, gate) = (version.clone(), Arc::new(Barrier::new(2)));
    let held = gate.clone();
    let origin = Origin::scripted(move |asked, stream| {
        if asked.method == "DELETE" {
            current.fetch_add(1, SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            return Then::Stay;
        }
        let version = current.load(SeqCst);
        let wait = || {
            if version == 0 {
                _ = held.wait();
            }
        };
        in_halves(stream, PAGE, &text(300_000, version), wait);
        Then::Stay
    });
    let rig = compressing(&origin);
    let delete = "DELETE /page HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut early = rig.client();
    early.send(asked("/page", "gzip", "")).head();
    // Removed while the page is being fetched and compressed.
    assert_eq!(rig.client().send(delete).answer_to("DELETE").status, 204);
    for coding in ["gzip", "br", ""] {
        assert!(decoded(&get(&rig, "/page", coding)) == text(300_000, 1), "{coding}");
    }
    gate.wait();
    drop(early);
    for round in 2..6 {
        for coding in ["gzip", "zstd", "br", ""] {
            assert!(decoded(&get(&rig, "/page", coding)) == text(300_000, round - 1), "{coding}");
        }
        assert_eq!(rig.client().send(delete).answer_to("DELETE").status, 204);
    }
}

#[test]
fn beyond_the_limit_responses_go_out_as_they_are() {
    let origin = Origin::scripted(|asked, stream| {
        let page = text(2000, 0);
        match asked.path.as_str() {
            "/slow" => {
                let text = ok(PRIVATE, &page);
                let _ = stream.write_all(&text.as_bytes()[..text.len() - 1]);
                thread::sleep(Duration::from_millis(1));
                // The connection stays open until the client leaves.
                let _ = stream.read(&mut [0]);
                return Then::Close;
            }
            _ => drop(stream.write_all(ok(PAGE, &page).as_bytes())),
        }
        Then::Stay
    });
    let rig = compressing(&origin);
    let open = |_| {
        let mut client = rig.client();
        let head = client.send(asked("/slow", "gzip", "")).head();
        assert_eq!(head.get("content-encoding"), Some("gzip"));
        client
    };
    let slow: Vec<Client> = (0..64).map(open).collect();
    let reply = get(&rig, "/page", "gzip");
    assert_eq!((reply.header("content-encoding"), reply.header("vary")), ("", "Accept-Encoding"));
    assert_eq!(reply.text(), text(2000, 0));
    assert!(rig.seen.metrics.total(Event::CompressionSkipped) > 0);
    slow.into_iter().for_each(Client::reset);
    wait_until("a free encoder", || {
        get(&rig, "/page", "gzip").header("content-encoding") == "gzip"
    });
}
