//! Decides whether an earlier response still matches the files, from the kernel's change reports or
//! from a check of the file.
//!
//! A response found current is noted with the stamp of the directories that it depends on
//! ([`crate::watch`]). While the stamp holds, vouching for a stored response takes a single system
//! call: whether the kernel has anything to report.
//!
//! The kernel does not report writes through a name in an unwatched directory that a file got later
//! (a hard link). A check therefore holds for a bounded time only ([`FileOptions::recheck`]).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::watch::verified::{Tag, Verified};
use crate::watch::watcher::{self, Stamp, WatchOptions, Watcher};
use crate::{Accepted, OpenError, Outcome, Representation, Root};
use http::header::{self, HeaderMap, HeaderValue};
use upstream::send::origin::{Amount, Earlier, Figure, VERSION};

use crate::origin::compress;
use crate::origin::finding::{Fetched, Finding, Reading, Stamped};
use crate::origin::listings::Listings;
use crate::origin::options::FileOptions;
use crate::origin::pool::Pool;

/// An open root, and what is known about its earlier responses.
pub(crate) struct Known {
    pub root: Arc<Root>,
    pub watcher: Arc<Watcher>,
    /// Why the kernel reports no changes although it should; the files are checked instead.
    pub unwatched: Option<io::Error>,
    pub pool: Pool,
    pub listings: Listings,
    /// The root lies on a file system of this machine.
    pub is_local: bool,
    verified: Verified,
    /// Milliseconds after which a check no longer holds even if no change was reported.
    recheck: u64,
    hasher: RandomState,
    began: Instant,
}

