//! The environment of a system: a private loop device, with a file system if needed, and control
//! groups. Everything is removed when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::file_system::{FileSystem, Purpose};
use testkit::loop_device::{Blocks, LoopDevice};
use testkit::memory_group::MemoryGroup;
use testkit::throttle::{Group, Limit, Limited};

use super::setup::{System, Want};

/// The resources of each system.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Bytes of memory for the system and its share of the kernel's memory.
    pub memory: u64,
    /// Reads per second, and as many writes, that its device may do during a measurement.
    pub operations: Option<u32>,
    /// The directory for the device's file.
    pub base: PathBuf,
    /// Its only core.
    pub core: usize,
}

/// Maximum time until killed processes are gone.
const GONE: Duration = Duration::from_secs(5);

/// The environment of a system. The fields are dropped in this order.
pub struct Bed {
    limited: Option<Limited>,
    files: Option<FileSystem>,
    device: LoopDevice,
    throttle: Option<Group>,
    memory: Option<MemoryGroup>,
}

impl Bed {
    /// Creates the environment for a system, whose files are called by `name`.
    ///
    /// # Errors
    /// Fails if privileges or tools for a device or a file system are missing.
    pub fn new(
        grant: &Grant,
        system: &System,
        name: &str,
        notes: &mut Vec<String>,
    ) -> Result<Bed, String> {
        let name: String = name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let file = grant.base.join(format!("bench-{}-{name}", std::process::id()));
        let is_held = grant.operations.is_some();
        let (len, blocks) = match system.want() {
            Want::Device => (grant.cache, Blocks::Written),
            // Files use whole blocks, and there are directories and inodes; eviction also lags
            // behind new objects.
            Want::Directory => (2 * grant.cache + (256 << 20), Blocks::Sparse),
        };
        let device = LoopDevice::over(&file, len, blocks)?;
        let files = match system.want() {
            Want::Directory => Some(FileSystem::new(device.path(), Purpose::Cache, is_held)?),
            Want::Device => None,
        };
        if let (None, Some(user)) = (&files, system.user()?) {
            device.give_to(user)?;
        }
        let memory = MemoryGroup::new(grant.memory)
            .inspect_err(|why| note(notes, &format!("SKIPPED: the limit of memory: {why}")))
            .ok();
        let throttle = match (grant.operations, &memory) {
            (None, _) => None,
            (Some(_), Some(memory)) => Some(Group::beside(memory)?),
            (Some(_), None) => Some(Group::new()?),
        };
        Ok(Bed { limited: None, files, device, throttle, memory })
    }

    /// Returns the path of the system's cache.
    pub fn cache(&self) -> PathBuf {
        match &self.files {
            Some(files) => files.path().join("cache"),
            None => self.device.path().to_path_buf(),
        }
    }

    /// Returns the path of the device.
    pub fn device(&self) -> &Path {
        self.device.path()
    }

    /// Returns the bytes of the files on its device; `None` if it has no file system.
    ///
    /// # Errors
    /// Fails if the kernel does not report them.
    pub fn used(&self) -> Result<Option<u64>, String> {
        self.files.as_ref().map(FileSystem::used).transpose()
    }

    /// Returns the files of the groups to which the system's processes are added.
    pub fn groups(&self) -> Vec<PathBuf> {
        let memory = self.memory.iter().map(MemoryGroup::processes);
        let mut groups: Vec<PathBuf> = memory.collect();
        groups.extend(self.throttle.iter().map(Group::processes));
        groups.dedup();
        groups
    }

    /// Writes back all dirty data, so that it is not written during a measurement; then limits the
    /// operations of the device per second, if requested.
    ///
    /// # Errors
    /// Fails if data cannot be written, or such limits are not supported.
    pub fn settle(&mut self, operations: Option<u32>) -> Result<(), String> {
        self.files.as_ref().map_or(Ok(()), FileSystem::settle)?;
        if let (None, Some(group), Some(most)) = (&self.limited, &self.throttle, operations) {
            let limited = group.limit_with_write_back(&self.device, Limit::both(most))?;
            self.limited = Some(limited);
        }
        Ok(())
    }
}

impl Drop for Bed {
    /// Kills helpers that a killed system may have left and that use its files.
    fn drop(&mut self) {
        let end = Instant::now() + GONE;
        while Instant::now() < end {
            let left = self.groups().into_iter().flat_map(members);
            let killed = left.filter_map(Pid::from_raw).map(|pid| kill_process(pid, Signal::KILL));
            if killed.count() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the processes of a group.
fn members(file: PathBuf) -> Vec<i32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Adds a note unless it is already there.
fn note(notes: &mut Vec<String>, text: &str) {
    if !notes.iter().any(|known| known == text) {
        notes.push(text.to_owned());
    }
}
