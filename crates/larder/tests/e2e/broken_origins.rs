//! Faulty responses of an origin are never passed on as correct, and never stored.

use testkit::client::get;
use testkit::larder::Setup;
use testkit::origin::Origin;

/// Fetches `target` twice: neither response may count as complete, and the second must be fetched
/// again.
fn never_whole(target: &str) {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    for fetches in 1..=2 {
        let reply = larder.get(&origin.url(target));
        if reply.status == 200 {
            assert!(!reply.whole, "{target}: a cut body was passed on as whole: {:?}", reply.head);
            reply.verify_from(target, 0);
        } else {
            assert_eq!(reply.status, 502, "{target}: {:?}", reply.head);
        }
        assert!(origin.fetches(target) >= fetches, "{target} was served from the cache");
    }
}

#[test]
fn a_body_shorter_than_its_length_is_cut_and_not_stored() {
    never_whole("/page?size=3000&how=short");
    never_whole("/page?size=3000000&how=short");
}

#[test]
fn a_chunked_body_without_its_end_is_cut_and_not_stored() {
    never_whole("/page?size=300000&how=cutchunk");
    never_whole("/page?size=300000&how=badchunk");
}

#[test]
fn an_answer_that_is_not_http_is_a_502_with_a_reason() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    for target in ["/page?how=garbage", "/page?how=two"] {
        let reply = larder.get(&origin.url(target));
        assert_eq!(reply.status, 502, "{target}: {:?}", reply.head);
        assert!(reply.outcome().starts_with("ERROR"), "{:?}", reply.head);
        assert!(!reply.text().trim().is_empty());
    }
}

#[test]
fn an_origin_that_closes_without_a_word_is_a_502() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let reply = larder.get(&origin.url("/page?how=empty"));
    assert_eq!(reply.status, 502, "{:?}", reply.head);
}

#[test]
fn an_origin_that_is_not_there_is_a_502() {
    let larder = Setup::forward().start();
    let reply = larder.get(&format!("http://{}/page", testkit::address::free()));
    assert_eq!(reply.status, 502, "{:?}", reply.head);
    assert!(reply.outcome().starts_with("ERROR"), "{:?}", reply.head);
}

#[test]
fn bytes_behind_the_promised_length_are_not_passed_on() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000&how=excess";
    for _ in 0..2 {
        let mut connection = larder.connect();
        let reply = get(&origin.url(target)).send_on(&mut connection).unwrap();
        assert_eq!((reply.status, reply.len), (200, 1500));
        reply.verify_from(target, 0);
        // The next bytes on the connection are the next response, not the rest of this one.
        let next = "/next?size=10";
        get(&origin.url(next)).send_on(&mut connection).unwrap().verify(next);
    }
}

#[test]
fn bodies_without_a_length_are_stored_when_they_end_well() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    for how in ["chunked", "close", "trailers"] {
        for size in [0, 1, 5_000, 700_000] {
            let target = format!("/page?size={size}&how={how}");
            larder.get(&origin.url(&target)).verify(&target);
            let again = larder.get(&origin.url(&target));
            again.verify(&target);
            assert!(again.outcome().starts_with("HIT"), "{target}: {:?}", again.head);
            assert_eq!(origin.fetches(&target), 1);
        }
    }
}

#[test]
fn interim_answers_are_passed_on_before_the_final_one() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000&how=early&cc=no-store";
    let reply = larder.get(&origin.url(target));
    reply.verify(target);
    assert_eq!(reply.interim.len(), 2, "{:?}", reply.interim);
    assert!(reply.interim[0].contains("103"), "{:?}", reply.interim);
    assert_eq!(reply.interim[0].get("link"), Some("</style.css>; rel=preload"));
}

#[test]
fn a_pooled_connection_that_died_is_replaced_without_the_client_noticing() {
    let (origin, larder) = (Origin::start(), Setup::forward().flag("workers", "1").start());
    let target = "/page?cc=no-store";
    larder.get(&origin.url(target)).verify(target);
    origin.sever_used_connections();
    larder.get(&origin.url(target)).verify(target);
    assert_eq!(origin.fetches(target), 2);
}
