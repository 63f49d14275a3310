//! Devices limited by the kernel to a number of operations per second, by a control group (version
//! 1 `blkio`, or version 2 `io.max`) that contains the measured processes.
//!
//! The limit applies to the operations of the group's processes on a device, so the group is
//! created for them alone. If no such controller is mounted, version 1 is mounted in a temporary
//! directory. Dropping the guards undoes everything; a process that is killed leaves its empty
//! group behind. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::loop_device::LoopDevice;
use crate::memory_group::MemoryGroup;

/// Operations per second; `None` means unlimited.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Reads per second.
    pub reads: Option<u32>,
    /// Writes per second.
    pub writes: Option<u32>,
}

impl Limit {
    /// Returns a limit of `operations` reads and `operations` writes per second.
    pub fn both(operations: u32) -> Limit {
        Limit { reads: Some(operations), writes: Some(operations) }
    }

    const NONE: Limit = Limit { reads: None, writes: None };
}

/// Keeps this process in its own group, which limits a device, until dropped.
pub struct Throttle {
    // Drop order: the process leaves the group before the group is removed.
    _limited: Limited,
    _member: Member,
    _group: Group,
}

impl Throttle {
    /// Limits the operations of this process on `device`.
    ///
    /// # Errors
    ///
    /// Fails without root privileges, or if the kernel does not support such limits.
    pub fn hold(device: &LoopDevice, limit: Limit) -> Result<Throttle, String> {
        let group = Group::new()?;
        let limited = group.limit(device, limit)?;
        let member = group.join()?;
        Ok(Throttle { _limited: limited, _member: member, _group: group })
    }
}

/// A control group without processes, removed when dropped.
pub struct Group {
    directory: PathBuf,
    hierarchy: Hierarchy,
    /// True if another owner removes it.
    lent: bool,
}

impl Group {
    /// Creates an empty group without limits.
    ///
    /// # Errors
    ///
    /// Fails without root privileges, or if the kernel does not support such groups.
    pub fn new() -> Result<Group, String> {
        let hierarchy = Hierarchy::find()?;
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("larder-throttle-{}-{number}", std::process::id());
        let directory = hierarchy.root.join(name);
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Group { directory, hierarchy, lent: false })
    }

    /// Returns a group for processes whose memory is limited as well. In version 2 a process is in
    /// one group only, so this is the memory group.
    ///
    /// # Errors
    ///
    /// Fails like [`Group::new`].
    pub fn beside(memory: &MemoryGroup) -> Result<Group, String> {
        let Some(directory) = memory.of_all_controllers() else { return Group::new() };
        let hierarchy = Hierarchy::find()?;
        match hierarchy.version {
            Version::V1 => Group::new(),
            Version::V2 => Ok(Group { directory: directory.to_path_buf(), hierarchy, lent: true }),
        }
    }

    /// Returns the file to which a process ID is written to add the process to the group.
    pub fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Limits the device for each process of the group until the returned guard is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not support such limits.
    pub fn limit(&self, device: &LoopDevice, limit: Limit) -> Result<Limited, String> {
        self.limit_in(vec![self.directory.clone()], device, limit)
    }

    /// Sets a limit like [`Group::limit`] that also covers the kernel's own write-back of a file
    /// system. Version 1 attributes write-back to no process, so the root group is limited, too.
    /// # Errors
    ///
    /// Fails like [`Group::limit`].
    pub fn limit_with_write_back(
        &self,
        device: &LoopDevice,
        limit: Limit,
    ) -> Result<Limited, String> {
        let root = match self.hierarchy.version {
            Version::V1 => Some(self.hierarchy.root.clone()),
            Version::V2 => None,
        };
        let directories = [self.directory.clone()].into_iter().chain(root);
        self.limit_in(directories.collect(), device, limit)
    }

    fn limit_in(
        &self,
        directories: Vec<PathBuf>,
        device: &LoopDevice,
        limit: Limit,
    ) -> Result<Limited, String> {
        let version = self.hierarchy.version;
        let limited = Limited { directories, version, device: device.number()? };
        limited.set(limit)?;
        Ok(limited)
    }

    /// Moves this process into the group until the returned guard is dropped.
    fn join(&self) -> Result<Member, String> {
        let member = Member { home: self.hierarchy.current()? };
        write(&self.processes(), "0")?;
        Ok(member)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        // Processes that ended a moment ago may still be listed.
        let mut removed = fs::remove_dir(&self.directory);
        for _ in 0..50 {
            if removed.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
            removed = fs::remove_dir(&self.directory);
        }
        tell(removed, &self.directory);
    }
}

/// Keeps this process in a group; moves it back when dropped.
struct Member {
    /// The group that the process was in before.
    home: PathBuf,
}

impl Drop for Member {
    fn drop(&mut self) {
        tell(fs::write(self.home.join("cgroup.procs"), "0"), &self.home);
    }
}

/// A limit on a device, lifted when dropped.
pub struct Limited {
    directories: Vec<PathBuf>,
    version: Version,
    device: String,
}

impl Limited {
    fn set(&self, limit: Limit) -> Result<(), String> {
        let rules = rules(self.version, &self.device, limit);
        let of =
            |directory: &PathBuf| rules.clone().map(|(file, rule)| (directory.join(file), rule));
        let all = self.directories.iter().flat_map(of);
        // Write all of them, even if some fail.
        all.map(|(path, rule)| write(&path, &rule)).fold(Ok(()), Result::and)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Err(why) = self.set(Limit::NONE) {
            eprintln!("a limit is left behind: {why}");
        }
    }
}

