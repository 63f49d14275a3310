//! A control group (version 1, blkio) whose processes a device serves with so many operations a
//! second.
//!
//! What the kernel writes back on a file system's behalf is nobody's process: the root of the
//! groups is held to the same, each for itself. Dropped, the limits are lifted and the group is
//! removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::workspace;

/// The kernel's files for what a device may do.
const LIMITS: [&str; 2] = ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"];
/// How often the removal of a group is tried, whose processes have just ended.
const REMOVALS: u32 = 50;

/// See the module.
pub struct Group {
    root: PathBuf,
    own: PathBuf,
    /// Where the groups were mounted for this.
    mounted: Option<TempDir>,
}

impl Group {
    /// An empty group without limits.
    ///
    /// # Errors
    ///
    /// Without the rights of root, or where the kernel has no such groups.
    pub fn new() -> Result<Group, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let (root, mounted) = match mounted_at(&mounts) {
            Some(root) => (root, None),
            None => {
                let directory = mount()?;
                (directory.path().to_path_buf(), Some(directory))
            }
        };
        let own = root.join(format!("larder-bench-{}", std::process::id()));
        let group = Group { root, own, mounted };
        fs::create_dir(&group.own).map_err(|e| format!("{}: {e}", group.own.display()))?;
        Ok(group)
    }

    /// The file that takes in the number of a process.
    pub fn processes(&self) -> PathBuf {
        self.own.join("cgroup.procs")
    }

    /// Holds the device with this number to so many reads and so many writes a second, from now
    /// until the limit is dropped.
    ///
    /// # Errors
    ///
    /// When the kernel does not know such limits.
    pub fn limit(&self, device: &str, operations: u64) -> Result<Limit, String> {
        let directories = [&self.own, &self.root].into_iter();
        let files = directories.flat_map(|d| LIMITS.map(|name| d.join(name))).collect();
        let limit = Limit { files, device: device.to_owned() };
        limit.set(operations)?;
        Ok(limit)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut removed = fs::remove_dir(&self.own);
        for _ in 0..REMOVALS {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            removed = fs::remove_dir(&self.own);
        }
        if let Err(why) = removed {
            eprintln!("{} is left behind: {why}", self.own.display());
        }
        if let Some(directory) = &self.mounted {
            let mut unmount = Command::new("umount");
            unmount.arg(directory.path());
            if let Err(why) = workspace::succeed(unmount) {
                eprintln!("{} is left behind: {why}", directory.path().display());
            }
        }
    }
}

/// What a device may do. Dropped, it may do everything.
pub struct Limit {
    files: Vec<PathBuf>,
    device: String,
}

impl Limit {
    fn set(&self, operations: u64) -> Result<(), String> {
        let set = |file: &PathBuf| {
            fs::write(file, format!("{} {operations}", self.device))
                .map_err(|e| format!("{}: {e}", file.display()))
        };
        // Each of them, whatever becomes of the others.
        self.files.iter().map(set).fold(Ok(()), Result::and)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Err(why) = self.set(0) {
            eprintln!("a limit is left behind: {why}");
        }
    }
}

/// Where the groups for block devices are mounted.
fn mounted_at(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, at, "cgroup", options, ..] = fields[..] else { return None };
        options.split(',').any(|option| option == "blkio").then(|| Path::new(at).to_path_buf())
    })
}

fn mount() -> Result<TempDir, String> {
    let directory = TempDir::new().map_err(|e| format!("a temporary directory: {e}"))?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "cgroup", "-o", "blkio", "cgroup"]).arg(directory.path());
    workspace::succeed(mount)
        .map_err(|why| format!("no control groups of version 1 for block devices: {why}"))?;
    Ok(directory)
}

#[test]
fn the_groups_of_block_devices_are_found_among_the_mounts() {
    let mounts = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
        cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n";
    assert_eq!(mounted_at(mounts), Some(PathBuf::from("/sys/fs/cgroup/blkio")));
    assert_eq!(mounted_at("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), None);
}
