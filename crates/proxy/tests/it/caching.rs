//! Caching: which responses are stored, which are served from the cache, and which requests reach
//! the origin.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proxy::observe::event::Event;
use testkit::client::{Client, request_text};
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
fn the_second_request_is_a_hit_also_after_a_restart() {
    let origin = counting(FRESH);
    let mut rig = Rig::forward();
    let first = rig.client().get(&origin.url("/a"));
    assert_eq!((first.text().as_str(), first.detail().as_str()), ("answer 0", "MISS"));
    assert!(!first.field("cache-status").unwrap().contains("stored"));
    assert_eq!(first.field("age"), None);
    for client in [&mut rig.client(), &mut rig.client()] {
        let second = client.get(&origin.url("/a"));
        assert_eq!((second.text().as_str(), second.detail().as_str()), ("answer 0", "HIT_RAM"));
        assert!(second.field("age").is_some());
        assert_eq!(second.field("content-length").unwrap(), "8");
    }
    rig.stop();
    let rig = Rig::forward_on(rig.device.clone());
    let third = rig.client().get(&origin.url("/a"));
    assert_eq!((third.text().as_str(), third.detail().as_str()), ("answer 0", "HIT_DISK"));
    assert_eq!(origin.count(), 1);
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
fn a_head_is_answered_from_a_stored_get() {
    let origin = counting(FRESH);
    let rig = Rig::forward();
    let mut client = rig.client();
    client.get(&origin.url("/a"));
    let head = client.send(request_text("HEAD", &origin.url("/a"), "")).answer_to("HEAD");
    assert_eq!((head.status, head.detail().as_str()), (200, "HIT_RAM"));
    assert_eq!(head.field("content-length").unwrap(), "8");
    assert_eq!(client.get(&origin.url("/a")).text(), "answer 0");
    assert_eq!(origin.count(), 1);
}

#[test]
fn conditions_are_answered_from_the_store() {
    let origin = validating(FRESH);
    let rig = Rig::forward();
    let mut client = rig.client();
    client.get(&origin.url("/"));
    let answer = client.get_with(&origin.url("/"), "If-None-Match: \"v1\"\r\n");
    assert_eq!((answer.status, answer.detail().as_str()), (304, "HIT_RAM"));
    assert_eq!(answer.field("etag").unwrap(), "\"v1\"");
    let answer = client.get_with(&origin.url("/"), "If-None-Match: \"v2\"\r\n");
    assert_eq!((answer.status, answer.text().as_str()), (200, "validated body"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_condition_on_a_miss_is_forwarded_and_its_304_is_not_shared() {
    let origin = validating(FRESH);
    let rig = Rig::forward();
    let mut client = rig.client();
    let answer = client.get_with(&origin.url("/"), "If-None-Match: \"v1\"\r\n");
    assert_eq!((answer.status, answer.detail().as_str()), (304, "MISS"));
    assert_eq!(origin.requests()[0].field("if-none-match").as_deref(), Some("\"v1\""));
    let answer = client.get(&origin.url("/"));
    assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("validated body", "MISS"));
    assert_eq!(origin.requests()[1].field("if-none-match"), None);
    assert_eq!(client.get(&origin.url("/")).detail(), "HIT_RAM");
    assert_eq!(origin.count(), 2);
}

#[test]
fn ranges_are_cut_from_the_stored_response() {
    let origin = Origin::always(ok(&format!("{FRESH}Content-Type: text/x\r\n"), "0123456789"));
    let rig = Rig::forward();
    let mut client = rig.client();
    client.get(&origin.url("/"));
    let part = client.get_with(&origin.url("/"), "Range: bytes=2-4\r\n");
    assert_eq!(
        (part.status, part.text().as_str(), part.detail().as_str()),
        (206, "234", "HIT_RAM")
    );
    assert_eq!(part.field("content-range").unwrap(), "bytes 2-4/10");
    let tail = client.get_with(&origin.url("/"), "Range: bytes=-1\r\n");
    assert_eq!(tail.text(), "9");
    let beyond = client.get_with(&origin.url("/"), "Range: bytes=10-\r\n");
    assert_eq!((beyond.status, beyond.body.len()), (416, 0));
    assert_eq!(beyond.field("content-range").unwrap(), "bytes */10");
    let head = client.send(request_text("HEAD", &origin.url("/"), "Range: bytes=0-0\r\n"));
    assert_eq!(head.answer_to("HEAD").status, 200);
    assert_eq!(origin.count(), 1);
}

#[test]
fn several_ranges_come_as_multipart() {
    let body: String = (0..200).map(|i| format!("{i:04}")).collect();
    let origin = Origin::always(ok(&format!("{FRESH}Content-Type: text/x\r\n"), &body));
    let rig = Rig::forward();
    let mut client = rig.client();
    client.get(&origin.url("/"));
    let answer = client.get_with(&origin.url("/"), "Range: bytes=0-3, 400-403\r\n");
    assert_eq!(answer.status, 206);
    let content_type = answer.field("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, text: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/x\r\nContent-Range: bytes {range}/800\r\n\r\n\
             {text}"
        )
    };
    let end = format!("\r\n--{boundary}--\r\n");
    let expected = part("0-3", "0000") + &part("400-403", "0100") + &end;
    assert_eq!(answer.text(), expected);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_part_without_a_validator_serves_ranges_within_it() {
    let origin = Origin::scripted(|asked, stream| {
        let answer = match asked.field("range") {
            Some(_) => "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\n\
                Content-Range: bytes 1-2/4\r\nContent-Length: 2\r\n\r\nbc"
                .to_owned(),
            None => ok(FRESH, "abcd"),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    let part = client.get_with(&origin.url("/"), "Range: bytes=1-2\r\n");
    assert_eq!((part.status, part.detail().as_str()), (206, "MISS"));
    let part = client.get_with(&origin.url("/"), "Range: bytes=2-2\r\n");
    assert_eq!((part.status, part.text().as_str(), part.detail().as_str()), (206, "c", "HIT_RAM"));
    assert_eq!(part.field("content-range").unwrap(), "bytes 2-2/4");
    assert_eq!(client.get(&origin.url("/")).detail(), "MISS");
    let part = client.get_with(&origin.url("/"), "Range: bytes=1-2\r\n");
    assert_eq!((part.text().as_str(), part.detail().as_str()), ("bc", "HIT_RAM"));
}

#[test]
fn a_stale_object_is_validated_and_its_body_served() {
    let origin = validating("Cache-Control: max-age=0\r\n");
    let rig = Rig::forward();
    let mut client = rig.client();
    assert_eq!(client.get(&origin.url("/")).detail(), "MISS");
    for _ in 0..3 {
        let answer = client.get(&origin.url("/"));
        assert_eq!((answer.status, answer.detail().as_str()), (200, "REVALIDATED"));
        assert_eq!(answer.text(), "validated body");
    }
    assert!(origin.requests()[1..].iter().all(|asked| asked.field("if-none-match").is_some()));
    let answer = client.get_with(&origin.url("/"), "If-None-Match: \"v1\"\r\n");
    assert_eq!((answer.status, answer.detail().as_str()), (304, "REVALIDATED"));
}

#[test]
fn an_immediately_stale_response_is_stored_again_after_removal() {
    let origin = validating("Cache-Control: max-age=0\r\n");
    let rig = Rig::forward();
    let mut client = rig.client();
    for _ in 0..2 {
        assert_eq!(client.get(&origin.url("/")).detail(), "MISS");
        assert_eq!(client.get(&origin.url("/")).detail(), "REVALIDATED");
        client.send(request_text("DELETE", &origin.url("/"), "")).answer();
    }
}

#[test]
fn a_changed_object_replaces_the_stale_one() {
    let origin = counting("Cache-Control: max-age=1\r\nAge: 1\r\nETag: \"x\"\r\n");
    let rig = Rig::forward();
    let mut client = rig.client();
    assert_eq!(client.get(&origin.url("/")).detail(), "MISS");
    let answer = client.get(&origin.url("/"));
    assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("answer 1", "REFRESHED"));
    let answer = client.get_with(&origin.url("/"), "Cache-Control: max-stale\r\n");
    assert_eq!(
        (answer.text().as_str(), answer.detail().as_str()),
        ("answer 1", "STALE(max-stale)")
    );
}

#[test]
fn a_reload_validates_a_fresh_response() {
    let origin = validating(FRESH);
    let rig = Rig::forward();
    let mut client = rig.client();
    client.get(&origin.url("/"));
    let answer = client.get_with(&origin.url("/"), "Cache-Control: no-cache\r\n");
    assert_eq!((answer.status, answer.detail().as_str()), (200, "REVALIDATED"));
    assert_eq!(client.get(&origin.url("/")).detail(), "HIT_RAM");
    assert_eq!(origin.count(), 2);
}

#[test]
fn stale_responses_replace_errors_of_the_origin() {
    const STALE_ON_ERROR: &str =
        "Cache-Control: max-age=1, stale-if-error=600\r\nAge: 1\r\nETag: \"x\"\r\n";
    let failing = |error: &'static str| {
        Origin::scripted(move |asked, stream| {
            let answer = match asked.number {
                0 => ok(STALE_ON_ERROR, "good"),
                _ => error.to_owned(),
            };
            let _ = stream.write_all(answer.as_bytes());
            if error.is_empty() && asked.number > 0 { Then::Close } else { Then::Stay }
        })
    };
    let rig = Rig::forward();
    let mut client = rig.client();
    for (error, detail) in [
        ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno", "STALE(if-error)"),
        ("", "STALE(unreachable)"),
    ] {
        let origin = failing(error);
        assert_eq!(client.get(&origin.url("/")).text(), "good");
        for _ in 0..2 {
            let answer = client.get(&origin.url("/"));
            assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("good", detail));
        }
    }
    // must-revalidate forbids the stale response.
    let origin = Origin::scripted(|asked, stream| {
        let answer = match asked.number {
            0 => {
                ok("Cache-Control: max-age=1, must-revalidate\r\nAge: 1\r\nETag: \"x\"\r\n", "good")
            }
            _ => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno".to_owned(),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    client.get(&origin.url("/"));
    assert_eq!(client.get(&origin.url("/")).status, 503);
}

#[test]
fn stale_while_revalidate_serves_at_once_and_refreshes_in_the_background() {
    let origin = counting(
        "Cache-Control: max-age=1, stale-while-revalidate=600\r\nAge: 1\r\nETag: \"x\"\r\n",
    );
    let rig = Rig::forward();
    let mut client = rig.client();
    assert_eq!(client.get(&origin.url("/")).text(), "answer 0");
    let answer = client.get(&origin.url("/"));
    assert_eq!(answer.text(), "answer 0");
    assert_eq!(answer.detail(), "STALE(while-revalidate)");
    // Eventually the refreshed response is served.
    while client.get(&origin.url("/")).text() == "answer 0" {}
}

#[test]
fn only_if_cached_contacts_no_origin() {
    let origin = counting(FRESH);
    let rig = Rig::forward();
    let mut client = rig.client();
    let only = "Cache-Control: only-if-cached\r\n";
    let answer = client.get_with(&origin.url("/"), only);
    assert_eq!((answer.status, answer.detail().as_str()), (504, "ERROR(only-if-cached)"));
    client.get(&origin.url("/"));
    assert_eq!(client.get_with(&origin.url("/"), only).detail(), "HIT_RAM");
    assert_eq!(origin.count(), 1);
}

#[test]
fn unstorable_responses_are_not_stored() {
    let rig = Rig::forward();
    let mut client = rig.client();
    for fields in ["Cache-Control: no-store\r\n", "Cache-Control: private\r\n", "Vary: *\r\n"] {
        let origin = counting(fields);
        client.get(&origin.url("/"));
        assert_eq!(client.get(&origin.url("/")).text(), "answer 1", "{fields}");
    }
    let origin = counting(FRESH);
    for number in 0..2 {
        let answer = client.get_with(&origin.url("/"), "Cache-Control: no-store\r\n");
        assert_eq!(answer.text(), format!("answer {number}"));
        assert_eq!(answer.detail(), "BYPASS(no-store)");
    }
    // A stored response may still be served.
    client.get(&origin.url("/"));
    let answer = client.get_with(&origin.url("/"), "Cache-Control: no-store\r\n");
    assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("answer 2", "HIT_RAM"));
    let origin = counting(FRESH);
    for number in 0..2 {
        let answer = client.get_with(&origin.url("/"), "Authorization: Basic eA==\r\n");
        assert_eq!(answer.text(), format!("answer {number}"));
    }
}

#[test]
fn variants_are_kept_apart() {
    let origin = Origin::scripted(|asked, stream| {
        let language = asked.field("accept-language").unwrap_or_default();
        let fields = format!("{FRESH}Vary: Accept-Language\r\n");
        let _ = stream.write_all(ok(&fields, &format!("in {language}")).as_bytes());
        Then::Stay
    });
    let mut rig = Rig::forward();
    let ask = |client: &mut Client, language: &str| {
        let fields = format!("Accept-Language: {language}\r\n");
        let answer = client.get_with(&origin.url("/"), &fields);
        assert_eq!(answer.text(), format!("in {language}"));
        answer.detail()
    };
    let mut client = rig.client();
    assert_eq!(ask(&mut client, "de"), "MISS");
    assert_eq!(ask(&mut client, "en"), "MISS");
    for language in ["de", "en"] {
        assert_eq!(ask(&mut client, language), "HIT_RAM");
    }
    assert_eq!(origin.count(), 2);
    // An unsafe method removes all variants.
    client.send(request_text("DELETE", &origin.url("/"), "")).answer();
    assert_eq!(ask(&mut client, "de"), "MISS");
    assert_eq!(ask(&mut client, "en"), "MISS");
    rig.stop();
    let rig = Rig::forward_on(rig.device.clone());
    // A memory hit if reading the `Vary` marker has also brought the variant.
    let outcome = ask(&mut rig.client(), "de");
    assert!(["HIT_DISK", "HIT_RAM"].contains(&outcome.as_str()), "{outcome}");
}

#[test]
fn unsafe_methods_invalidate_before_their_response() {
    let origin = Origin::scripted(|asked, stream| {
        let answer = match asked.method.as_str() {
            "POST" => ok("Content-Location: /other\r\nLocation: http://elsewhere/x\r\n", "done"),
            "PUT" => "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => ok(FRESH, &format!("answer {}", asked.number)),
        };
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    for path in ["/a", "/other", "/third"] {
        client.get(&origin.url(path));
    }
    // An error invalidates nothing.
    client.send(request_text("PUT", &origin.url("/a"), "Content-Length: 0\r\n")).answer();
    assert_eq!(client.get(&origin.url("/a")).detail(), "HIT_RAM");
    client.send(request_text("POST", &origin.url("/a"), "Content-Length: 0\r\n")).answer();
    assert_eq!(client.get(&origin.url("/a")).detail(), "MISS");
    assert_eq!(client.get(&origin.url("/other")).detail(), "MISS");
    assert_eq!(client.get(&origin.url("/third")).detail(), "HIT_RAM");
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
fn members_of_upstream_caches_stay_in_cache_status() {
    let origin = counting("Cache-Control: max-age=600\r\nCache-Status: Up; hit\r\nAge: 7\r\n");
    let rig = Rig::forward();
    let mut client = rig.client();
    let answer = client.get(&origin.url("/"));
    assert!(answer.field("cache-status").unwrap().starts_with("Up; hit, larder; "));
    assert_eq!(answer.field("age").unwrap(), "7");
    let answer = client.get(&origin.url("/"));
    assert!(answer.field("cache-status").unwrap().starts_with("Up; hit, larder; hit"));
    assert!(answer.field("age").unwrap().parse::<u64>().unwrap() >= 7);
}

#[test]
fn every_outcome_of_the_cache_is_counted_once() {
    // The stored response is stale at once, and the origin confirms it.
    let stale = validating("Cache-Control: max-age=0\r\n");
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