impl Known {
    /// Opens a directory.
    ///
    /// # Errors
    /// Fails if the path is not a directory or cannot be entered, or if an option is invalid.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Known, OpenError> {
        let root = Root::open(path, options.files.clone())?;
        let is_local = watcher::reports_changes(root.as_fd());
        let most = if is_local { options.watch.most } else { 0 };
        let cannot = |error| OpenError::Io(path.to_owned(), error);
        let (watcher, unwatched) = match Watcher::new(path, WatchOptions { most, ..options.watch })
        {
            Ok(watcher) => (watcher, None),
            Err(why) => {
                let none = WatchOptions { most: 0, ..options.watch };
                (Watcher::new(path, none).map_err(cannot)?, Some(why))
            }
        };
        Ok(Known {
            root: Arc::new(root),
            watcher: Arc::new(watcher),
            unwatched,
            pool: Pool::new(),
            listings: Listings::default(),
            is_local,
            verified: Verified::new(options.answers),
            recheck: u64::try_from(options.recheck.as_millis()).unwrap_or(u64::MAX),
            hasher: RandomState::new(),
            began: Instant::now(),
        })
    }

    /// Returns the metrics of the watcher and of the table. The counters restart with each root.
    pub fn figures(&self) -> Vec<Figure> {
        let watched = self.watcher.stats();
        let now =
            |name, help, value: usize| Figure { name, help, amount: Amount::Now(value as u64) };
        let total = |name, help, value| Figure { name, help, amount: Amount::Total(value) };
        vec![
            now(
                "larder_files_watches",
                "Watched directories: the kernel reports their changes.",
                watched.watches,
            ),
            total(
                "larder_files_events",
                "Changes of watched directories that the kernel reported.",
                watched.events,
            ),
            total(
                "larder_files_watch_overflows",
                "Times that the kernel lost changes and all files were checked again.",
                watched.overflows,
            ),
            total(
                "larder_files_watch_refusals",
                "Times that a directory was not watched because no watch was left.",
                watched.refusals,
            ),
            now(
                "larder_files_known_bytes",
                "Memory in bytes of the full table of responses known to be current.",
                self.verified.bytes(),
            ),
        ]
    }

    /// Finds, opens and reads the file for a request.
    ///
    /// # Errors
    /// Fails if the kernel reports an error.
    pub async fn fetch(
        &self,
        path: &str,
        accepted: Accepted,
        reading: Reading,
    ) -> io::Result<Fetched> {
        let finding = self.finding(path, accepted);
        if let Some(fetched) = finding.fetch_cached(&reading)? {
            return Ok(fetched);
        }
        self.pool.run(move || finding.fetch(&reading)).await?
    }

    /// Notes that the response with these fields is current while the stamp holds, unless its tag
    /// is weak.
    pub fn note(&self, path: &str, accepted: Accepted, fields: &HeaderMap, stamp: Stamp) {
        let is_strong = |tag: &HeaderValue| !tag.as_bytes().starts_with(b"W/");
        let version =
            fields.get(VERSION).filter(|_| fields.get(header::ETAG).is_some_and(is_strong));
        if let Some(version) = version {
            let varies = fields.contains_key(header::VARY);
            self.verified.note(self.tag(path, accepted, version.as_bytes(), varies), stamp);
        }
    }

    /// Returns whether a response is known to be current.
    pub fn is_current(&self, earlier: &Earlier<'_>) -> bool {
        let accepted = Accepted::of(earlier.request);
        let tag = self.tag(earlier.path, accepted, earlier.version, earlier.varies);
        self.verified.stamp(tag).is_some_and(|stamp| self.watcher.holds(stamp, self.now()))
    }

    /// Checks the file of a response, and notes the response if it is current.
    pub async fn look(&self, earlier: Earlier<'_>) -> bool {
        let accepted = Accepted::of(earlier.request);
        let finding = self.finding(earlier.path, accepted);
        // A file that cannot be checked is not current.
        let seen = match finding.version_cached().unwrap_or_default() {
            Some(seen) => Some(seen),
            None => {
                self.pool.run(move || finding.version()).await.ok().and_then(Result::ok).flatten()
            }
        };
        let tag = self.tag(earlier.path, accepted, earlier.version, earlier.varies);
        let same = seen.filter(|seen| is_same(seen, &earlier));
        match same.as_ref().and_then(|same| same.stamp) {
            Some(stamp) => self.verified.note(tag, stamp),
            None => self.verified.forget(tag),
        }
        same.is_some()
    }

    fn finding(&self, path: &str, accepted: Accepted) -> Finding {
        let (root, watcher, now) = (self.root.clone(), self.watcher.clone(), self.now());
        let (path, is_local) = (path.as_bytes().to_vec(), self.is_local);
        Finding { root, watcher, path, accepted, is_local, now }
    }

    /// Returns the key under which a response is noted: all that it depends on, its version, and
    /// the current recheck period.
    fn tag(&self, path: &str, accepted: Accepted, version: &[u8], varies: bool) -> Tag {
        let hash = self.hasher.hash_one((path, accepted, version, varies));
        in_period(hash, self.now(), self.recheck)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns the key under which a response with this hash is noted at `now`. The key changes with
/// each period of `recheck` milliseconds, so that the file is checked again. The periods of
/// different responses begin at different times.
fn in_period(hash: u64, now: u64, recheck: u64) -> Tag {
    let recheck = recheck.max(1);
    let period = now.saturating_add(hash % recheck) / recheck;
    // The factor is odd, so no two periods of a response share a key.
    hash ^ period.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns whether the file that was found is the earlier response. A response that varied once (a
/// sibling file is gone) is still the same.
fn is_same(seen: &Stamped<Representation>, earlier: &Earlier<'_>) -> bool {
    let Outcome::File(sent) = &seen.found.outcome else { return false };
    (earlier.varies || !sent.varies) && compress::identity(sent).as_bytes() == earlier.version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_valid_for_one_period_at_most() {
        for hash in [0, 7, 9_999, u64::MAX] {
            let tags: Vec<Tag> = (0..40).map(|at| in_period(hash, at * 1_000, 10_000)).collect();
            assert!(tags.iter().zip(&tags[10..]).all(|(now, later)| now != later), "{hash}");
            let changes = tags.windows(2).filter(|two| two[0] != two[1]).count();
            assert!((3..=4).contains(&changes), "{hash}: {changes}");
            in_period(hash, u64::MAX, 0);
        }
    }
}
