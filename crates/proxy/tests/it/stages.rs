//! Events at each stage of a fetch: before its response, within the head, between head and body,
//! within the body, before its last byte. Clients get the same, whichever task drives the fetch.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proxy::observe::event::Event;
use testkit::client::{Client, Reply, request_text};
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const FRESH: &str = "Cache-Control: max-age=600\r\n";
const UNSTORED: &str = "Cache-Control: no-store\r\n";
const BODY: &str = "the body of the answer";

/// Returns the forms of a response: with a length and in chunks, each storable and not.
fn answers() -> Vec<(bool, String)> {
    let chunked = |fields: &str| {
        format!(
            "HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n\
             a\r\n{}\r\nc\r\n{}\r\n0\r\n\r\n",
            &BODY[..10],
            &BODY[10..]
        )
    };
    vec![
        (true, ok(FRESH, BODY)),
        (false, ok(UNSTORED, BODY)),
        (true, chunked(FRESH)),
        (false, chunked(UNSTORED)),
    ]
}

/// Returns the positions in a response at which events are tested.
fn stages(answer: &str) -> Vec<usize> {
    let body = answer.find("\r\n\r\n").unwrap() + 4;
    vec![0, 9, body - 1, body, body + 1, body + 12, answer.len() - 1]
}

/// Starts an origin that stops at this position of its first response until the test says so. All
/// other requests get the same response without a stop.
fn stopping(answer: &str, at: usize) -> (Origin, Sender<()>, Arc<AtomicUsize>) {
    let (sender, receiver): (Sender<()>, Receiver<()>) = mpsc::channel();
    let (receiver, stopped) = (Mutex::new(Some(receiver)), Arc::new(AtomicUsize::new(0)));
    let (answer, noted) = (answer.as_bytes().to_vec(), stopped.clone());
    let origin = Origin::scripted(move |_, stream| {
        let first = receiver.lock().unwrap().take();
        let (before, behind) = answer.split_at(if first.is_some() { at } else { 0 });
        let _ = stream.write_all(before);
        if let Some(receiver) = first {
            noted.store(1, SeqCst);
            let _ = receiver.recv();
        }
        let _ = stream.write_all(behind);
        Then::Stay
    });
    (origin, sender, stopped)
}

/// Returns a client whose request has made the origin stop.
fn stopped(rig: &Rig, url: &str, stopped: &AtomicUsize) -> Client {
    let mut client = rig.client();
    client.send(request_text("GET", url, ""));
    wait_until("the origin stops", || stopped.load(SeqCst) == 1);
    client
}

/// Waits until the response is stored.
fn wait_until_stored(rig: &Rig, url: &str) {
    wait_until("it is stored", || {
        let answer = rig.client().get_with(url, "Cache-Control: only-if-cached\r\n");
        assert!(answer.status == 504 || (answer.whole && answer.text() == BODY), "{answer:?}");
        answer.status == 200
    });
}

fn is_whole(answer: &Reply, where_: &str) {
    assert!(answer.status == 200 && answer.whole, "{where_}: {answer:?}");
    assert_eq!(answer.text(), BODY, "{where_}");
}

#[test]
fn a_second_client_joins_at_any_stage() {
    for (is_stored, text) in answers() {
        for at in stages(&text) {
            let where_ = format!("at {at} of {text:?}");
            let (rig, (origin, go_on, there)) = (Rig::forward(), stopping(&text, at));
            let url = origin.url("/x");
            let mut first = stopped(&rig, &url, &there);
            let mut second = rig.client();
            second.send(request_text("GET", &url, ""));
            // The request either waits for the fetch, or was sent on its own.
            let joined = || rig.seen.metrics.total(Event::FollowerJoined) > 0;
            wait_until("it is on its way", || joined() || origin.count() > 1);
            let second = thread::spawn(move || second.answer());
            go_on.send(()).unwrap();
            is_whole(&first.answer(), &where_);
            is_whole(&second.join().unwrap(), &where_);
            assert_eq!(origin.count(), if is_stored { 1 } else { 2 }, "{where_}");
        }
    }
}

