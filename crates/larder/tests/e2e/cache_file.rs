//! The file of the cache while a process uses it, or is killed.

use std::fs::OpenOptions;

use testkit::larder::{Larder, Setup, larder};
use testkit::origin::Origin;

/// Returns targets of small and large objects in several directories.
fn target(i: u64) -> String {
    format!("/dir{}/page{i}?size={}", i % 10, 1000 + i * 5_000)
}

/// Stores the objects, also on disk.
fn store(larder: &Larder, origin: &Origin) {
    for i in 0..20 {
        let target = target(i);
        larder.get(&origin.url(&target)).verify(&target);
    }
}

/// Returns how many of the stored objects are served without a fetch, checking every byte.
fn hits(larder: &Larder, origin: &Origin) -> usize {
    let hit = |i: &u64| {
        let target = target(*i);
        let reply = larder.get(&origin.url(&target));
        reply.verify(&target);
        reply.outcome().starts_with("HIT")
    };
    (0..20).filter(hit).count()
}

#[test]
fn a_cache_file_that_shrinks_under_it_costs_hits_only() {
    let (origin, setup) = (Origin::start(), Setup::forward().flag("memory", "16M"));
    let running = setup.start();
    store(&running, &origin);
    running.await_written();
    OpenOptions::new().write(true).open(setup.cache()).unwrap().set_len(2 << 20).unwrap();
    for round in 0..3 {
        hits(&running, &origin);
        for i in 0..10 {
            let target = format!("/round{round}/{i}?size=500000");
            running.get(&origin.url(&target)).verify(&target);
        }
    }
    assert_eq!(running.get(&origin.url("/last")).status, 200);
    running.stop();
}

#[test]
fn a_cache_can_be_inspected_while_it_is_in_use() {
    // The tool reads the device, where an object in shared memory is written later.
    let setup = Setup::forward().config("[store]\nshared-memory = \"none\"");
    let origin = Origin::start();
    let running = setup.start();
    store(&running, &origin);
    running.await_written();
    let path = setup.cache().display().to_string();
    for what in ["superblock", "clusters", "verify"] {
        let (status, said) = larder(&["inspect", &path, what]);
        assert!(status.success(), "{what}: {said}");
        assert!(!said.trim().is_empty(), "{what}");
    }
    let url = origin.url(&target(3));
    let (status, said) = larder(&["inspect", &path, "object", &url]);
    assert!(status.success(), "{said}");
    let (_, said) = larder(&["inspect", &path, "object", &origin.url("/never")]);
    assert!(said.to_lowercase().contains("not"), "{said}");
    assert_eq!(hits(&running, &origin), 20);
    running.stop();
}

#[test]
fn killed_again_and_again_it_never_serves_a_wrong_byte() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    for round in 0..5 {
        let larder = setup.start();
        for i in 0..40 {
            let target = format!("/page{i}?size={}", 100 + i * 3_000);
            larder.get(&origin.url(&target)).verify(&target);
            let fresh = format!("/round{round}/page{i}?size={}", 100 + i * 777);
            larder.get(&origin.url(&fresh)).verify(&fresh);
        }
        larder.kill();
    }
    // A fill may still be storing the last object when its response has arrived.
    assert!(origin.count() <= 5 * 40 + 40 + 5, "a kill lost more than the last fill");
}
