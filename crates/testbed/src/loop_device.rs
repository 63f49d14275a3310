//! A loop device over a file of its own, past the page cache, whose operations the kernel counts.
//!
//! Nothing is left of either however the process ends: the file loses its name as soon as it is
//! attached, and the kernel detaches the device when its last handle is closed. Needs root and
//! `losetup`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a sector in the kernel's counts.
const SECTOR: u64 = 512;

/// The allocation of the file's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// They come as they are written.
    Sparse,
    /// They are there and written: none is allocated while something is measured.
    Written,
}

/// See the module.
pub struct LoopDevice {
    path: PathBuf,
    /// The directory in which the kernel shows it.
    directory: PathBuf,
    /// Keeps it attached.
    _handle: File,
}

/// Operations that the kernel completed on a device since it was made: one request of a program may
/// be several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Reads the text of `stat` of a block device; `None` when it has no counts.
    pub fn read(text: &str) -> Option<Operations> {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        let [reads, _, read, _, writes, _, written, ..] = numbers?[..] else { return None };
        let (read_bytes, written_bytes) = (read * SECTOR, written * SECTOR);
        Some(Operations { reads, read_bytes, writes, written_bytes })
    }

    /// Returns the operations since `before`.
    pub fn since(&self, before: &Operations) -> Operations {
        Operations {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

impl LoopDevice {
    /// Attaches a device of `len` bytes. A file that is at `file` gives way.
    ///
    /// # Errors
    ///
    /// Without the rights of root, where `file` is no regular file, or cannot be used without the
    /// page cache.
    pub fn over(file: &Path, len: u64, blocks: Blocks) -> Result<LoopDevice, String> {
        if file.exists() && !file.is_file() {
            return Err(format!("{} is no regular file", file.display()));
        }
        let attached = match make(file, len, blocks) {
            Ok(()) => attach(file),
            Err(error) => Err(format!("cannot make {}: {error}", file.display())),
        };
        let _ = std::fs::remove_file(file);
        let device = attached?;
        match device.attribute("loop/dio")?.trim() {
            "1" => Ok(device),
            _ => Err(format!("{}: no direct I/O for a loop device there", file.display())),
        }
    }

    /// Returns the path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the major and minor number in the form that control groups take, such as `7:0`.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    pub fn number(&self) -> Result<String, String> {
        self.attribute("dev").map(|number| number.trim().to_owned())
    }

    /// Returns the operations so far.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    pub fn operations(&self) -> Result<Operations, String> {
        let text = self.attribute("stat")?;
        Operations::read(&text).ok_or_else(|| format!("no counts in {text:?}"))
    }

    /// Makes the kernel forget what it keeps in memory of it.
    ///
    /// # Errors
    ///
    /// Without the rights of root, or `blockdev`.
    pub fn forget(&self) -> Result<(), String> {
        run("blockdev", &["--flushbufs"], &self.path).map(drop)
    }

    /// Gives it to a user, until it is dropped.
    ///
    /// # Errors
    ///
    /// Without the rights of root.
    pub fn give_to(&self, user: u32) -> Result<(), String> {
        chown(&self.path, Some(user), None).map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn attribute(&self, name: &str) -> Result<String, String> {
        let path = self.directory.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // The next one of its name is root's again.
        let _ = self.give_to(0);
    }
}

fn make(file: &Path, len: u64, blocks: Blocks) -> io::Result<()> {
    let mut made = File::create(file)?;
    match blocks {
        Blocks::Sparse => made.set_len(len),
        Blocks::Written => {
            io::copy(&mut io::repeat(0).take(len), &mut made)?;
            made.sync_all()
        }
    }
}

fn attach(file: &Path) -> Result<LoopDevice, String> {
    let path: PathBuf =
        run("losetup", &["--find", "--show", "--direct-io=on"], file)?.trim().to_owned().into();
    let handle = File::open(&path);
    // Held by the handle, it stays until that is closed.
    run("losetup", &["--detach"], &path)?;
    let handle = handle.map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().ok_or_else(|| format!("{}: no name", path.display()))?;
    let directory = Path::new("/sys/block").join(name);
    Ok(LoopDevice { path, directory, _handle: handle })
}

fn run(program: &str, words: &[&str], of: &Path) -> Result<String, String> {
    let output = Command::new(program).args(words).arg(of).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} (needs root): {}", reason.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn counts_are_read_from_the_line_of_a_block_device() {
    let line = "   12  3  800  40   5  1  96  7  0  44  47  0  0  0  0  0  0\n";
    let counts = Operations { reads: 12, read_bytes: 409_600, writes: 5, written_bytes: 49_152 };
    assert_eq!(Operations::read(line), Some(counts));
    assert_eq!(Operations::read("1 2 3"), None);
}
