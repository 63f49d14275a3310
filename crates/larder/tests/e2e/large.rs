//! Objects of any size, in a fixed amount of memory.

use testkit::client::get;
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;

/// Returns the memory that the process may use: `--memory` and 5% of it, 64 MiB, and 512 KiB per
/// connection.
pub fn memory_bound(memory: u64, connections: u64) -> u64 {
    memory + memory / 20 + (64 << 20) + (connections << 19)
}

/// Panics if the process uses more memory than permitted.
#[track_caller]
pub fn assert_memory(larder: &Larder, memory: u64, connections: u64) {
    let (held, bound) = (larder.resident(), memory_bound(memory, connections));
    assert!(held <= bound, "{} MiB resident, {} MiB allowed", held >> 20, bound >> 20);
}

#[test]
fn an_object_larger_than_memory_passes_through_it() {
    let setup = Setup::forward().flag("memory", "16M").flag("cache-size", "1G");
    let (origin, larder) = (Origin::start(), setup.start());
    let target = "/film?size=100000000&etag=1";
    let url = origin.url(target);
    for outcome in ["MISS", "HIT"] {
        let mut connection = larder.connect();
        let reply = get(&url).check_on(&mut connection, target).unwrap();
        assert!(reply.whole, "cut after {} bytes", reply.len);
        assert_eq!(reply.len, 100_000_000);
        assert!(reply.outcome().starts_with(outcome), "{:?}", reply.head);
        assert_memory(&larder, 16 << 20, 1);
    }
    assert_eq!(origin.fetches(target), 1);
    let part = larder.send(&get(&url).header("Range", "bytes=75000000-75000999"));
    assert_eq!((part.status, part.len), (206, 1000));
    part.verify_from(target, 75_000_000);
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn an_object_larger_than_the_cache_is_served_all_the_same() {
    let setup = Setup::forward().flag("memory", "16M").flag("cache-size", "32M");
    let (origin, larder) = (Origin::start(), setup.start());
    let (small, target) = ("/small?size=3000", "/film?size=40000000");
    larder.get(&origin.url(small)).verify(small);
    for how in ["", "&how=chunked"] {
        let target = format!("{target}{how}");
        let mut connection = larder.connect();
        let reply = get(&origin.url(&target)).check_on(&mut connection, &target).unwrap();
        assert!(reply.whole, "cut after {} bytes", reply.len);
        assert_eq!(reply.len, 40_000_000);
    }
    larder.get(&origin.url(small)).verify(small);
    assert_memory(&larder, 16 << 20, 1);
}

#[test]
fn many_large_objects_at_once_fit_in_the_same_memory() {
    let setup = Setup::forward().flag("memory", "16M").flag("cache-size", "256M");
    let (origin, larder) = (Origin::start(), setup.start());
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (larder, origin) = (&larder, &origin);
            scope.spawn(move || {
                let target = format!("/film{i}?size=20000000");
                let mut connection = larder.connect();
                let reply = get(&origin.url(&target)).check_on(&mut connection, &target).unwrap();
                assert!(reply.whole, "cut after {} bytes", reply.len);
            });
        }
    });
    assert_memory(&larder, 16 << 20, 8);
}