#[test]
fn the_first_client_may_disconnect_at_any_stage() {
    for (is_stored, text) in answers() {
        for at in stages(&text) {
            let where_ = format!("at {at} of {text:?}");
            let (rig, (origin, go_on, there)) = (Rig::forward(), stopping(&text, at));
            let url = origin.url("/x");
            stopped(&rig, &url, &there).reset();
            // Usually the reset is noticed before the origin continues.
            thread::sleep(Duration::from_millis(20));
            go_on.send(()).unwrap();
            // Without a head the fetch ends with its only client, if the reset is noticed in time.
            let has_head = at >= text.find("\r\n\r\n").unwrap() + 4;
            if is_stored && has_head {
                wait_until_stored(&rig, &url);
            }
            is_whole(&rig.client().get(&url), &where_);
            let (least, most) = if has_head && is_stored { (1, 1) } else { (1, 2) };
            assert!((least..=most).contains(&origin.count()), "{where_}");
        }
    }
}

#[test]
fn a_response_cut_at_any_byte_is_whole_for_no_client() {
    let all = answers();
    for (number, (_, text)) in all.iter().enumerate() {
        let breaks = Arc::new(AtomicUsize::new(0));
        let (at, answer) = (breaks.clone(), text.clone().into_bytes());
        let origin = Origin::scripted(move |asked, stream| {
            let whole = asked.path.starts_with("/whole");
            let length = if whole { answer.len() } else { at.load(SeqCst) };
            let _ = stream.write_all(&answer[..length]);
            if whole { Then::Stay } else { Then::Close }
        });
        let rig = Rig::forward();
        let head = text.find("\r\n\r\n").unwrap() + 4;
        for length in 0..text.len() {
            breaks.store(length, SeqCst);
            let url = origin.url(&format!("/{number}/{length}"));
            let answer = rig.client().get(&url);
            let expected = if length < head { (502, true) } else { (200, false) };
            assert_eq!((answer.status, answer.whole), expected, "{length} of {text:?}");
            assert!(length < head || BODY.starts_with(&answer.text()), "{answer:?}");
            // No other client gets any of it.
            let again = rig.client().get_with(&url, "Cache-Control: only-if-cached\r\n");
            assert_eq!(again.status, 504, "{length} of {text:?}");
        }
        is_whole(&rig.client().get(&origin.url("/whole")), text);
    }
}

#[test]
fn a_removal_overtakes_a_fetch_at_any_stage() {
    for (_, text) in answers() {
        for at in stages(&text) {
            let where_ = format!("at {at} of {text:?}");
            let (rig, (origin, go_on, there)) = (Rig::forward(), stopping(&text, at));
            let url = origin.url("/x");
            let mut first = stopped(&rig, &url, &there);
            assert_eq!(rig.client().send(request_text("DELETE", &url, "")).answer().status, 200);
            go_on.send(()).unwrap();
            is_whole(&first.answer(), &where_);
            let before = origin.count();
            is_whole(&rig.client().get(&url), &where_);
            assert_eq!(origin.count(), before + 1, "{where_}");
        }
    }
}

#[test]
fn a_slow_client_of_an_unstored_response_delays_no_other() {
    let body = "0123456789abcdef".repeat(1 << 18);
    let (text, expected) = (ok(UNSTORED, &body), body.clone());
    let origin = Origin::scripted(move |_, stream| {
        let _ = stream.write_all(text.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/x");
    for _ in 0..2 {
        let mut slow = rig.client();
        slow.send(request_text("GET", &url, ""));
        let head = slow.head();
        for _ in 0..3 {
            let answer = rig.client().get(&url);
            assert!(answer.whole && answer.body == expected.as_bytes());
        }
        let answer = slow.rest(head, "GET");
        assert!(answer.whole && answer.body == expected.as_bytes());
    }
}

#[test]
fn hostile_heads_are_refused_whichever_task_drives_the_fetch() {
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\rContent-Length: 5\r\n\r\nhello",
        "\r\n\r\nnothing",
        "",
    ];
    let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(10_000);
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    for head in heads.iter().map(|head| (*head).to_owned()).chain([flood, long]) {
        let answer = head.clone();
        let origin = Origin::scripted(move |_, stream| {
            let _ = stream.write_all(answer.as_bytes());
            Then::Close
        });
        let rig = Rig::forward();
        for _ in 0..2 {
            let mut client = rig.client();
            client.send(request_text("GET", &origin.url("/x"), ""));
            let mut told = client.head();
            while told.starts_with("HTTP/1.1 103 ") {
                told = client.head();
            }
            let answer = client.rest(told, "GET");
            let is_refused = answer.status == 502 || !answer.whole;
            assert!(is_refused, "{:?}: {answer:?}", &head[..head.len().min(80)]);
        }
    }
}
