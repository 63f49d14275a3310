//! Caching, as far as scripts cannot say it: restarts, changes at the same time, counts.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proxy::observe::event::Event;
use testkit::client::request_text;
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Starts an origin that responds with the number of the request and with these fields.
fn counting(fields: &'static str) -> Origin {
    Origin::scripted(move |asked, stream| {
        let _ = stream.write_all(ok(fields, &format!("answer {}", asked.number)).as_bytes());
        Then::Stay
    })
}

/// Starts an origin with a validator, which responds 304 to clients that have it.
fn validating(fields: &'static str) -> Origin {
    Origin::scripted(move |asked, stream| {
        let answer = match asked.field("if-none-match").as_deref() {
            Some("\"v1\"") => format!("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n{fields}\r\n"),
            _ => ok(&format!("ETag: \"v1\"\r\n{fields}"), "validated body"),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    })
}

#[test]
fn large_objects_come_back_whole_from_ram_and_disk() {
    let body: String = (0..300_000).map(|i| format!("{i:06} ")).collect();
    let answer = ok(FRESH, &body);
    let origin = Origin::always(answer);
    let mut rig = Rig::forward();
    let first = rig.client().get(&origin.url("/big"));
    assert!(first.whole && first.text() == body);
    let second = rig.client().get(&origin.url("/big"));
    assert!(second.text() == body, "{}", second.detail());
    let part = rig.client().get_with(&origin.url("/big"), "Range: bytes=1400000-1400006\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "200000 "));
    rig.stop();
    let rig = Rig::forward_on(rig.device.clone());
    let third = rig.client().get(&origin.url("/big"));
    assert_eq!(third.detail(), "HIT_DISK");
    assert!(third.text() == body);
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_response_to_a_post_is_not_stored_after_a_concurrent_change() {
    for changed in [false, true] {
        let deleted = Arc::new(AtomicBool::new(!changed));
        let done = deleted.clone();
        let origin = Origin::scripted(move |asked, stream| {
            if asked.method == "POST" {
                wait_until("the other request", || done.load(Ordering::SeqCst));
            }
            let fields = format!("{FRESH}Content-Location: /a\r\n");
            let _ = stream.write_all(ok(&fields, "the new one").as_bytes());
            Then::Stay
        });
        let rig = Rig::forward();
        let (mut post, mut client) = (rig.client(), rig.client());
        post.send(request_text("POST", &origin.url("/a"), "Content-Length: 0\r\n"));
        if changed {
            origin.await_count(1);
            client.send(request_text("DELETE", &origin.url("/a"), "")).answer();
            deleted.store(true, Ordering::SeqCst);
        }
        assert_eq!(post.answer().status, 200);
        let expected = if changed { "MISS" } else { "HIT_RAM" };
        assert_eq!(client.get(&origin.url("/a")).detail(), expected);
    }
}

#[test]
fn fronts_do_not_share_stored_responses() {
    let origin = counting(FRESH);
    let device = crate::rig::empty_cache();
    let mut forward = Rig::forward_on(device.clone());
    forward.client().get(&origin.url("/"));
    forward.stop();
    let reverse = Rig::reverse_on(origin.address(), device);
    let mut client = reverse.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address()));
    assert_eq!(client.answer().detail(), "MISS");
    client.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address()));
    assert_eq!(client.answer().detail(), "HIT_RAM");
}

#[test]
fn every_outcome_of_the_cache_is_counted_once() {
    // The stored response is stale at once, and the origin confirms it.
    let stale = validating("Cache-Control: max-age=5\r\nAge: 6\r\n");
    let fresh = validating(FRESH);
    let (stale, fresh) = (stale.url("/stale"), fresh.url("/fresh"));
    let counts = |rig: &Rig| {
        let lookups = [
            Event::CacheMiss,
            Event::MemoryHit,
            Event::MemoryStaleHit,
            Event::DiskHit,
            Event::DiskStaleHit,
        ];
        lookups.map(|event| rig.seen.metrics.total(event))
    };
    let mut rig = Rig::forward();
    rig.client().get(&stale);
    assert_eq!(rig.client().get(&stale).detail(), "REVALIDATED");
    rig.client().get(&fresh);
    rig.client().get(&fresh);
    assert_eq!(counts(&rig), [2, 1, 1, 0, 0]);
    // Conditional requests: one gets a 304, one does not.
    let mut client = rig.client();
    client.get_with(&fresh, "If-None-Match: \"v1\"\r\n");
    client.get_with(&fresh, "If-None-Match: \"v2\"\r\n");
    assert_eq!(counts(&rig), [2, 3, 1, 0, 0]);
    let conditional = [Event::ConditionalHit, Event::ConditionalMiss];
    assert_eq!(conditional.map(|event| rig.seen.metrics.total(event)), [1, 1]);
    rig.stop();
    let mut rig = Rig::forward_on(rig.device.clone());
    rig.client().get(&fresh);
    rig.client().get(&fresh);
    assert_eq!(counts(&rig), [0, 1, 0, 1, 0]);
    // A fresh start, because reading one object may also have brought the other.
    rig.stop();
    let rig = Rig::forward_on(rig.device.clone());
    rig.client().get(&stale);
    assert_eq!(counts(&rig), [0, 0, 0, 0, 1]);
}
