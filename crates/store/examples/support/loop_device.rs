//! A loop device over a sparse file of its own, past the page cache.
//!
//! Nothing is left of either however the process ends: the file loses its name as soon as it is
//! attached, and the kernel detaches the device when its last handle is closed. Needs root and
//! `losetup`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module.
pub struct LoopDevice {
    path: PathBuf,
    /// What was asked of it since it was made is counted here.
    directory: PathBuf,
    /// Keeps it attached.
    _handle: File,
}

/// What the kernel completed on a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completed {
    pub reads: u64,
    pub writes: u64,
}

impl LoopDevice {
    /// Attaches a device of `len` bytes. A file that is at `file` gives way.
    pub fn over(file: &Path, len: u64) -> Result<LoopDevice, String> {
        if file.exists() && !file.is_file() {
            return Err(format!("{} is no regular file", file.display()));
        }
        let made = File::create(file).and_then(|made| made.set_len(len));
        let attached = match made {
            Ok(()) => attach(file),
            Err(error) => Err(format!("cannot make {}: {error}", file.display())),
        };
        let _ = std::fs::remove_file(file);
        attached
    }

    /// Where it is, as a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor number, as control groups want them.
    pub fn numbers(&self) -> Result<String, String> {
        self.attribute("dev").map(|numbers| numbers.trim().to_owned())
    }

    /// Requests that the kernel completed on it: one of the engine's may be several.
    pub fn completed(&self) -> Result<Completed, String> {
        let text = self.attribute("stat")?;
        let fields: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        match fields[..] {
            [reads, _, _, _, writes, ..] => Ok(Completed { reads, writes }),
            _ => Err(format!("{}: {text}", self.directory.display())),
        }
    }

    fn attribute(&self, name: &str) -> Result<String, String> {
        let path = self.directory.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn attach(file: &Path) -> Result<LoopDevice, String> {
    let path: PathBuf =
        losetup(&["--find", "--show", "--direct-io=on"], file)?.trim().to_owned().into();
    let handle = File::open(&path);
    // Held by the handle, it stays until that is closed.
    losetup(&["--detach"], &path)?;
    let handle = handle.map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().ok_or_else(|| format!("{}: no name", path.display()))?;
    let directory = Path::new("/sys/block").join(name);
    Ok(LoopDevice { path, directory, _handle: handle })
}

fn losetup(words: &[&str], of: &Path) -> Result<String, String> {
    let output = Command::new("losetup").args(words).arg(of).output();
    let output = output.map_err(|error| format!("losetup: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("losetup (needs root): {}", reason.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
