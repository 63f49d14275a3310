//! What a system runs on: a private loop device, with a file system on it where that is wanted, and
//! control groups. Dropped, nothing of it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::file_system::{FileSystem, Purpose};
use testbed::loop_device::{Blocks, LoopDevice};
use testbed::memory_group::MemoryGroup;
use testbed::throttle::{Group, Limit, Limited};

use super::setup::{System, Want};

/// What each system is given.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes of memory for the system and what the kernel keeps for it.
    pub memory: u64,
    /// Reads, and as many writes, that its device does a second while something is measured.
    pub operations: Option<u32>,
    /// Where the device's file is made.
    pub base: PathBuf,
    /// Its only core.
    pub core: usize,
}

/// Longest time until what was killed is gone.
const GONE: Duration = Duration::from_secs(5);

/// See the module. Its parts are dropped in this order.
pub struct Bed {
    limited: Option<Limited>,
    files: Option<FileSystem>,
    device: LoopDevice,
    throttle: Option<Group>,
    memory: Option<MemoryGroup>,
}

impl Bed {
    /// Makes it for a system.
    ///
    /// # Errors
    /// The rights or the tools for a device or a file system are missing.
    pub fn new(grant: &Grant, system: &System, notes: &mut Vec<String>) -> Result<Bed, String> {
        let name: String = system
            .name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let file = grant.base.join(format!("bench-{}-{name}", std::process::id()));
        let is_held = grant.operations.is_some();
        let (len, blocks) = match system.want() {
            Want::Device => (grant.cache, Blocks::Written),
            // Files take whole blocks, and directories and inodes besides; what is to be evicted
            // goes a little later than what comes.
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

    /// Where the system's cache is to be.
    pub fn cache(&self) -> PathBuf {
        match &self.files {
            Some(files) => files.path().join("cache"),
            None => self.device.path().to_path_buf(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Path {
        self.device.path()
    }

    /// The files of the groups that take in the system's processes.
    pub fn groups(&self) -> Vec<PathBuf> {
        let memory = self.memory.iter().map(MemoryGroup::processes);
        let mut groups: Vec<PathBuf> = memory.collect();
        groups.extend(self.throttle.iter().map(Group::processes));
        groups.dedup();
        groups
    }

    /// Writes everything back that waits in the kernel's memory, so that it is not written while
    /// something is measured; then holds the device to so many operations a second, if it is to be.
    ///
    /// # Errors
    /// Something cannot be written, or there are no such limits.
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
    /// A system that was killed may have left helpers, which use its files.
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

/// The processes of a group.
fn members(file: PathBuf) -> Vec<i32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Adds a note, once.
fn note(notes: &mut Vec<String>, text: &str) {
    if !notes.iter().any(|known| known == text) {
        notes.push(text.to_owned());
    }
}
