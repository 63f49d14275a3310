//! Every preset serves: a fetched object is a hit from memory, and after an orderly stop a hit from
//! the device.

use std::process::Command;

use testkit::larder::{Setup, larder_path};
use testkit::origin::Origin;

const SIZES: [u64; 6] = [0, 1, 3_000, 40_000, 70_000, 250_000];

/// Returns the names in the help of `serve`.
fn names(flag: &str) -> Vec<String> {
    let help = Command::new(larder_path()).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, after) = help.split_once(&format!("--{flag} <")).expect("the flag");
    let (_, after) = after.split_once(" [").expect("the list of words");
    let (list, _) = after.split_once(']').expect("the end of the list");
    list.split(", ").map(str::to_owned).collect()
}

fn serves(setup: &Setup, name: &str) {
    let origin = Origin::start();
    let targets: Vec<String> =
        SIZES.iter().map(|size| format!("/{name}/page?size={size}")).collect();
    let larder = setup.start();
    for target in &targets {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        assert_eq!(reply.outcome(), "MISS", "{target}");
        let again = larder.get(&origin.url(target));
        again.verify(target);
        assert!(again.outcome().starts_with("HIT"), "{target}: {}", again.outcome());
    }
    larder.stop();
    let larder = setup.start();
    let mut from_disk = 0;
    for target in &targets {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        // With whole-cluster reads, the first one brings its neighbours.
        assert!(reply.outcome().starts_with("HIT"), "{target}: {}", reply.outcome());
        from_disk += u32::from(reply.outcome() == "HIT_DISK");
        assert_eq!(origin.fetches(target), 1, "{target}");
    }
    assert!(from_disk > 0, "{name}: nothing was read from the device");
    larder.stop();
}

#[test]
fn every_preset_serves_across_a_restart() {
    let names = names("preset");
    assert!(names.contains(&"larder".to_owned()) && names.len() >= 3, "{names:?}");
    for name in names {
        serves(&Setup::forward().flag("preset", &name), &name);
    }
}

#[test]
fn a_cache_formatted_for_a_preset_is_used_as_it_is() {
    let setup = Setup::forward().flag("preset", "ucfs");
    let cache = setup.cache().display().to_string();
    let format = ["format", &cache, "--cache-size", "64M", "--preset", "tfs"];
    assert!(Command::new(larder_path()).args(format).output().unwrap().status.success());
    serves(&setup, "ucfs");
}
