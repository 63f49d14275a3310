//! Objects that are stored in parts, as far as scripts cannot say it: windows of large objects,
//! fetches that broke off or run, restarts, and ranges by chance.

use std::thread;

use testkit::body::mix;
use testkit::client::{Reply, get};
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;

/// Requests `bytes=first-last` and checks every byte of the part.
#[track_caller]
fn part(larder: &Larder, origin: &Origin, target: &str, first: u64, last: u64) -> Reply {
    let range = format!("bytes={first}-{last}");
    let reply = larder.send(&get(&origin.url(target)).header("Range", &range));
    assert!(reply.whole, "cut off after {} bytes: {:?}", reply.len, reply.head);
    assert_eq!((reply.status, reply.len), (206, last - first + 1), "{range}: {:?}", reply.head);
    assert!(reply.header("content-range").starts_with(&format!("bytes {first}-{last}/")));
    reply.verify_from(target, first);
    reply
}

/// Returns the ranges that the origin received, in order; `-` for the whole.
fn asked(origin: &Origin, target: &str) -> Vec<String> {
    let range = |head: &testkit::message::Head| head.get("range").unwrap_or("-").to_owned();
    origin.requests_for(target).iter().map(|seen| range(&seen.head)).collect()
}

#[test]
fn a_purge_takes_all_parts() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=5000000&etag=1";
    for start in [0, 1_500_000, 4_000_000] {
        part(&larder, &origin, target, start, start + 9_999);
    }
    assert!(larder.purge(&origin.url(target)));
    let before = origin.fetches(target);
    for start in [0, 1_500_000, 4_000_000] {
        assert_eq!(part(&larder, &origin, target, start, start + 9_999).outcome(), "MISS");
    }
    assert_eq!(origin.fetches(target), before + 3);
}

#[test]
fn parts_of_large_objects_are_fetched_by_windows() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=8000000&etag=1";
    part(&larder, &origin, target, 3_000_000, 3_000_999);
    // The first as requested, then up to the edge of the window.
    part(&larder, &origin, target, 3_001_000, 3_001_999);
    // The fetch may not have reached the edge yet.
    assert!(part(&larder, &origin, target, 3_100_000, 3_140_000).outcome().starts_with("HIT"));
    part(&larder, &origin, target, 5_000_000, 6_400_000);
    let expected = ["bytes=3000000-3000999", "bytes=3001000-3145727", "bytes=4194304-7340031"];
    assert_eq!(asked(&origin, target), expected);
    assert!(part(&larder, &origin, target, 4_200_000, 6_400_000).outcome().starts_with("HIT"));
    let whole = larder.get(&origin.url(target));
    whole.verify(target);
    larder.get(&origin.url(target)).verify(target);
    let expected = ["bytes=0-2097151", "bytes=2097152-2999999"];
    let rest = &asked(&origin, target)[3..];
    assert!(rest.iter().all(|range| range != "-"), "{rest:?}");
    assert_eq!(&rest[..2], expected);
}

#[test]
fn what_was_durable_survives_a_kill() {
    let setup = Setup::forward();
    let origin = Origin::start();
    let target = "/film?size=3000000&etag=1";
    let larder = setup.start();
    part(&larder, &origin, target, 100_000, 199_999);
    part(&larder, &origin, target, 2_500_000, 2_599_999);
    larder.await_written();
    larder.kill();
    let larder = setup.start();
    // From the device, or from memory if the read of the object's head brought it along.
    for (first, last) in [(100_000, 199_999), (2_500_000, 2_599_999)] {
        let again = part(&larder, &origin, target, first, last);
        assert!(again.outcome().starts_with("HIT"), "{}", again.outcome());
    }
    larder.get(&origin.url(target)).verify(target);
    let asked = asked(&origin, target);
    assert!(asked.iter().all(|range| range != "-"), "{asked:?}");
}

