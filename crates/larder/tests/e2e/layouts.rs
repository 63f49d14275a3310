//! The guarantees of a store hold in every layout: stored objects survive the process, however it
//! ends; purged objects do not come back; and the cache can be inspected.

use std::process::Command;
use std::thread::scope;

use testkit::client::get;
use testkit::larder::{Larder, Setup, larder, larder_path};
use testkit::origin::Origin;

/// Every layout, and every preset that adds something to one.
const ARMS: [(&str, &str); 8] = [
    ("layout", "cluster"),
    ("layout", "stream"),
    ("layout", "unified"),
    ("layout", "buddy"),
    ("preset", "unified"),
    ("preset", "markatos-buddy"),
    ("preset", "markatos-stream-pack"),
    ("preset", "markatos-lazy-reads-loc"),
];

/// Empty, less than a slot, around the threshold of `buddy`, larger than any record.
const SIZES: [u64; 7] = [0, 1, 3_000, 65_536, 131_000, 140_000, 5_000_000];

/// Sets up a small cache with a durability bound, which the presets of the papers do not have.
/// Reads bring no neighbours along, so every hit after a start is one from the device.
fn setup(flag: &str, name: &str) -> Setup {
    let config =
        "[store]\ndurability-bound = '250ms'\nshared-memory = 'none'\nread-unit = 'object'\n";
    Setup::forward().config(config).flag("cache-size", "32M").flag(flag, name)
}

fn targets(name: &str) -> Vec<String> {
    SIZES.iter().map(|size| format!("/{name}/page?size={size}&etag=1")).collect()
}

/// Runs the test for all arms in parallel, since an arm waits most of the time.
fn in_every_arm(test: impl Fn(&str, &str) + Sync) {
    scope(|scope| {
        for (flag, name) in ARMS {
            let test = &test;
            scope.spawn(move || test(flag, name));
        }
    });
}

#[track_caller]
fn fetch_all(larder: &Larder, origin: &Origin, targets: &[String], outcome: &str) {
    for target in targets {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        assert!(reply.outcome().starts_with(outcome), "{target}: {}", reply.outcome());
    }
}

#[track_caller]
fn inspect(setup: &Setup, words: &[&str]) -> String {
    let path = setup.cache().display().to_string();
    let (status, said) = larder(&[&["inspect", &path], words].concat());
    assert!(status.success(), "inspect {words:?}: {said}");
    said
}

#[test]
fn what_was_stored_outlives_the_process_in_every_layout() {
    let origin = Origin::start();
    in_every_arm(|flag, name| {
        let (setup, targets) = (setup(flag, name), targets(&format!("{flag}-{name}")));
        let larder = setup.start();
        fetch_all(&larder, &origin, &targets, "MISS");
        fetch_all(&larder, &origin, &targets, "HIT");
        larder.await_written();
        larder.kill();
        let larder = setup.start();
        fetch_all(&larder, &origin, &targets, "HIT_DISK");
        larder.stop();
        let larder = setup.start();
        fetch_all(&larder, &origin, &targets, "HIT_DISK");
        let large = targets.last().unwrap();
        let range = get(&origin.url(large)).header("Range", "bytes=3000000-3000999");
        let part = larder.send(&range);
        assert_eq!((part.status, part.len), (206, 1000), "{name}");
        part.verify_from(large, 3_000_000);
        larder.stop();
        for target in &targets {
            assert_eq!(origin.fetches(target), 1, "{target}");
        }
    });
}

#[test]
fn what_was_purged_stays_purged_in_every_layout() {
    let origin = Origin::start();
    in_every_arm(|flag, name| {
        let (setup, targets) = (setup(flag, name), targets(&format!("{flag}-{name}")));
        let larder = setup.start();
        fetch_all(&larder, &origin, &targets, "MISS");
        larder.await_written();
        for target in &targets {
            assert!(larder.purge(&origin.url(target)), "{target}");
        }
        // No wait: a purge is durable when the response is sent.
        larder.kill();
        let larder = setup.start();
        fetch_all(&larder, &origin, &targets, "MISS");
        larder.stop();
    });
}

