//! A device held by the kernel to so many operations a second: a control group (v1 `blkio`, or v2
//! `io.max`) with the process in it.
//!
//! The limit is on what the processes of the group ask of the device, so that it is a group made
//! for this process alone. Where no such controller is mounted, v1 `blkio` is mounted in a
//! temporary directory. Everything is taken back when the throttle is dropped; a process that is
//! killed leaves its group, empty. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::loop_device::LoopDevice;

/// Operations a second; `None`: as many as there are.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub reads: Option<u32>,
    pub writes: Option<u32>,
}

/// The device is held until this is dropped.
pub struct Throttle {
    group: Group,
    _hierarchy: Hierarchy,
}

impl Throttle {
    /// Holds `device` to `limit` for what this process asks of it.
    pub fn hold(device: &LoopDevice, limit: Limit) -> Result<Throttle, String> {
        let numbers = device.numbers()?;
        let hierarchy = Hierarchy::find()?;
        let group = Group::make(&hierarchy)?;
        for (file, rule) in hierarchy.rules(&numbers, limit) {
            write(&group.directory.join(file), &rule)?;
        }
        group.join()?;
        Ok(Throttle { group, _hierarchy: hierarchy })
    }

    /// Where its rules are.
    pub fn directory(&self) -> &Path {
        &self.group.directory
    }
}

/// Which controller there is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Control groups that can hold a device.
struct Hierarchy {
    version: Version,
    root: PathBuf,
    /// Whether it was mounted for this.
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

    /// The group that this process is in.
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

    /// What to write to which file of a group.
    fn rules(&self, numbers: &str, limit: Limit) -> Vec<(&'static str, String)> {
        let both = match self.version {
            Version::V1 => [
                ("blkio.throttle.read_iops_device", "", limit.reads),
                ("blkio.throttle.write_iops_device", "", limit.writes),
            ],
            Version::V2 => [("io.max", "riops=", limit.reads), ("io.max", "wiops=", limit.writes)],
        };
        let rule = |(file, name, limit): (_, &str, Option<u32>)| {
            limit.map(|limit| (file, format!("{numbers} {name}{limit}")))
        };
        both.into_iter().filter_map(rule).collect()
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

/// A control group, removed when it is dropped.
struct Group {
    directory: PathBuf,
    /// Where the process was before.
    home: PathBuf,
}

impl Group {
    fn make(hierarchy: &Hierarchy) -> Result<Group, String> {
        let home = hierarchy.current()?;
        let directory = hierarchy.root.join(format!("larder-throttle-{}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Group { directory, home })
    }

    /// Moves this process into it.
    fn join(&self) -> Result<(), String> {
        write(&self.directory.join("cgroup.procs"), "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        tell(fs::write(self.home.join("cgroup.procs"), "0"), &self.home);
        // What ended in it a moment ago may still be there.
        let mut removed = fs::remove_dir(&self.directory);
        for _ in 0..20 {
            if removed.is_ok() {
                return;
            }
            // No task of the engine's runs while the guard goes.
            std::thread::sleep(Duration::from_millis(50));
            removed = fs::remove_dir(&self.directory);
        }
        tell(removed, &self.directory);
    }
}

/// The mount point of a line of mountinfo that shows v1 `blkio` whole.
fn v1_mount(line: &str) -> Option<PathBuf> {
    let (point, kind, options) = mount(line)?;
    (kind == "cgroup" && options.split(',').any(|name| name == "blkio")).then(|| point.into())
}

/// The same of v2.
fn v2_mount(line: &str) -> Option<PathBuf> {
    mount(line).filter(|(_, kind, _)| *kind == "cgroup2").map(|(point, ..)| point.into())
}

/// Mount point, type and options of a line of mountinfo that shows a file system from its root.
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
