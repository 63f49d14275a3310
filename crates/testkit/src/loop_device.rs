//! A loop device over its own file, without the page cache, whose operations the kernel counts.
//!
//! Neither file nor device is left behind, however the process ends: the file is unlinked as soon
//! as it is attached, and the kernel detaches the device when its last handle is closed. Needs root
//! and `losetup`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes per sector in the kernel's counts.
const SECTOR: u64 = 512;

/// How the blocks of the file are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Blocks are allocated when they are written.
    Sparse,
    /// All blocks are allocated and written in advance, so that no allocation disturbs a
    /// measurement.
    Written,
}

/// An attached loop device. Detached when dropped.
pub struct LoopDevice {
    path: PathBuf,
    /// The device's directory in `/sys/block`.
    directory: PathBuf,
    /// Keeps the device attached.
    _handle: File,
}

/// Operations that the kernel completed on a device since it was created. One request of a program
/// may be several operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Operations {
    /// Parses the `stat` file of a block device; returns `None` if it has no counts.
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
    /// Attaches a device of `len` bytes. An existing file at `file` is replaced.
    ///
    /// # Errors
    ///
    /// Fails without root privileges, if `file` is not a regular file, or if it cannot be used
    /// without the page cache.
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

    /// Returns the major and minor number in the notation of control groups, such as `7:0`.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not report it.
    pub fn number(&self) -> Result<String, String> {
        self.attribute("dev").map(|number| number.trim().to_owned())
    }

    /// Returns the operations so far.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not report them.
    pub fn operations(&self) -> Result<Operations, String> {
        let text = self.attribute("stat")?;
        Operations::read(&text).ok_or_else(|| format!("no counts in {text:?}"))
    }

    /// Makes the kernel drop its cached data of the device.
    ///
    /// # Errors
    ///
    /// Fails without root privileges or `blockdev`.
    pub fn forget(&self) -> Result<(), String> {
        run("blockdev", &["--flushbufs"], &self.path).map(drop)
    }

    /// Gives ownership of the device to a user until it is dropped.
    ///
    /// # Errors
    ///
    /// Fails without root privileges.
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
        // The next device with this name must belong to root again.
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
    // The device stays attached until the handle is closed.
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
