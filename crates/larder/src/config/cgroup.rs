//! The memory limit of this process's control groups, versions 1 and 2.
//!
//! A group is limited by its own limit and by those of all groups above it. In a container only
//! some of these are visible; version 1 reports the limit of the hidden ones as
//! `hierarchical_memory_limit`.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits from this value on mean "unlimited": version 1 reports the largest page-aligned number.
const UNLIMITED: u64 = 1 << 62;

/// Returns the smallest memory limit in bytes that applies to this process; `None` if there is
/// none.
pub fn memory_limit() -> Option<u64> {
    smallest_limit(|path| fs::read_to_string(path).ok())
}

/// Mount of a cgroup hierarchy that can limit memory.
struct Hierarchy<'a> {
    is_v2: bool,
    /// The group that is visible at the mount point.
    root: &'a str,
    mount_point: &'a str,
}

/// Returns the smallest limit; `read` returns the contents of a file.
fn smallest_limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let hierarchies = mounts.lines().filter_map(hierarchy);
    let directories = hierarchies.flat_map(|hierarchy| {
        let group = group_of(&groups, hierarchy.is_v2).unwrap_or("/");
        let directories = directories(&hierarchy, group);
        directories.into_iter().map(move |directory| (hierarchy.is_v2, directory))
    });
    let limits = directories.flat_map(|(is_v2, directory)| {
        let number = |name: &str| read(&directory.join(name))?.trim().parse::<u64>().ok();
        if is_v2 {
            return [number("memory.max"), None];
        }
        let stat = read(&directory.join("memory.stat"));
        let inherited = stat.as_deref().and_then(|text| {
            let mut lines = text.lines();
            let value = lines.find_map(|l| l.strip_prefix("hierarchical_memory_limit "))?;
            value.trim().parse::<u64>().ok()
        });
        [number("memory.limit_in_bytes"), inherited]
    });
    limits.flatten().filter(|limit| *limit < UNLIMITED).min()
}

/// Parses a line of `/proc/self/mountinfo`; returns `None` for other file systems.
fn hierarchy(line: &str) -> Option<Hierarchy<'_>> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, mount_point) = (front.next()?, front.next()?);
    let mut back = back.split(' ');
    let is_v2 = match back.next()? {
        "cgroup2" => true,
        "cgroup" if back.nth(1)?.split(',').any(|option| option == "memory") => false,
        _ => return None,
    };
    Some(Hierarchy { is_v2, root, mount_point })
}

/// Returns the path of this process's group, from the text of `/proc/self/cgroup`.
fn group_of(groups: &str, is_v2: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match is_v2 {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller == "memory"),
        };
        is_it.then_some(path)
    })
}

/// Returns the directories of `group` and of all visible groups above it. If the group is not below
/// the mounted one, it is not visible, and only the mount point is returned.
fn directories(hierarchy: &Hierarchy<'_>, group: &str) -> Vec<PathBuf> {
    let mount_point = Path::new(hierarchy.mount_point);
    let below = Path::new(group).strip_prefix(hierarchy.root).unwrap_or(Path::new(""));
    let is_visible = below.components().all(|part| part.as_os_str() != "..");
    let below = if is_visible { below } else { Path::new("") };
    below.ancestors().map(|path| mount_point.join(path)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const M: u64 = 1 << 20;
    const MAX: &str = "9223372036854771712\n";

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let files: BTreeMap<&Path, &str> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        smallest_limit(|path| files.get(path).map(|text| (*text).to_owned()))
    }

    const V1: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

    #[test]
    fn the_smallest_limit_of_nested_groups_of_version_1_counts() {
        let base = [
            ("/proc/self/cgroup", "5:cpu:/\n4:memory:/a/b\n0::/\n"),
            ("/proc/self/mountinfo", V1),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", MAX),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", MAX),
        ];
        let with = |more: &[(&str, &str)]| limit(&[&base[..], more].concat());
        assert_eq!(with(&[]), None);
        let upper = ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "100663296\n");
        assert_eq!(with(&[upper]), Some(96 * M));
        let hidden = "cache 0\nhierarchical_memory_limit 67108864\ntotal_cache 0\n";
        let hidden = ("/sys/fs/cgroup/memory/a/b/memory.stat", hidden);
        assert_eq!(with(&[upper, hidden]), Some(64 * M));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        let mounts = "9 8 0:26 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let at = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        for group in ["/docker/x", "/", "/../other"] {
            let groups = format!("7:hugetlb,memory:{group}\n");
            let files =
                [("/proc/self/cgroup", &*groups), ("/proc/self/mountinfo", mounts), (at, "4096")];
            assert_eq!(limit(&files), Some(4096), "{group}");
        }
    }

    #[test]
    fn version_2_counts_wherever_it_is_mounted() {
        let unified = "40 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let mounts = format!("{V1}{unified}");
        let files = [
            ("/proc/self/cgroup", "4:memory:/\n0::/a/b\n"),
            ("/proc/self/mountinfo", &*mounts),
            ("/sys/fs/cgroup/unified/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/unified/a/memory.max", "1048576\n"),
        ];
        assert_eq!(limit(&files), Some(M));
        assert_eq!(limit(&[]), None);
    }
}
