//! Each outcome of a request has one name, which states what happened.

use testkit::client::{get, request};
use testkit::io::eventually;
use testkit::larder::Setup;
use testkit::origin::Origin;

#[test]
fn a_miss_then_a_hit_from_memory() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000";
    let first = larder.get(&origin.url(target));
    first.verify(target);
    assert_eq!(first.outcome(), "MISS");
    assert!(first.header("cache-status").contains("fwd=uri-miss"), "{:?}", first.head);
    // It is not known yet whether the response will be stored in the end.
    assert!(!first.header("cache-status").contains("stored"), "{:?}", first.head);
    let second = larder.get(&origin.url(target));
    second.verify(target);
    assert_eq!(second.outcome(), "HIT_RAM");
    assert!(second.header("cache-status").contains("larder; hit"), "{:?}", second.head);
    assert!(second.head.get("age").is_some(), "{:?}", second.head);
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn a_stale_object_that_the_origin_confirms_is_revalidated() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000&cc=max-age=0&etag=1&lm=1";
    larder.get(&origin.url(target)).verify(target);
    let again = larder.get(&origin.url(target));
    again.verify(target);
    assert_eq!((again.status, again.outcome().as_str()), (200, "REVALIDATED"));
    let asked = origin.requests_for(target);
    assert!(asked[1].head.get("if-none-match").is_some(), "{:?}", asked[1]);
}

#[test]
fn a_stale_object_that_changed_is_refreshed() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000&cc=max-age=0&etag=1";
    larder.get(&origin.url(target)).verify(target);
    origin.change(target);
    let again = larder.get(&origin.url(target));
    again.verify(target);
    assert_eq!((again.header("x-version"), again.outcome().as_str()), ("1", "REFRESHED"));
}

#[test]
fn a_stale_object_is_served_to_a_client_that_allows_it() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000&cc=max-age=1&h=Age:1&etag=1";
    let url = origin.url(target);
    larder.get(&url).verify(target);
    let fresh_enough = get(&url).header("Cache-Control", "max-stale=600");
    let again = larder.send(&fresh_enough);
    again.verify(target);
    assert_eq!(again.outcome(), "STALE");
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn what_must_not_be_stored_is_fetched_each_time() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    for target in ["/a?cc=no-store", "/b?cc=private", "/c?cc=max-age=60&vary=*"] {
        for fetches in 1..=2 {
            let reply = larder.get(&origin.url(target));
            reply.verify(target);
            assert!(!reply.header("cache-status").contains("stored"), "{:?}", reply.head);
            assert_eq!(origin.fetches(target), fetches, "{target}");
        }
    }
}

#[test]
fn a_method_that_is_never_cached_goes_past_the_cache() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/form?size=50";
    for fetches in 1..=2 {
        let reply = larder.send(&request("POST", &origin.url(target)).body(b"a=1&b=2"));
        reply.verify(target);
        assert!(reply.outcome().starts_with("BYPASS"), "{:?}", reply.head);
        assert_eq!(origin.fetches(target), fetches);
    }
    assert_eq!(origin.requests_for(target)[0].body, b"a=1&b=2");
}

#[test]
fn an_unsafe_method_invalidates_what_is_stored() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/item?size=50";
    larder.get(&origin.url(target)).verify(target);
    larder.send(&request("POST", &origin.url(target)).body(b"new"));
    let after = larder.get(&origin.url(target));
    after.verify(target);
    assert_eq!(after.outcome(), "MISS");
    assert_eq!(origin.fetches(target), 3);
}

#[test]
fn variants_are_stored_side_by_side() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?vary=Accept-Language&size=2000";
    let url = origin.url(target);
    for (language, outcome) in
        [("de", "MISS"), ("en", "MISS"), ("de", "HIT_RAM"), ("en", "HIT_RAM")]
    {
        let reply = larder.send(&get(&url).header("Accept-Language", language));
        reply.verify(target);
        assert_eq!(reply.header("x-variant"), language);
        assert_eq!(reply.outcome(), outcome, "{language}");
    }
    assert_eq!(origin.fetches(target), 2);
}