#[test]
fn a_cache_of_every_layout_can_be_looked_into() {
    let origin = Origin::start();
    in_every_arm(|flag, name| {
        let (setup, targets) = (setup(flag, name), targets(&format!("{flag}-{name}")));
        let running = setup.start();
        fetch_all(&running, &origin, &targets, "MISS");
        let metrics = running.metrics();
        assert!(metrics.contains("larder_store_layout{"), "{metrics}");
        running.stop();
        let superblock = inspect(&setup, &["superblock"]);
        let (_, after) = superblock.split_once("\nlayout ").expect("the layout");
        let layout = after.split_whitespace().next().expect("its name");
        let url = origin.url(targets.last().unwrap());
        let object = inspect(&setup, &["object", &url]);
        assert!(object.contains("5000000 bytes"), "{object}");
        let verified = inspect(&setup, &["verify"]);
        assert!(verified.contains(" are whole"), "{verified}");
        let overview = inspect(&setup, &[]);
        if layout == "cluster" {
            assert!(inspect(&setup, &["clusters"]).contains("in use"));
            assert!(overview.contains("clusters "), "{overview}");
        } else {
            assert!(metrics.contains("larder_store_slots{"), "{metrics}");
            // Seven objects, the largest in 39 pieces.
            let records: u64 = verified.split_whitespace().next().unwrap().parse().unwrap();
            assert!(records >= 7 + 38, "{verified}");
            assert!(overview.contains(&format!("by {records} records")), "{overview}{verified}");
            let path = setup.cache().display().to_string();
            let (status, said) = larder(&["inspect", &path, "clusters"]);
            assert!(!status.success(), "{said}");
            assert!(
                said.contains(&format!("the layout {layout} has slots, no clusters")),
                "{said}"
            );
        }
    });
}

#[test]
fn a_damaged_record_in_a_slot_is_a_miss_and_is_named() {
    use std::os::unix::fs::FileExt;
    let (origin, setup) = (Origin::start(), setup("layout", "unified"));
    let target = "/page?size=20000";
    let running = setup.start();
    running.get(&origin.url(target)).verify(target);
    running.stop();
    let url = origin.url(target);
    let said = inspect(&setup, &["object", &url, "--json"]);
    let (_, after) = said.split_once("\"offset\":").expect("the offset");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let file = std::fs::File::options().write(true).open(setup.cache()).unwrap();
    file.write_all_at(&[0xa5; 64], digits.parse::<u64>().unwrap() + 10_000).unwrap();
    let path = setup.cache().display().to_string();
    let (status, said) = larder(&["inspect", &path, "verify"]);
    assert!(!status.success() && said.contains(&format!("damaged at {digits}")), "{said}");
    let running = setup.start();
    let reply = running.get(&url);
    reply.verify(target);
    assert!(!reply.outcome().starts_with("HIT"), "{}", reply.outcome());
    running.stop();
}

#[test]
fn a_cache_of_another_layout_is_refused_with_the_way_out() {
    let setup = setup("layout", "stream");
    setup.start().stop();
    let setup = setup.flag("layout", "buddy");
    let (status, said) = setup.refused();
    assert!(!status.success());
    for words in ["made with the layout stream", "`layout` is buddy", "larder format --force"] {
        assert!(said.contains(words), "{said}");
    }
    // A preset only determines the layout of a new cache.
    let setup = setup.without("layout").flag("preset", "unified");
    let larder = setup.start();
    assert!(larder.said().contains("made with the layout stream and keeps it"));
    assert!(larder.said().contains("layout stream, slots of 512 bytes"), "{}", larder.said());
    larder.stop();
}

#[test]
fn format_makes_a_cache_of_a_layout() {
    let setup = setup("preset", "larder");
    let cache = setup.cache().display().to_string();
    let format = ["format", &cache, "--cache-size", "16M", "--layout", "buddy"];
    assert!(Command::new(larder_path()).args(format).output().unwrap().status.success());
    let said = inspect(&setup, &["superblock"]);
    assert!(said.contains("buddy") && said.contains("threshold      256"), "{said}");
}
