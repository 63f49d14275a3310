//! A control group that holds its processes to so many bytes of memory: their own, what the kernel
//! caches of files for them, and its inodes and directory entries.
//!
//! Version 1's `memory` or version 2. The group is removed when it is dropped; the processes in it
//! must have ended by then. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// See the module.
pub struct MemoryGroup {
    directory: PathBuf,
}

impl MemoryGroup {
    /// Makes a group with a limit in bytes.
    ///
    /// # Errors
    ///
    /// Without the rights of root, or where no such controller is mounted.
    pub fn new(bytes: u64) -> Result<MemoryGroup, String> {
        let one = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = match one.join("memory.limit_in_bytes").exists() {
            true => (one, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let directory = root.join(format!("larder-memory-{}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let group = MemoryGroup { directory };
        let limit = group.directory.join(file);
        fs::write(&limit, bytes.to_string())
            .map_err(|error| format!("{}: {error}", limit.display()))?;
        Ok(group)
    }

    /// Returns the file to which the number of a process is written.
    pub fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // What ended in it a moment ago may still be there.
        for _ in 0..50 {
            match fs::remove_dir(&self.directory) {
                Ok(()) => return,
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        eprintln!("{} is left behind", self.directory.display());
    }
}