#[test]
fn a_whole_that_broke_off_is_resumed() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=3000000&etag=1&how=short";
    let cut = larder.get(&origin.url(target));
    assert!(!cut.whole, "{:?}", cut.head);
    cut.verify_from(target, 0);
    assert!(part(&larder, &origin, target, 0, 999_999).outcome().starts_with("HIT"));
    // Each attempt brings half of the requested bytes, and none of them twice.
    let next = larder.get(&origin.url(target));
    next.verify_from(target, 0);
    let resumed = &origin.requests_for(target)[1].head;
    assert_eq!(resumed.get("range"), Some("bytes=1500000-2999999"));
    assert!(resumed.get("if-range").is_some(), "{resumed:?}");
    origin.change(target);
    let changed = larder.get(&origin.url(target));
    changed.verify_from(target, 0);
}

#[test]
fn a_far_range_does_not_wait_for_a_running_fetch() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=8000000&etag=1&ranges=1&gate=half";
    let url = origin.url(target);
    thread::scope(|scope| {
        let first = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 1);
        // Half of a part of 1,000 bytes waits at the same gate; its head does not.
        let mut second = larder.connect();
        second.send(get(&url).header("Range", "bytes=7000000-7000999").bytes());
        origin.await_fetches(target, 2);
        let head = second.read_head().unwrap();
        origin.open("half");
        let second = second.rest(head, "GET");
        assert_eq!((second.status, second.len), (206, 1000));
        second.verify_from(target, 7_000_000);
        first.join().unwrap().verify(target);
    });
    assert_eq!(origin.requests_for(target)[1].head.get("range"), Some("bytes=7000000-7000999"));
}

/// The origin has another version, and the stored one is purged during its response. The whole that
/// replaces the part must not be stored, but the client still gets the part that it requested.
#[test]
fn a_part_stays_a_part_when_the_object_is_purged_meanwhile() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=3000000&etag=1&headgate=go";
    let url = origin.url(target);
    origin.open("go");
    part(&larder, &origin, target, 0, 99_999);
    origin.close("go");
    origin.change(target);
    let fetches = origin.fetches(target);
    thread::scope(|scope| {
        let asking = scope.spawn(|| part(&larder, &origin, target, 2_000_000, 2_099_999));
        origin.await_fetches(target, fetches + 1);
        assert!(larder.purge(&url));
        origin.open("go");
        assert_eq!(asking.join().unwrap().header("x-version"), "1");
    });
}

#[test]
fn the_same_range_at_once_is_fetched_once() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/film?size=8000000&etag=1&headgate=go";
    thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| part(&larder, &origin, target, 2_000_000, 2_999_999)))
            .collect();
        origin.await_fetches(target, 1);
        thread::sleep(std::time::Duration::from_millis(300));
        origin.open("go");
        for thread in asking {
            thread.join().unwrap();
        }
    });
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn random_ranges_are_right_byte_by_byte() {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| mix(u64::from(std::process::id()) ^ 0x7061_7274));
    eprintln!("replay with LARDER_SEED={seed}");
    let origin = Origin::start();
    // Memory for a fraction, and a disk that must evict.
    let setup = Setup::forward().flag("memory", "16M").flag("cache-size", "48M");
    let larder = setup.start();
    let targets = ["/a?size=20000000&etag=1", "/b?size=20000000&etag=1", "/c?size=3000000&etag=1"];
    thread::scope(|scope| {
        for client in 0..3 {
            let (larder, origin) = (&larder, &origin);
            scope.spawn(move || {
                let mut state = seed.wrapping_add(client);
                let mut below = |bound: u64| {
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    mix(state) % bound
                };
                for _ in 0..60 {
                    let target = targets[below(3) as usize];
                    let size = testkit::body::size_of(target);
                    if below(30) == 0 {
                        origin.change(target);
                    }
                    let longest = [1, 1_000, 100_000, 3_000_000][below(4) as usize];
                    let first = below(size);
                    let last = (first + below(longest)).min(size - 1);
                    let range = format!("bytes={first}-{last}");
                    let request = get(&origin.url(target)).header("Range", &range);
                    let reply = request.send(larder.address());
                    assert_eq!(reply.status, 206, "{target} {range}: {:?}", reply.head);
                    // Each response consists of one version, whole or cut: never of two.
                    reply.verify_from(target, first);
                    assert!(reply.len <= last - first + 1);
                }
            });
        }
    });
    for target in targets {
        let reply = larder.get(&origin.url(target));
        reply.verify_from(target, 0);
    }
}
