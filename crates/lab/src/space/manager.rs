//! A space manager: any way of keeping the objects of a cache on a disk.
//!
//! This is the one interface through which the lab drives all of them, so that they get the same
//! operations in the same order and are counted and timed alike: a file per object on a real
//! directory or on a modelled file system, and the product's engine on any device, real or
//! simulated. Methods are asynchronous because a model answers in virtual time and an engine works
//! on several things at once; a manager over blocking calls just never waits.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::{AddAssign, Sub};

use bytes::Bytes;

use workload::request::Object;

/// Keeps objects on a disk. It does not decide what to keep: that is a cache's business.
///
/// Several calls may be under way at a time, but never two for one object.
pub trait SpaceManager {
    /// Keeps `body`, which is `object.size` bytes long, as the object. What was kept under
    /// `object.id` before is deleted first.
    ///
    /// # Errors
    /// The disk is full or broken. Nothing is kept of the object then.
    fn store(
        &self,
        object: &Object,
        body: Bytes,
    ) -> impl Future<Output = Result<Stored, SpaceError>>;

    /// Reads the whole body of what is kept under `object.id`.
    ///
    /// # Errors
    /// The disk is broken. An object that is not kept is no error: [`Read::Gone`].
    fn read(&self, object: &Object) -> impl Future<Output = Result<Read, SpaceError>>;

    /// Gives the object's space back. False when it was not kept.
    ///
    /// # Errors
    /// The disk is broken.
    fn delete(&self, object: &Object) -> impl Future<Output = Result<bool, SpaceError>>;

    /// Whether a read may wait for others that go to the disk with it, as at first. With `false`
    /// those that wait go as soon as the disk reads nothing else. A manager whose reads do not wait
    /// for one another does nothing.
    fn hold_reads(&self, holds: bool) {
        let _ = holds;
    }

    /// Brings everything to the disk. Nothing else is called afterwards.
    ///
    /// # Errors
    /// Something cannot be written.
    fn finish(&self) -> impl Future<Output = Result<(), SpaceError>>;

    /// What was asked of the layer below since the manager was made.
    fn calls(&self) -> Calls;
}

/// What became of an object that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is kept.
    Kept,
    /// The manager chose not to keep it.
    Refused(store::Refusal),
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The body, in order, in any number of parts.
    Body(Vec<Bytes>),
    /// The body was read on a disk that keeps no contents: a model of costs.
    Unseen,
    /// The object is not kept: never stored, deleted, or given up by the manager for room.
    Gone,
}

/// What a space manager asked of the file system or the device below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Files created (and opened by that).
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Files closed.
    pub closes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Files removed.
    pub unlinks: u64,
    /// Directories made.
    pub mkdirs: u64,
    /// Requests to make data durable: of one file, of all, of a device.
    pub syncs: u64,
}

impl Calls {
    /// Names and values in the order in which they are shown.
    pub fn columns(&self) -> [(&'static str, u64); 10] {
        [
            ("creates", self.creates),
            ("opens", self.opens),
            ("closes", self.closes),
            ("unlinks", self.unlinks),
            ("mkdirs", self.mkdirs),
            ("reads", self.reads),
            ("read_bytes", self.read_bytes),
            ("writes", self.writes),
            ("written_bytes", self.written_bytes),
            ("syncs", self.syncs),
        ]
    }

    fn columns_mut(&mut self) -> [&mut u64; 10] {
        [
            &mut self.creates,
            &mut self.opens,
            &mut self.closes,
            &mut self.unlinks,
            &mut self.mkdirs,
            &mut self.reads,
            &mut self.read_bytes,
            &mut self.writes,
            &mut self.written_bytes,
            &mut self.syncs,
        ]
    }
}

impl Sub for Calls {
    type Output = Calls;

    /// What was called between two moments.
    fn sub(mut self, earlier: Calls) -> Calls {
        for (now, (_, before)) in self.columns_mut().into_iter().zip(earlier.columns()) {
            *now -= before;
        }
        self
    }
}

impl AddAssign for Calls {
    fn add_assign(&mut self, other: Calls) {
        for (sum, (_, more)) in self.columns_mut().into_iter().zip(other.columns()) {
            *sum += more;
        }
    }
}

/// Why a space manager cannot go on.
#[derive(Debug)]
pub enum SpaceError {
    /// A call to the file system failed.
    File {
        /// Which one.
        operation: &'static str,
        /// On what, relative to the manager's directory; empty for the directory itself.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// The engine could not be started, or its device failed.
    Engine(String),
    /// What was read is not what was stored.
    Wrong {
        /// The object.
        object: Object,
        /// The first position in its body that is wrong, or the length when it ends too early.
        position: u64,
    },
}

impl SpaceError {
    /// Wraps an error of the file system.
    pub fn file(operation: &'static str, path: &str, error: io::Error) -> SpaceError {
        SpaceError::File { operation, path: path.to_owned(), error }
    }

    /// Whether there is no room left.
    pub fn is_full(&self) -> bool {
        matches!(self, SpaceError::File { error, .. }
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::File { operation, path, error } => {
                let path = if path.is_empty() { "its directory" } else { path };
                write!(f, "cannot {operation} {path}: {error}")
            }
            SpaceError::Engine(why) => write!(f, "the engine: {why}"),
            SpaceError::Wrong { object, position } => write!(
                f,
                "object {} version {}, {} bytes: what was read is wrong from byte {position} on",
                object.id, object.version, object.size
            ),
        }
    }
}

impl std::error::Error for SpaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpaceError::File { error, .. } => Some(error),
            _ => None,
        }
    }
}
