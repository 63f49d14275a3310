//! Options of a served directory.

use std::time::Duration;

use crate::watch::watcher::WatchOptions;

/// The options of a root, and of watching it for changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Options for the files.
    pub files: crate::Options,
    /// The number of directories to watch, and how long a check of an unwatched file holds.
    pub watch: WatchOptions,
    /// Maximum number of stored responses to remember as current, 16 bytes each. Others cost a
    /// check of the file.
    pub answers: usize,
    /// The longest time that a check of a file holds, even if the kernel reports changes.
    pub recheck: Duration,
    /// The largest file in bytes that stays in the kernel's page cache after it was read to be
    /// stored.
    pub page_cache_max: u64,
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            files: crate::Options::default(),
            watch: WatchOptions { most: 65_536, interval: Duration::from_secs(1) },
            answers: 1 << 20,
            recheck: Duration::from_secs(10),
            page_cache_max: 0,
        }
    }
}
