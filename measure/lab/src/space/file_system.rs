//! The minimal file system interface that a space manager needs.
//!
//! The baselines use files through this trait, so the same code runs on a real directory and on a
//! modelled file system in virtual time. Paths are relative to the root of the file system, with
//! `/` between their parts.

use std::cell::Cell;
use std::future::Future;
use std::io;

use bytes::Bytes;

use crate::space::manager::Calls;

/// A file system, as far as the baselines use one. Errors are those of the system calls of the same
/// names; a model returns the same kinds.
pub trait FileSystem {
    /// A file that is open for reading and writing.
    type File;

    /// Creates a file and opens it. Fails if it exists.
    fn create(&self, path: &str) -> impl Future<Output = io::Result<Self::File>>;

    /// Opens an existing file.
    fn open(&self, path: &str) -> impl Future<Output = io::Result<Self::File>>;

    /// Reads exactly `len` bytes at `offset`; fails if the file is shorter. Returns `None` after a
    /// read on a file system that keeps no contents.
    fn read(
        &self,
        file: &Self::File,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = io::Result<Option<Bytes>>>;

    /// Writes all of `data` at `offset`, which may lie beyond the end.
    fn write(
        &self,
        file: &Self::File,
        offset: u64,
        data: Bytes,
    ) -> impl Future<Output = io::Result<()>>;

    /// Makes the file's data and metadata durable.
    fn sync(&self, file: &Self::File) -> impl Future<Output = io::Result<()>>;

    /// Closes the file.
    fn close(&self, file: Self::File) -> impl Future<Output = io::Result<()>>;

    /// Removes a file.
    fn unlink(&self, path: &str) -> impl Future<Output = io::Result<()>>;

    /// Makes a directory.
    fn mkdir(&self, path: &str) -> impl Future<Output = io::Result<()>>;

    /// Makes everything durable.
    fn sync_all(&self) -> impl Future<Output = io::Result<()>>;
}

/// A file system whose calls are counted: a call when it is made, its bytes when it succeeds.
pub struct Counted<F> {
    below: F,
    calls: Cell<Calls>,
}

impl<F: FileSystem> Counted<F> {
    /// Wraps a file system; counts start at zero.
    pub fn new(below: F) -> Counted<F> {
        Counted { below, calls: Cell::default() }
    }

    /// Returns the file system below.
    pub fn below(&self) -> &F {
        &self.below
    }

    /// Returns the calls so far.
    pub fn calls(&self) -> Calls {
        self.calls.get()
    }

    fn count(&self, add: impl FnOnce(&mut Calls)) {
        let mut calls = self.calls.get();
        add(&mut calls);
        self.calls.set(calls);
    }
}

impl<F: FileSystem> FileSystem for Counted<F> {
    type File = F::File;

    async fn create(&self, path: &str) -> io::Result<F::File> {
        self.count(|calls| calls.creates += 1);
        self.below.create(path).await
    }

    async fn open(&self, path: &str) -> io::Result<F::File> {
        self.count(|calls| calls.opens += 1);
        self.below.open(path).await
    }

    async fn read(&self, file: &F::File, offset: u64, len: u64) -> io::Result<Option<Bytes>> {
        self.count(|calls| calls.reads += 1);
        let read = self.below.read(file, offset, len).await?;
        self.count(|calls| calls.read_bytes += len);
        Ok(read)
    }

    async fn write(&self, file: &F::File, offset: u64, data: Bytes) -> io::Result<()> {
        self.count(|calls| calls.writes += 1);
        let len = data.len() as u64;
        self.below.write(file, offset, data).await?;
        self.count(|calls| calls.written_bytes += len);
        Ok(())
    }

    async fn sync(&self, file: &F::File) -> io::Result<()> {
        self.count(|calls| calls.syncs += 1);
        self.below.sync(file).await
    }

    async fn close(&self, file: F::File) -> io::Result<()> {
        self.count(|calls| calls.closes += 1);
        self.below.close(file).await
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        self.count(|calls| calls.unlinks += 1);
        self.below.unlink(path).await
    }

    async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.count(|calls| calls.mkdirs += 1);
        self.below.mkdir(path).await
    }

    async fn sync_all(&self) -> io::Result<()> {
        self.count(|calls| calls.syncs += 1);
        self.below.sync_all().await
    }
}
