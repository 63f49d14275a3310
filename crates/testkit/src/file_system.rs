//! A file system on a fresh loop device, for systems that keep their cache in files, and for the
//! files of web servers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::loop_device::LoopDevice;

/// A fresh ext4 on a device. Unmounted when dropped.
pub struct FileSystem {
    device: PathBuf,
    /// True if the operations per second of its device are limited.
    held: bool,
    directory: TempDir,
}

/// The purpose of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Many small files that are created and deleted.
    Cache,
    /// Files that are written once and then only read: no journal.
    Tree,
}

impl FileSystem {
    /// Creates and mounts a file system with inodes for many small files. If the device's
    /// operations are limited (`held`), inode read-ahead is off: the limit counts blocks before the
    /// kernel merges those of a read into one operation, and would count 32 operations for one.
    ///
    /// # Errors
    ///
    /// Fails if either step fails.
    pub fn new(device: &Path, purpose: Purpose, held: bool) -> Result<FileSystem, String> {
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0"]);
        match purpose {
            Purpose::Cache => make.args(["-i", "4096"]),
            Purpose::Tree => make.args(["-i", "8192", "-O", "^has_journal"]),
        };
        make.args(["-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]).arg(device);
        succeed(make)?;
        let directory = TempDir::new().map_err(|e| format!("a temporary directory: {e}"))?;
        let files = FileSystem { device: device.to_path_buf(), held, directory };
        files.mount()?;
        Ok(files)
    }

    fn mount(&self) -> Result<(), String> {
        let mut mount = Command::new("mount");
        let options = if self.held { "noatime,inode_readahead_blks=1" } else { "noatime" };
        mount.args(["-t", "ext4", "-o", options]).arg(&self.device).arg(self.path());
        succeed(mount)
    }

    fn unmount(&self) -> Result<(), String> {
        let mut unmount = Command::new("umount");
        unmount.arg(self.path());
        succeed(unmount)
    }

    /// Makes the kernel drop the cached files, inodes and directory entries of this file system
    /// only.
    ///
    /// # Errors
    ///
    /// Fails if one of its files is open.
    pub fn forget(&self, device: &LoopDevice) -> Result<(), String> {
        self.unmount()?;
        device.forget()?;
        self.mount()
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes back all dirty data.
    ///
    /// # Errors
    ///
    /// Fails if data cannot be written.
    pub fn settle(&self) -> Result<(), String> {
        let fail = |e: std::io::Error| format!("{}: {e}", self.path().display());
        let directory = fs::File::open(self.path()).map_err(fail)?;
        rustix::fs::syncfs(&directory).map_err(|e| fail(e.into()))
    }

    /// Returns the number of bytes in blocks used by files.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not report it.
    pub fn used(&self) -> Result<u64, String> {
        let counts = rustix::fs::statvfs(self.path())
            .map_err(|e| format!("{}: {e}", self.path().display()))?;
        Ok((counts.f_blocks - counts.f_bfree) * counts.f_frsize)
    }
}

/// Runs a command to completion; fails if it exits with an error.
fn succeed(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let mounted = |path: &Path| {
            let above = path.parent().map(fs::metadata).and_then(Result::ok);
            let (here, above) = (fs::metadata(path).ok(), above);
            here.zip(above).is_some_and(|(here, above)| here.dev() != above.dev())
        };
        if mounted(self.path())
            && let Err(why) = self.unmount()
        {
            eprintln!("{} is left behind: {why}", self.path().display());
        }
    }
}
