//! The modelled file system as a [`FileSystem`], on which the baselines run in virtual time.
//!
//! It keeps no contents, so a read returns `None`. Its costs are those of the model: accesses of
//! the simulated disk, and processor time.

use std::io;

use bytes::Bytes;
use sim::ffs::{Ffs, File};

use crate::space::file_system::FileSystem;

/// Files on a modelled file system. A clone is another handle on the same file system.
#[derive(Clone)]
pub struct ModelledFiles {
    ffs: Ffs,
}

impl ModelledFiles {
    /// Wraps the modelled file system.
    pub fn new(ffs: Ffs) -> ModelledFiles {
        ModelledFiles { ffs }
    }

    /// Returns the modelled file system.
    pub fn ffs(&self) -> &Ffs {
        &self.ffs
    }
}

impl FileSystem for ModelledFiles {
    type File = File;

    async fn create(&self, path: &str) -> io::Result<File> {
        self.ffs.create(path).await
    }

    async fn open(&self, path: &str) -> io::Result<File> {
        self.ffs.open(path).await
    }

    async fn read(&self, file: &File, offset: u64, len: u64) -> io::Result<Option<Bytes>> {
        self.ffs.read(file, offset, len).await.map(|()| None)
    }

    async fn write(&self, file: &File, offset: u64, data: Bytes) -> io::Result<()> {
        self.ffs.write(file, offset, data.len() as u64).await
    }

    async fn sync(&self, file: &File) -> io::Result<()> {
        self.ffs.sync(file).await
    }

    async fn close(&self, file: File) -> io::Result<()> {
        self.ffs.close(file).await
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        self.ffs.unlink(path).await
    }

    async fn mkdir(&self, path: &str) -> io::Result<()> {
        self.ffs.mkdir(path).await
    }

    async fn sync_all(&self) -> io::Result<()> {
        self.ffs.sync_all().await
    }
}
