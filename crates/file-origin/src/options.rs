//! What an operator may choose about a directory that is served.

use std::time::Duration;

use files::watch::watcher::WatchOptions;

/// The choices about a root, and how its changes are learnt of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The choices about the files.
    pub files: files::Options,
    /// The directories that are watched, and how long a look at others holds.
    pub watch: WatchOptions,
    /// Stored answers that are known to be current, at most; 16 bytes each. Others cost a look.
    pub answers: usize,
    /// How long a look at a file holds at most, even where the kernel reports changes.
    pub recheck: Duration,
    /// Bytes of the largest file that stays in the kernel's own cache when it was read to be
    /// stored.
    pub page_cache_max: u64,
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            files: files::Options::default(),
            watch: WatchOptions { most: 65_536, interval: Duration::from_secs(1) },
            answers: 1 << 20,
            recheck: Duration::from_secs(10),
            page_cache_max: 0,
        }
    }
}
