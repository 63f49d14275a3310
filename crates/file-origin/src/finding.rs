//! Finds the file that serves a request, with a stamp of a moment since which it has not changed.
//!
//! The stamp is taken before the files are looked at, so that a change in between is later than the
//! stamp. The directories that the result depends on are known only once the file is found. The
//! likely directory is therefore guessed, and if the guess is wrong the file is looked up a second
//! time.
//!
//! Guarantees: a result with a stamp reflects the state of the files at the stamp's moment or
//! later, and the files have not changed as long as the stamp holds.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use files::watch::watcher::{Stamp, Watcher};
use files::{Accepted, Found, Outcome, ReadError, Representation, Request, Root};

/// A file to find, detached from the request that asks for it.
#[derive(Clone)]
pub(crate) struct Finding {
    pub root: Arc<Root>,
    pub watcher: Arc<Watcher>,
    /// The path of the request.
    pub path: Vec<u8>,
    pub accepted: Accepted,
    /// The file system is on this machine. Otherwise nothing can be found without waiting.
    pub is_local: bool,
    /// The current time, in the milliseconds that stamps use.
    pub now: u64,
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Stamped<F> {
    pub found: Found<F>,
    /// `None` if the result may change without a report (symbolic links) or is not a file.
    pub stamp: Option<Stamp>,
}

/// An open file, and its bytes if they were requested.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub file: Stamped<files::File>,
    pub bytes: Option<Result<Vec<u8>, ReadError>>,
}

/// The bytes to read together with the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Read only files of at most this many bytes; 0 reads none.
    pub most: u64,
    /// The kernel drops from its page cache what was read of files larger than the start and at
    /// most as large as the end.
    pub forgotten: RangeInclusive<u64>,
}

/// Returns whether the kernel is to drop the pages that were read of a file of `size` bytes.
pub(crate) fn is_forgotten(size: u64, forgotten: &RangeInclusive<u64>) -> bool {
    forgotten.contains(&size) && size > *forgotten.start()
}

/// The result of a search; `None` if a search without waiting would need the disk.
type Quick<T> = io::Result<Option<T>>;

impl Finding {
    /// Finds the version of the file that would be sent, without waiting for a disk.
    pub fn version_cached(&self) -> Quick<Stamped<Representation>> {
        match self.is_local {
            true => self.stamped(|| self.root.version_of_cached(&self.request()), true),
            false => Ok(None),
        }
    }

    /// Finds the version of the file that would be sent.
    pub fn version(&self) -> Quick<Stamped<Representation>> {
        self.stamped(|| self.root.version_of(&self.request()).map(Some), false)
    }

    /// Finds, opens and reads the file, without waiting for a disk.
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

    /// Finds, opens and reads the file.
    ///
    /// # Errors
    /// Fails if the kernel reports an error.
    pub fn fetch(&self, reading: &Reading) -> io::Result<Fetched> {
        let find = || self.root.find(&self.request()).map(Some);
        let file = self.stamped(find, false)?.ok_or(io::ErrorKind::WouldBlock)?;
        let bytes = reading.wanted(&file).map(|wanted| reading.reader(wanted).read_rest());
        Ok(Fetched { file, bytes })
    }

    fn request(&self) -> Request<'_> {
        Request { path: &self.path, accepted: self.accepted }
    }

    /// Runs `find` and stamps the result. With `haste` it does not wait for a disk.
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
            // The stamp was taken after the search, so search again.
            return Ok(Some(Stamped { found, stamp: Some(stamp) }));
        }
        let before = found.directories;
        let Some(found) = find()? else { return Ok(None) };
        let is_same = found.watchable && found.directories == before;
        Ok(Some(Stamped { found, stamp: is_same.then_some(stamp) }))
    }
}

impl Reading {
    /// Returns a reader for a file.
    fn reader<'f>(&self, file: &'f files::File) -> files::Reader<BorrowedFd<'f>> {
        file.reader(is_forgotten(file.version.size, &self.forgotten))
    }

    /// Returns the file whose bytes are to be read, if any.
    fn wanted<'f>(&self, file: &'f Stamped<files::File>) -> Option<&'f files::File> {
        match &file.found.outcome {
            Outcome::File(file) if file.compress.is_none() => {
                (1..=self.most).contains(&file.version.size).then_some(file)
            }
            _ => None,
        }
    }
}
