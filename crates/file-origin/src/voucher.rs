//! Whether what was answered earlier is still what the files say: known from the kernel's reports
//! of changes, or by a look at the file.
//!
//! What was found current is noted with the stamp of the directories that it depends on
//! ([`files::watch`]). While that stamp holds no system call but one is made for a stored answer:
//! the question whether the kernel has anything to report.
//!
//! The kernel does not report writes by a name in an unwatched directory that a file got later (a
//! hard link). So a look holds for a bounded time nevertheless ([`FileOptions::recheck`]).

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use files::watch::verified::{Tag, Verified};
use files::watch::watcher::{self, Stamp, WatchOptions, Watcher};
use files::{Accepted, OpenError, Outcome, Representation, Root};
use http::header::{self, HeaderMap, HeaderValue};
use upstream::send::origin::{Amount, Earlier, Figure, VERSION};

use crate::compress;
use crate::finding::{Fetched, Finding, Reading, Stamped};
use crate::listings::Listings;
use crate::options::FileOptions;
use crate::pool::Pool;

/// An open root, and what is known of earlier answers of it.
pub(crate) struct Known {
    pub root: Arc<Root>,
    pub watcher: Arc<Watcher>,
    /// Why the kernel reports no changes though it was to: the files are looked at instead.
    pub unwatched: Option<io::Error>,
    pub pool: Pool,
    pub listings: Listings,
    /// The root lies on a file system of this machine.
    pub is_local: bool,
    verified: Verified,
    /// Milliseconds after which a look does not hold any more though no change was reported.
    recheck: u64,
    hasher: RandomState,
    began: Instant,
}

impl Known {
    /// Opens a directory.
    ///
    /// # Errors
    /// It is none, may not be entered, or an option is bad.
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

    /// Finds and opens what answers a request, and reads it.
    ///
    /// # Errors
    /// The kernel fails.
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

    /// Notes that the answer with these fields is current while the stamp holds, unless its tag is
    /// weak.
    pub fn note(&self, path: &str, accepted: Accepted, fields: &HeaderMap, stamp: Stamp) {
        let is_strong = |tag: &HeaderValue| !tag.as_bytes().starts_with(b"W/");
        let version =
            fields.get(VERSION).filter(|_| fields.get(header::ETAG).is_some_and(is_strong));
        if let Some(version) = version {
            let varies = fields.contains_key(header::VARY);
            self.verified.note(self.tag(path, accepted, version.as_bytes(), varies), stamp);
        }
    }

    /// Returns whether an answer is known to be current.
    pub fn is_current(&self, earlier: &Earlier<'_>) -> bool {
        let accepted = Accepted::of(earlier.request);
        let tag = self.tag(earlier.path, accepted, earlier.version, earlier.varies);
        self.verified.stamp(tag).is_some_and(|stamp| self.watcher.holds(stamp, self.now()))
    }

    /// Looks at the file of an answer, and notes it when the answer is current.
    pub async fn look(&self, earlier: Earlier<'_>) -> bool {
        let accepted = Accepted::of(earlier.request);
        let finding = self.finding(earlier.path, accepted);
        // What cannot be looked at is not current.
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

    /// Returns what an answer is noted by: all that it depends on, its version, and the period in
    /// which it is noted.
    fn tag(&self, path: &str, accepted: Accepted, version: &[u8], varies: bool) -> Tag {
        let hash = self.hasher.hash_one((path, accepted, version, varies));
        in_period(hash, self.now(), self.recheck)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns the tag by which an answer with this hash is noted at `now`. In the next period of
/// `recheck` milliseconds it is another one, so that the file is looked at again. The periods of
/// different answers begin at different times.
fn in_period(hash: u64, now: u64, recheck: u64) -> Tag {
    let recheck = recheck.max(1);
    let period = now.saturating_add(hash % recheck) / recheck;
    // An odd factor, so that no two periods of an answer share a tag.
    hash ^ period.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns whether what was found is the earlier answer. That it varied once (a sibling is gone)
/// makes it no other one.
fn is_same(seen: &Stamped<Representation>, earlier: &Earlier<'_>) -> bool {
    let Outcome::File(sent) = &seen.found.outcome else { return false };
    (earlier.varies || !sent.varies) && compress::identity(sent).as_bytes() == earlier.version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_for_one_period_at_most() {
        for hash in [0, 7, 9_999, u64::MAX] {
            let tags: Vec<Tag> = (0..40).map(|at| in_period(hash, at * 1_000, 10_000)).collect();
            assert!(tags.iter().zip(&tags[10..]).all(|(now, later)| now != later), "{hash}");
            let changes = tags.windows(2).filter(|two| two[0] != two[1]).count();
            assert!((3..=4).contains(&changes), "{hash}: {changes}");
            in_period(hash, u64::MAX, 0);
        }
    }
}
