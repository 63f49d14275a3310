//! The texts of the configuration in force, and the states of the list files that it names. With
//! them a changed list is read again without any other change of the configuration.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Age of a change from which a further one gives another time, whatever the clock of the file
/// system.
const TELLING: Duration = Duration::from_millis(500);

/// The files of a configuration, as they were read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The main file; `None` if there is none, or only a text.
    pub main: Option<PathBuf>,
    pub texts: BTreeMap<PathBuf, Vec<u8>>,
    /// The files that an element of `include` in a file names.
    pub included: BTreeMap<(String, PathBuf), Vec<PathBuf>>,
    pub lists: BTreeMap<PathBuf, Stamp>,
}

/// State of a file, which differs after every change. The default is that of no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the state of the file at a path; the default if it has none.
    pub fn at(path: &Path) -> Stamp {
        std::fs::metadata(path).map(|facts| Stamp::of(&facts)).unwrap_or_default()
    }

    /// Returns the state of an open file.
    pub fn of(facts: &Metadata) -> Stamp {
        Stamp {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }

    /// Returns the state of an open file that is about to be read. The default if the file has
    /// just been changed: a further change might not show.
    pub fn of_read(facts: &Metadata) -> Stamp {
        let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        match modified.elapsed().is_ok_and(|age| age < TELLING) {
            true => Stamp::default(),
            false => Stamp::of(facts),
        }
    }
}
