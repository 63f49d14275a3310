//! Where a cache lies while pages are measured: a loop device on a file of its own, raw or with a
//! fresh file system, whose operations the kernel counts.
//!
//! The loop device reads and writes its file without the page cache, so that only what a server's
//! own page cache holds is answered from memory. Dropped, everything is removed.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{NamedTempFile, TempDir};

use crate::workspace;

/// Bytes of a sector in the kernel's counts.
const SECTOR: u64 = 512;

/// Operations of a device since it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operations {
    /// Reads completed.
    pub reads: u64,
    /// Bytes that they brought.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes that they took.
    pub written_bytes: u64,
}

impl Operations {
    /// Reads the `stat` of a block device.
    fn read(text: &str) -> Option<Operations> {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        let [reads, _, read, _, writes, _, written, ..] = numbers?[..] else { return None };
        let (read_bytes, written_bytes) = (read * SECTOR, written * SECTOR);
        Some(Operations { reads, read_bytes, writes, written_bytes })
    }

    /// What was done since `before`.
    pub fn since(&self, before: &Operations) -> Operations {
        Operations {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// See the module.
pub struct LoopDevice {
    path: PathBuf,
    _file: NamedTempFile,
}

impl LoopDevice {
    /// A device of `len` bytes on a new file in `directory`.
    ///
    /// # Errors
    ///
    /// Without the rights of root, or where the file cannot be used without the page cache.
    pub fn new(directory: &Path, len: u64) -> Result<LoopDevice, String> {
        let fail = |e: std::io::Error| format!("{}: {e}", directory.display());
        fs::create_dir_all(directory).map_err(fail)?;
        let file = NamedTempFile::new_in(directory).map_err(fail)?;
        // All blocks are there and written: none is allocated while something is measured.
        let mut zeros = std::io::Read::take(std::io::repeat(0), len);
        std::io::copy(&mut zeros, &mut file.as_file()).map_err(fail)?;
        file.as_file().sync_all().map_err(fail)?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(file.path());
        let path = PathBuf::from(workspace::output(losetup)?.trim());
        let device = LoopDevice { path, _file: file };
        if device.of_kernel("loop/dio")?.trim() != "1" {
            return Err(format!("{}: no direct I/O for a loop device there", directory.display()));
        }
        Ok(device)
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number as the kernel writes it, `7:0` say.
    pub fn number(&self) -> Result<String, String> {
        Ok(self.of_kernel("dev")?.trim().to_owned())
    }

    /// What it did so far.
    pub fn operations(&self) -> Result<Operations, String> {
        let text = self.of_kernel("stat")?;
        Operations::read(&text).ok_or_else(|| format!("no counts in {text:?}"))
    }

    /// Gives it to a user, until it is dropped.
    pub fn give_to(&self, user: u32) -> Result<(), String> {
        chown(&self.path, Some(user), None).map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn of_kernel(&self, what: &str) -> Result<String, String> {
        let name = self.path.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join(what);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = self.give_to(0);
        let mut losetup = Command::new("losetup");
        losetup.arg("--detach").arg(&self.path);
        if let Err(why) = workspace::succeed(losetup) {
            eprintln!("{} is left behind: {why}", self.path.display());
        }
    }
}

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

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes everything back that waits in memory.
    pub fn settle(&self) -> Result<(), String> {
        let fail = |e: std::io::Error| format!("{}: {e}", self.path().display());
        let directory = fs::File::open(self.path()).map_err(fail)?;
        rustix::fs::syncfs(&directory).map_err(|e| fail(e.into()))
    }

    /// Bytes of the blocks that files take.
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

#[test]
fn counts_are_read_from_the_line_of_a_block_device() {
    let line = "   12  3  800  40   5  1  96  7  0  44  47  0  0  0  0  0  0\n";
    let counts = Operations { reads: 12, read_bytes: 409_600, writes: 5, written_bytes: 49_152 };
    assert_eq!(Operations::read(line), Some(counts));
    assert_eq!(Operations::read("1 2 3"), None);
}