/// Returns the values to write, each with its file of the group.
fn rules(version: Version, device: &str, limit: Limit) -> [(&'static str, String); 2] {
    match version {
        Version::V1 => {
            let rule = |most: Option<u32>| format!("{device} {}", most.unwrap_or(0));
            [
                ("blkio.throttle.read_iops_device", rule(limit.reads)),
                ("blkio.throttle.write_iops_device", rule(limit.writes)),
            ]
        }
        Version::V2 => {
            let rule = |name: &str, most: Option<u32>| {
                let most = most.map_or_else(|| "max".to_owned(), |most| most.to_string());
                ("io.max", format!("{device} {name}={most}"))
            };
            [rule("riops", limit.reads), rule("wiops", limit.writes)]
        }
    }
}

/// The version of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A control group hierarchy that can limit devices.
struct Hierarchy {
    version: Version,
    root: PathBuf,
    /// True if it was mounted for this purpose.
    temporary: bool,
}

impl Hierarchy {
    fn find() -> Result<Hierarchy, String> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        if let Some(root) = mounts.lines().find_map(v1_mount) {
            return Ok(Hierarchy { version: Version::V1, root, temporary: false });
        }
        if let Some(root) = mounts.lines().find_map(v2_mount)
            && read(&root.join("cgroup.controllers"))?.split_whitespace().any(|name| name == "io")
        {
            write(&root.join("cgroup.subtree_control"), "+io")?;
            return Ok(Hierarchy { version: Version::V2, root, temporary: false });
        }
        Hierarchy::mount()
    }

    fn mount() -> Result<Hierarchy, String> {
        let root = std::env::temp_dir().join(format!("larder-blkio-{}", std::process::id()));
        fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let hierarchy = Hierarchy { version: Version::V1, root, temporary: true };
        let words = ["-t", "cgroup", "-o", "blkio", "blkio"];
        match Command::new("mount").args(words).arg(&hierarchy.root).output() {
            Ok(output) if output.status.success() => Ok(hierarchy),
            failed => Err(format!("there is no throttle, nor can it be mounted: {failed:?}")),
        }
    }

    /// Returns the group that this process is in.
    fn current(&self) -> Result<PathBuf, String> {
        let groups = read(Path::new("/proc/self/cgroup"))?;
        let path = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let here = match self.version {
                Version::V1 => controllers.split(',').any(|name| name == "blkio"),
                Version::V2 => controllers.is_empty(),
            };
            here.then(|| path.trim_start_matches('/').to_owned())
        });
        path.map(|path| self.root.join(path)).ok_or_else(|| format!("in no group: {groups}"))
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        if self.temporary {
            let _ = Command::new("umount").arg(&self.root).output();
            tell(fs::remove_dir(&self.root), &self.root);
        }
    }
}

/// Returns the mount point if a line of mountinfo shows version 1 `blkio` from its root.
fn v1_mount(line: &str) -> Option<PathBuf> {
    let (point, kind, options) = mount(line)?;
    (kind == "cgroup" && options.split(',').any(|name| name == "blkio")).then(|| point.into())
}

/// Returns the mount point if a line of mountinfo shows version 2 from its root.
fn v2_mount(line: &str) -> Option<PathBuf> {
    mount(line).filter(|(_, kind, _)| *kind == "cgroup2").map(|(point, ..)| point.into())
}

/// Returns mount point, type and options if a line of mountinfo shows a file system from its root.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let (place, what) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let mut what = what.split(' ');
    let (kind, options) = (what.next()?, what.nth(1)?);
    (*place.get(3)? == "/").then_some((*place.get(4)?, kind, options))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{} ({text}): {error}", path.display()))
}

fn tell(result: std::io::Result<()>, path: &Path) {
    if let Err(error) = result {
        eprintln!("left behind: {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_block_devices_are_found_among_the_mounts() {
        let line = "31 24 0:27 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio";
        assert_eq!(v1_mount(line), Some(PathBuf::from("/sys/fs/cgroup/blkio")));
        assert_eq!(v2_mount(line), None);
        let pids = "31 24 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids";
        assert_eq!(v1_mount(pids), None);
        let part = "31 24 0:27 /part /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio";
        assert_eq!(v1_mount(part), None, "it is not shown from its root");
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!((v1_mount(v2), v2_mount(v2)), (None, Some("/sys/fs/cgroup".into())));
    }

    #[test]
    fn several_groups_are_there_at_a_time() {
        match Group::new() {
            Err(why) => eprintln!("SKIPPED: no control groups: {why}"),
            Ok(first) => assert_ne!(Group::new().unwrap().directory, first.directory),
        }
    }

    #[test]
    fn a_limit_is_set_and_lifted_in_the_words_of_each_version() {
        let words = |version, limit| rules(version, "7:0", limit).map(|(_, rule)| rule);
        let reads = Limit { reads: Some(200), writes: None };
        assert_eq!(words(Version::V1, reads), ["7:0 200", "7:0 0"]);
        assert_eq!(words(Version::V2, reads), ["7:0 riops=200", "7:0 wiops=max"]);
        assert_eq!(words(Version::V1, Limit::NONE), ["7:0 0", "7:0 0"]);
    }
}
