//! Life cycles of objects: an object with a cycle has a new version at the end of each cycle, which
//! `Expires` announces.
//!
//! Everything follows from the object and the time, in whole seconds since 1970, so origin and
//! client agree without communicating.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;
use workload::contents::mix;

/// The life cycle of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Seconds between two modifications; not 0.
    cycle: u32,
    /// Seconds by which the first cycle is shorter.
    phase: u32,
}

impl Life {
    /// Creates the life cycle of an object, with cycles of `cycle` seconds, at least one.
    pub fn new(object: u64, cycle: u32) -> Life {
        let cycle = cycle.max(1);
        let phase = (mix(object ^ 0x6c69_6665) % u64::from(cycle)) as u32;
        Life { cycle, phase }
    }

    /// Returns the version at a time.
    pub fn version(&self, seconds: u64) -> u64 {
        (seconds + u64::from(self.phase)) / u64::from(self.cycle)
    }

    /// Returns when a version was created.
    pub fn modified(&self, version: u64) -> u64 {
        (version * u64::from(self.cycle)).saturating_sub(u64::from(self.phase))
    }

    /// Returns when a version expires, which is when the next one is created.
    pub fn expires(&self, version: u64) -> u64 {
        self.modified(version + 1)
    }
}

/// The modification time of objects that never change: 2001-09-09.
pub const FIRST_MODIFIED: u64 = 1_000_000_000;

/// Formats a time in seconds since 1970.
pub fn date(seconds: u64) -> String {
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Returns the current time in seconds since 1970.
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
    // Objects do not all change at the same time.
    let ends = (0..50).map(|object| {
        let life = Life::new(object, 100);
        life.expires(life.version(1_000_000))
    });
    let ends: std::collections::HashSet<u64> = ends.collect();
    assert!(ends.len() > 20, "{ends:?}");
}