#[test]
fn a_purge_takes_all_variants() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?vary=Accept-Language";
    let url = origin.url(target);
    let ask = |language| larder.send(&get(&url).header("Accept-Language", language));
    for language in ["de", "en"] {
        ask(language).verify(target);
    }
    assert!(larder.purge(&url));
    for language in ["de", "en"] {
        assert_eq!(ask(language).outcome(), "MISS", "{language}");
    }
}

#[test]
fn followers_of_a_running_fill_share_it() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&gate=half";
    let url = origin.url(target);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 1);
        let mut second = larder.connect();
        second.send(get(&url).bytes());
        // Once its head has arrived, it follows a fill that cannot end before the gate is opened.
        let head = second.read_head().unwrap();
        origin.open("half");
        let second = second.rest(head, "GET");
        first.join().unwrap().verify(target);
        second.verify(target);
        assert_eq!(second.outcome(), "HIT_FILL");
    });
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn a_head_request_is_answered_from_a_stored_get() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=3000";
    larder.get(&origin.url(target)).verify(target);
    let head = larder.send(&request("HEAD", &origin.url(target)));
    assert_eq!((head.status, head.header("content-length"), head.len), (200, "3000", 0));
    assert_eq!(head.outcome(), "HIT_RAM");
}

#[test]
fn ranges_are_cut_from_a_stored_whole() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=200000&etag=1";
    let url = origin.url(target);
    larder.get(&url).verify(target);
    let cases: [(&str, u64, u64); 4] = [
        ("bytes=0-9", 0, 10),
        ("bytes=65530-65545", 65_530, 16),
        ("bytes=199990-", 199_990, 10),
        ("bytes=-100", 199_900, 100),
    ];
    for (range, offset, len) in cases {
        let part = larder.send(&get(&url).header("Range", range));
        assert_eq!((part.status, part.len), (206, len), "{range}");
        part.verify_from(target, offset);
        assert!(part.outcome().starts_with("HIT"), "{:?}", part.head);
        let last = offset + len - 1;
        assert_eq!(part.header("content-range"), format!("bytes {offset}-{last}/200000"));
    }
    let beyond = larder.send(&get(&url).header("Range", "bytes=200000-"));
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */200000"));
    let several = larder.send(&get(&url).header("Range", "bytes=0-1,100000-100001"));
    assert_eq!(several.status, 206);
    assert!(several.header("content-type").starts_with("multipart/byteranges"));
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn the_outcomes_are_counted_in_the_metrics() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let url = origin.url("/page");
    for _ in 0..3 {
        larder.get(&url);
    }
    let text = larder.metrics();
    let counted = |outcome: &str| text.lines().any(|l| l.contains(outcome) && !l.ends_with(" 0"));
    assert!(counted("HIT_RAM") || counted("hit_ram"), "{text}");
    assert!(counted("MISS") || counted("miss"), "{text}");
}

#[test]
fn the_access_log_names_the_outcome_in_each_format() {
    for (format, hit) in [("combined", "HIT_RAM"), ("json", "HIT_RAM"), ("squid", "TCP_MEM_HIT")] {
        let setup = Setup::forward();
        let path = setup.path("access.log");
        let name = path.display().to_string();
        let setup = setup.flag("access-log", &name).flag("log-format", format);
        let (origin, larder) = (Origin::start(), setup.start());
        let url = origin.url("/page");
        let with_secret = url.replace("http://", "http://user:secret@");
        larder.get(&url);
        larder.get(&url);
        larder.send(&get(&with_secret).header("Host", &origin.address().to_string()));
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        assert!(eventually(|| read().lines().count() >= 3), "{format}: {}", read());
        let text = read();
        // Each has a connection of its own, and a line once it has ended: in any order.
        let hits = text.lines().filter(|line| line.contains(hit)).count();
        assert_eq!((hits, text.lines().count()), (2, 3), "{format}: {text}");
        assert!(!text.contains("secret"), "{format}: {text}");
    }
}
