//! A space manager: any way of keeping the objects of a cache on a disk.
//!
//! The lab drives all of them through this interface, so they get the same operations in the same
//! order and are counted and timed alike: a file per object in a real directory or on a modelled
//! file system, and the product's engine on any device, real or simulated. Methods are asynchronous
//! because a model takes virtual time and an engine works concurrently; a manager over blocking
//! calls never waits.

use std::future::Future;
use std::io;
use std::ops::{AddAssign, Sub};

use bytes::Bytes;

use workload::request::Object;

/// Keeps objects on a disk. A cache decides which objects to keep.
///
/// Several calls may be in flight at a time, but never two for one object.
pub trait SpaceManager {
    /// Stores `body`, which has `object.size` bytes, as the object. An object stored under
    /// `object.id` before is deleted first.
    ///
    /// # Errors
    /// The disk is full or broken. Then nothing of the object is stored.
    fn store(
        &self,
        object: &Object,
        body: Bytes,
    ) -> impl Future<Output = Result<Stored, SpaceError>>;

    /// Reads the whole body of the object stored under `object.id`.
    ///
    /// # Errors
    /// The disk is broken. A missing object is not an error: [`Read::Gone`].
    fn read(&self, object: &Object) -> impl Future<Output = Result<Read, SpaceError>>;

    /// Frees the object's space. Returns false if it was not stored.
    ///
    /// # Errors
    /// The disk is broken.
    fn delete(&self, object: &Object) -> impl Future<Output = Result<bool, SpaceError>>;

    /// Sets whether reads may wait to go to the disk together; initially they may. With `false`,
    /// waiting reads are sent as soon as the disk reads nothing else. A manager whose reads do not
    /// wait for one another ignores it.
    fn hold_reads(&self, holds: bool) {
        let _ = holds;
    }

    /// Writes everything to the disk. No other call follows.
    ///
    /// # Errors
    /// Something cannot be written.
    fn finish(&self) -> impl Future<Output = Result<(), SpaceError>>;

    /// Returns the calls to the layer below since the manager was created.
    fn calls(&self) -> Calls;
}

/// The outcome of storing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored.
    Kept,
    /// The manager chose not to store it.
    Refused(store::Refusal),
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The body, in order, in any number of parts.
    Body(Vec<Bytes>),
    /// The body was read on a disk that keeps no contents: a cost model.
    Unseen,
    /// The object is not stored: never was, was deleted, or was evicted by the manager.
    Gone,
}

/// Calls of a space manager to the file system or the device below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Files created (and thereby opened).
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Files closed.
    pub closes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Files removed.
    pub unlinks: u64,
    /// Directories created.
    pub mkdirs: u64,
    /// Requests to make data durable: of one file, of all files, or of a device.
    pub syncs: u64,
}

impl Calls {
    /// Returns names and values in display order.
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

    /// Returns the calls between two moments.
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

/// Why a space manager failed.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// A call to the file system failed.
    #[error(
        "cannot {operation} {}: {error}",
        if .path.is_empty() { "its directory" } else { .path }
    )]
    File {
        /// The call.
        operation: &'static str,
        /// Its path, relative to the manager's directory; empty for the directory itself.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The engine could not be started, or its device failed.
    #[error("the engine: {0}")]
    Engine(String),
    /// The body that was read differs from the one stored.
    #[error(
        "object {} version {}, {} bytes: the bytes read are wrong from byte {position} on",
        .object.id, .object.version, .object.size
    )]
    Wrong {
        /// The object that was read.
        object: Object,
        /// First wrong position in the body, or its length if it ends too early.
        position: u64,
    },
}

impl SpaceError {
    /// Wraps an error of the file system.
    pub fn file(operation: &'static str, path: &str, error: io::Error) -> SpaceError {
        SpaceError::File { operation, path: path.to_owned(), error }
    }

    /// Returns whether there is no space left.
    pub fn is_full(&self) -> bool {
        matches!(self, SpaceError::File { error, .. }
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}
