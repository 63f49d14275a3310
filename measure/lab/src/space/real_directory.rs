//! A directory of this machine as a [`FileSystem`]: plain buffered system calls, as in programs
//! that keep a file per object.
//!
//! Calls block the thread, so there is only one at a time, as in the papers. Written data are in
//! the page cache until a sync or the system's own write-back; reads may be served from it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

use crate::space::file_system::FileSystem;

/// A directory reserved for the run.
pub struct RealDirectory {
    root: PathBuf,
    /// Kept open for `syncfs`, which makes everything on its file system durable.
    handle: File,
}

impl RealDirectory {
    /// Opens the directory `root`, which must exist.
    ///
    /// # Errors
    /// It does not exist, is not a directory, or may not be read.
    pub fn new(root: &Path) -> io::Result<RealDirectory> {
        let handle = File::open(root)?;
        if !handle.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(RealDirectory { root: root.to_owned(), handle })
    }
}

impl FileSystem for RealDirectory {
    type File = File;

    async fn create(&self, path: &str) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(self.root.join(path))
    }

    async fn open(&self, path: &str) -> io::Result<File> {
        File::options().read(true).write(true).open(self.root.join(path))
    }

    async fn read(&self, file: &File, offset: u64, len: u64) -> io::Result<Option<Bytes>> {
        let mut bytes = BytesMut::zeroed(len as usize);
        file.read_exact_at(&mut bytes, offset)?;
        Ok(Some(bytes.freeze()))
    }

    async fn write(&self, file: &File, offset: u64, data: Bytes) -> io::Result<()> {
        file.write_all_at(&data, offset)
    }

    async fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    async fn close(&self, file: File) -> io::Result<()> {
        // An error of `close` reports nothing that a sync would not.
        drop(file);
        Ok(())
    }

    async fn unlink(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(path))
    }

    async fn mkdir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    async fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.handle)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_are_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let error = RealDirectory::new(&missing).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        fs::write(&missing, "now a file").unwrap();
        let error = RealDirectory::new(&missing).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }
}
