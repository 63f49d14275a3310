//! Memory of the table of current responses, measured in a separate process.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use files::watch::verified::Verified;
use files::watch::watcher::{WatchOptions, Watcher};

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn a_table_takes_memory_when_it_is_used() {
    let watcher =
        Watcher::new(Path::new("/"), WatchOptions { most: 0, interval: Duration::from_secs(1) })
            .unwrap();
    let stamp = watcher.stamp(File::open("/").unwrap().as_fd(), &[b""], 7);
    let before = resident();
    let table = Verified::new(16 << 20);
    for tag in 0..1000 {
        table.note(tag, stamp);
        assert_eq!(table.stamp(tag + (1 << 40)), None);
    }
    let taken = resident().saturating_sub(before);
    assert!(taken < table.bytes() / 8, "{taken} of {}", table.bytes());
    assert_eq!(table.stamp(999), Some(stamp));
}
