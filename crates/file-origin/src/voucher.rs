//! Whether what was answered earlier is still what the files say: known from the kernel's reports
//! of changes, or by a look at the file.
//!
//! What was found current is noted with the stamp of the directories that it depends on
//! ([`files::watch`]). While that stamp holds no system call but one is made for a stored answer:
//! the question whether the kernel has anything to report.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use files::watch::verified::{Tag, Verified};
use files::watch::watcher::{self, Stamp, WatchOptions, Watcher};
use files::{Accepted, Found, OpenError, Outcome, Representation, Request, Root};
use upstream::send::origin::{Amount, Earlier, Figure};

use crate::compress;
use crate::options::FileOptions;
use crate::pool::Pool;

/// An open root, and what is known of earlier answers of it.
pub(crate) struct Known {
    pub root: Arc<Root>,
    pub watcher: Arc<Watcher>,
    /// Why the kernel reports no changes though it was to: the files are looked at instead.
    pub unwatched: Option<io::Error>,
    pub pool: Pool,
    verified: Verified,
    hasher: RandomState,
    began: Instant,
}

/// What a look has shown.
enum Seen {
    /// The answer is current, and stays it while the stamp holds; without one it is looked at anew
    /// each time: the kernel may report a change elsewhere (links).
    Same(Option<Stamp>),
    /// Another file, or none.
    Other,
}

/// A look that is due, apart from the request that asks for it.
struct Look {
    root: Arc<Root>,
    watcher: Arc<Watcher>,
    path: Vec<u8>,
    accepted: Accepted,
    etag: Vec<u8>,
    now: u64,
}

impl Known {
    /// Opens a directory.
    ///
    /// # Errors
    /// It is none, may not be entered, or an option is bad.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Known, OpenError> {
        let root = Root::open(path, options.files.clone())?;
        let reported = watcher::reports_changes(root.as_fd());
        let most = if reported { options.watch.most } else { 0 };
        let cannot = |error| OpenError::Io(path.to_owned(), error);
        let (watcher, unwatched) = match Watcher::new(WatchOptions { most, ..options.watch }) {
            Ok(watcher) => (watcher, None),
            Err(why) => {
                let none = WatchOptions { most: 0, ..options.watch };
                (Watcher::new(none).map_err(cannot)?, Some(why))
            }
        };
        Ok(Known {
            root: Arc::new(root),
            watcher: Arc::new(watcher),
            unwatched,
            pool: Pool::new(),
            verified: Verified::new(options.answers),
            hasher: RandomState::new(),
            began: Instant::now(),
        })
    }

    /// Returns what operators are told of the watching and of the table. The counts begin anew with
    /// each root.
    pub fn figures(&self) -> Vec<Figure> {
        let watched = self.watcher.stats();
        let now =
            |name, help, value: usize| Figure { name, help, amount: Amount::Now(value as u64) };
        let total = |name, help, value| Figure { name, help, amount: Amount::Total(value) };
        vec![
            now(
                "larder_files_watches",
                "Directories of a root that the kernel reports changes of.",
                watched.watches,
            ),
            total("larder_files_events", "Changes that it reported.", watched.events),
            total(
                "larder_files_watch_overflows",
                "Times that it lost some: all files were looked at again.",
                watched.overflows,
            ),
            total(
                "larder_files_watch_refusals",
                "Times that a directory was not watched, for want of watches.",
                watched.refusals,
            ),
            now(
                "larder_files_known_bytes",
                "Memory of the table of answers that are known to be current, when it is full.",
                self.verified.bytes(),
            ),
        ]
    }

    /// Returns whether an answer is known to be current.
    pub fn is_current(&self, earlier: &Earlier<'_>) -> bool {
        let stamp = self.verified.stamp(self.tag(earlier));
        stamp.is_some_and(|stamp| self.watcher.holds(stamp, self.now()))
    }

    /// Looks at the file of an answer, and notes it when the answer is current.
    pub async fn look(&self, earlier: Earlier<'_>) -> bool {
        let look = Look {
            root: self.root.clone(),
            watcher: self.watcher.clone(),
            path: earlier.path.as_bytes().to_vec(),
            accepted: Accepted::of(earlier.request),
            etag: earlier.tag.to_vec(),
            now: self.now(),
        };
        let seen = match look.quickly() {
            Some(seen) => seen,
            None => self.pool.run(move || look.thoroughly()).await.unwrap_or(Seen::Other),
        };
        match seen {
            Seen::Same(Some(stamp)) => self.verified.note(self.tag(&earlier), stamp),
            Seen::Same(None) | Seen::Other => self.verified.forget(self.tag(&earlier)),
        }
        matches!(seen, Seen::Same(_))
    }

    fn tag(&self, earlier: &Earlier<'_>) -> Tag {
        self.hasher.hash_one((earlier.key, earlier.tag))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Look {
    fn request(&self) -> Request<'_> {
        Request { path: &self.path, accepted: self.accepted }
    }

    /// Looks without waiting for a disk; `None` when only a disk can tell.
    fn quickly(&self) -> Option<Seen> {
        self.compare(|| self.root.version_of_cached(&self.request()).unwrap_or_default())
    }

    /// Looks, and waits for a disk where it must. What cannot be looked at is not current.
    fn thoroughly(&self) -> Seen {
        self.compare(|| self.root.version_of(&self.request()).ok()).unwrap_or(Seen::Other)
    }

    /// Finds what the answer depends on, then takes its stamp, then looks: a change in between is
    /// later than the stamp.
    fn compare(&self, find: impl Fn() -> Option<Found<Representation>>) -> Option<Seen> {
        let found = find()?;
        if !self.is_same(&found) {
            return Some(Seen::Other);
        }
        if !found.watchable {
            return Some(Seen::Same(None));
        }
        let directories: Vec<&[u8]> = found.directories.iter().map(Vec::as_slice).collect();
        let stamp = self.watcher.stamp(self.root.as_fd(), &directories, self.now);
        let again = find()?;
        let same = again.directories == found.directories && self.is_same(&again);
        Some(if same { Seen::Same(again.watchable.then_some(stamp)) } else { Seen::Other })
    }

    fn is_same(&self, found: &Found<Representation>) -> bool {
        let Outcome::File(sent) = &found.outcome else { return false };
        compress::etag(sent).as_bytes() == self.etag
    }
}
