//! A control group that limits the memory of its processes in bytes: their own memory, the page
//! cache of files that they use, and the kernel's inodes and directory entries.
//!
//! Uses `memory` of cgroup version 1, or version 2, and reports the memory in use. The group is
//! removed when dropped; its processes must have ended by then. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A control group with a memory limit.
pub struct MemoryGroup {
    directory: PathBuf,
    version: Version,
}

/// The memory that a group uses at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous memory of the processes.
    pub own: u64,
    /// The kernel's page cache.
    pub files: u64,
    /// All other kernel memory: inodes, directory entries, watches, sockets, page tables.
    pub kernel: u64,
}

impl Memory {
    /// Parses the lines of `memory.stat` with these names, and the kernel's line if there is one.
    fn read(text: &str, own: &str, files: &str) -> Option<Memory> {
        let of = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            rest?.parse().ok()
        };
        Some(Memory { own: of(own)?, files: of(files)?, kernel: of("kernel").unwrap_or(0) })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl MemoryGroup {
    /// Creates a group with a limit in bytes.
    ///
    /// # Errors
    ///
    /// Fails without root privileges, or if no memory controller is mounted.
    pub fn new(bytes: u64) -> Result<MemoryGroup, String> {
        let one = Path::new("/sys/fs/cgroup/memory");
        let (version, root, file) = match one.join("memory.limit_in_bytes").exists() {
            true => (Version::V1, one, "memory.limit_in_bytes"),
            false => (Version::V2, Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        if version == Version::V2 {
            write(&root.join("cgroup.subtree_control"), "+memory")?;
        }
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = root.join(format!("larder-memory-{}-{number}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let group = MemoryGroup { directory, version };
        write(&group.directory.join(file), &bytes.to_string())?;
        Ok(group)
    }

    /// Returns the file to which a process ID is written to add the process to the group.
    pub fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Returns the directory of the group if it also serves the other controllers, as in version 2.
    pub fn of_all_controllers(&self) -> Option<&Path> {
        (self.version == Version::V2).then_some(&self.directory)
    }

    /// Returns the memory that the group uses.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not report it.
    pub fn memory(&self) -> Result<Memory, String> {
        let text = read(&self.directory.join("memory.stat"))?;
        let (own, files) = match self.version {
            Version::V1 => ("rss", "cache"),
            Version::V2 => ("anon", "file"),
        };
        let told = Memory::read(&text, own, files).ok_or_else(|| format!("no sizes in {text}"))?;
        if self.version == Version::V2 {
            return Ok(told);
        }
        let kernel = read(&self.directory.join("memory.kmem.usage_in_bytes"))?;
        let kernel = kernel.trim().parse().map_err(|_| format!("no size in {kernel:?}"))?;
        Ok(Memory { kernel, ..told })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Processes that ended a moment ago may still be listed.
        for _ in 0..50 {
            match fs::remove_dir(&self.directory) {
                Ok(()) => return,
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        eprintln!("{} is left behind", self.directory.display());
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{} ({text}): {error}", path.display()))
}

#[test]
fn sizes_are_read_from_lines_of_these_names() {
    let one = "cache 8192\nrss 4096\nrss_huge 0\ntotal_cache 1\n";
    let memory = Memory { own: 4096, files: 8192, kernel: 0 };
    assert_eq!(Memory::read(one, "rss", "cache"), Some(memory));
    let two = "anon 1\nfile 2\nkernel 3\nkernel_stack 4\n";
    let memory = Memory { own: 1, files: 2, kernel: 3 };
    assert_eq!(Memory::read(two, "anon", "file"), Some(memory));
    assert_eq!(Memory::read("anon 1\n", "anon", "file"), None);
}
