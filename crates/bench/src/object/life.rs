//! Lives of objects: an object that lives in cycles has a new version at the end of each, which its
//! `Expires` says before.
//!
//! Everything follows from the object and the time, in whole seconds since 1970, so that the origin
//! and the client know the same without telling each other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;
use workload::contents::mix;

/// The life of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Seconds from one modification to the next; not 0.
    cycle: u32,
    /// Seconds by which its first cycle is shorter.
    phase: u32,
}

impl Life {
    /// The life of an object with such cycles, in seconds; of one at least.
    pub fn new(object: u64, cycle: u32) -> Life {
        let cycle = cycle.max(1);
        let phase = (mix(object ^ 0x6c69_6665) % u64::from(cycle)) as u32;
        Life { cycle, phase }
    }

    /// The version at a time.
    pub fn version(&self, seconds: u64) -> u64 {
        (seconds + u64::from(self.phase)) / u64::from(self.cycle)
    }

    /// When a version was made.
    pub fn modified(&self, version: u64) -> u64 {
        (version * u64::from(self.cycle)).saturating_sub(u64::from(self.phase))
    }

    /// When a version is out of date, which is when the next is made.
    pub fn expires(&self, version: u64) -> u64 {
        self.modified(version + 1)
    }
}

/// When what never changes was last modified: 2001-09-09.
pub const FIRST_MODIFIED: u64 = 1_000_000_000;

/// Returns the text of a time in seconds since 1970.
pub fn date(seconds: u64) -> String {
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[test]
fn a_version_follows_on_another() {
    let life = Life::new(77, 100);
    let start = life.version(1_000_000);
    let expires = life.expires(start);
    assert!((1_000_001..=1_000_100).contains(&expires));
    assert_eq!(life.version(expires - 1), start);
    assert_eq!(life.version(expires), start + 1);
    assert_eq!(life.modified(start + 1), expires);
    // Not all objects change at a time.
    let ends = (0..50).map(|object| {
        let life = Life::new(object, 100);
        life.expires(life.version(1_000_000))
    });
    let ends: std::collections::HashSet<u64> = ends.collect();
    assert!(ends.len() > 20, "{ends:?}");
}
