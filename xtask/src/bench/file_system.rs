//! A file system on a fresh loop device, for systems that keep their cache in files.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::workspace;

/// A fresh ext4 on a device. Dropped, it is unmounted.
pub struct FileSystem(TempDir);

impl FileSystem {
    /// Makes and mounts it, with room for many small files.
    ///
    /// # Errors
    ///
    /// When either fails.
    pub fn new(device: &Path) -> Result<FileSystem, String> {
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0", "-i", "4096"]);
        make.args(["-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]).arg(device);
        workspace::succeed(make)?;
        let directory = TempDir::new().map_err(|e| format!("a temporary directory: {e}"))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "noatime"]).arg(device).arg(directory.path());
        workspace::succeed(mount)?;
        Ok(FileSystem(directory))
    }

    /// Returns the directory that it is mounted on.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes everything back that waits in memory.
    pub fn settle(&self) -> Result<(), String> {
        let fail = |e: std::io::Error| format!("{}: {e}", self.path().display());
        let directory = fs::File::open(self.path()).map_err(fail)?;
        rustix::fs::syncfs(&directory).map_err(|e| fail(e.into()))
    }

    /// Returns the number of bytes in the blocks that files take.
    pub fn used(&self) -> Result<u64, String> {
        let counts = rustix::fs::statvfs(self.path())
            .map_err(|e| format!("{}: {e}", self.path().display()))?;
        Ok((counts.f_blocks - counts.f_bfree) * counts.f_frsize)
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(self.path());
        if let Err(why) = workspace::succeed(unmount) {
            eprintln!("{} is left behind: {why}", self.path().display());
        }
    }
}
