//! Finding what answers a request, with the stamp of a moment from which on it has not changed.
//!
//! The stamp is taken first and the files are looked at behind it, so that a change in between is
//! later than the stamp. Which directories the answer depends on is known only when it is found; so
//! the likely one is guessed, and what lies elsewhere is found a second time.
//!
//! It promises: with a stamp, what was found is what the files said at its moment or later, and as
//! long as the stamp holds they say the same.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use files::watch::watcher::{Stamp, Watcher};
use files::{Accepted, Found, Outcome, ReadError, Representation, Request, Root};

/// What is to be found, apart from the request that asks for it.
#[derive(Clone)]
pub(crate) struct Finding {
    pub root: Arc<Root>,
    pub watcher: Arc<Watcher>,
    /// The path of the request.
    pub path: Vec<u8>,
    pub accepted: Accepted,
    /// No other machine need be asked for anything: else nothing is found without waiting.
    pub is_local: bool,
    /// The time in the milliseconds of stamps.
    pub now: u64,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Stamped<F> {
    pub found: Found<F>,
    /// None: it may change without a report (links), or is no file.
    pub stamp: Option<Stamp>,
}

/// An open file, and its bytes if they were asked for.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub file: Stamped<files::File>,
    pub bytes: Option<Result<Vec<u8>, ReadError>>,
}

/// The bytes that are read together with the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Of files of at most so many; of none, when it is 0.
    pub most: u64,
    /// The kernel forgets those of files that are larger than the first and at most the second.
    pub forgotten: RangeInclusive<u64>,
}

/// Returns whether the kernel is to forget what was read of a file of `size` bytes.
pub(crate) fn is_forgotten(size: u64, forgotten: &RangeInclusive<u64>) -> bool {
    forgotten.contains(&size) && size > *forgotten.start()
}

/// A search that waits for no disk: `None` when only a disk can tell.
type Quick<T> = io::Result<Option<T>>;

impl Finding {
    /// Finds the version of what would be sent, without waiting for a disk.
    pub fn version_cached(&self) -> Quick<Stamped<Representation>> {
        match self.is_local {
            true => self.stamped(|| self.root.version_of_cached(&self.request()), true),
            false => Ok(None),
        }
    }

    /// Finds the version of what would be sent.
    pub fn version(&self) -> Quick<Stamped<Representation>> {
        self.stamped(|| self.root.version_of(&self.request()).map(Some), false)
    }

    /// Finds and opens what answers, and reads it, without waiting for a disk.
    pub fn fetch_cached(&self, reading: &Reading) -> Quick<Fetched> {
        if !self.is_local {
            return Ok(None);
        }
        let Some(file) = self.stamped(|| self.root.find_cached(&self.request()), true)? else {
            return Ok(None);
        };
        let Some(wanted) = reading.wanted(&file) else {
            return Ok(Some(Fetched { file, bytes: None }));
        };
        let bytes = reading.reader(wanted).read_cached().transpose();
        Ok(bytes.map(|bytes| Fetched { file, bytes: Some(bytes) }))
    }

    /// Finds and opens what answers, and reads it.
    ///
    /// # Errors
    /// The kernel fails.
    pub fn fetch(&self, reading: &Reading) -> io::Result<Fetched> {
        let find = || self.root.find(&self.request()).map(Some);
        let file = self.stamped(find, false)?.ok_or(io::ErrorKind::WouldBlock)?;
        let bytes = reading.wanted(&file).map(|wanted| reading.reader(wanted).read_rest());
        Ok(Fetched { file, bytes })
    }

    fn request(&self) -> Request<'_> {
        Request { path: &self.path, accepted: self.accepted }
    }

    /// See the module. In `haste` no disk is waited for.
    fn stamped<F>(&self, find: impl Fn() -> Quick<Found<F>>, haste: bool) -> Quick<Stamped<F>> {
        let likely = self.root.likely_directory(&self.path).unwrap_or_default();
        let before = self.watcher.stamp_of_watched(&likely);
        let Some(found) = find()? else { return Ok(None) };
        if !found.watchable || !matches!(found.outcome, Outcome::File(_)) {
            return Ok(Some(Stamped { found, stamp: None }));
        }
        if before.is_some() && found.directories == [likely] {
            return Ok(Some(Stamped { found, stamp: before }));
        }
        let directories: Vec<&[u8]> = found.directories.iter().map(Vec::as_slice).collect();
        let (root, now) = (self.root.as_fd(), self.now);
        let stamp = match haste {
            true => self.watcher.stamp_cached(root, &directories, now),
            false => Some(self.watcher.stamp(root, &directories, now)),
        };
        let Some(stamp) = stamp else { return Ok(None) };
        if stamp.is_timed() {
            // It is of the time before the search.
            return Ok(Some(Stamped { found, stamp: Some(stamp) }));
        }
        let before = found.directories;
        let Some(found) = find()? else { return Ok(None) };
        let is_same = found.watchable && found.directories == before;
        Ok(Some(Stamped { found, stamp: is_same.then_some(stamp) }))
    }
}

impl Reading {
    /// Begins to read a file.
    fn reader<'f>(&self, file: &'f files::File) -> files::Reader<BorrowedFd<'f>> {
        file.reader(is_forgotten(file.version.size, &self.forgotten))
    }

    /// Returns the file whose bytes are to be read.
    fn wanted<'f>(&self, file: &'f Stamped<files::File>) -> Option<&'f files::File> {
        match &file.found.outcome {
            Outcome::File(file) if file.compress.is_none() => {
                (1..=self.most).contains(&file.version.size).then_some(file)
            }
            _ => None,
        }
    }
}
