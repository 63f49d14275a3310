//! Other uses of a block device and its partitions: mounted file systems, swap, and devices built
//! on top of it (LVM, md RAID, dm-crypt).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Major and minor number, as the kernel prints them: `8:1`.
type Number = String;

/// Returns a description of how the block device with number `rdev` is used ("mounted at /srv"), or
/// `None`. If /proc or /sys is missing, fewer uses are detected; the kernel's exclusive open still
/// applies.
pub(crate) fn user_of(rdev: u64) -> Option<String> {
    let number = format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let family = family(Path::new("/sys/dev/block"), &number);
    family.iter().find_map(|(number, directory)| {
        mount_of(number, &mounts)
            .map(|place| format!("mounted at {place}"))
            .or_else(|| swap_of(number, &swaps).map(|name| format!("swap space ({name})")))
            .or_else(|| holder_of(directory).map(|name| format!("part of {name}")))
    })
}

/// Returns the device and its partitions: number and directory under /sys.
fn family(sys: &Path, number: &str) -> Vec<(Number, PathBuf)> {
    let own = sys.join(number);
    let mut family = vec![(number.to_owned(), own.clone())];
    for entry in fs::read_dir(&own).into_iter().flatten().flatten() {
        let directory = entry.path();
        if directory.join("partition").exists()
            && let Ok(dev) = fs::read_to_string(directory.join("dev"))
        {
            family.push((dev.trim().to_owned(), directory));
        }
    }
    family
}

/// Returns the mount point of the file system on `number`. Some file systems (btrfs) report a
/// different device number, so the number of the mounted source is compared too.
fn mount_of(number: &str, mountinfo: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut fields = front.split(' ').skip(2);
        let (shown, place) = (fields.next()?, fields.nth(1)?);
        let source = back.split(' ').nth(1)?;
        let same = shown == number || number_of(source).as_deref() == Some(number);
        same.then(|| unescape(place))
    })
}

/// Returns the file or device name of the swap space on `number`.
fn swap_of(number: &str, swaps: &str) -> Option<String> {
    let names = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(unescape).find(|name| number_of(name).as_deref() == Some(number))
}

fn holder_of(directory: &Path) -> Option<String> {
    let mut holders = fs::read_dir(directory.join("holders")).ok()?;
    Some(holders.next()?.ok()?.file_name().to_string_lossy().into_owned())
}

/// Returns the number of the block device at `path`.
fn number_of(path: &str) -> Option<Number> {
    if !path.starts_with('/') {
        return None;
    }
    let metadata = fs::metadata(path).ok()?;
    let is_block = metadata.mode() & 0o170_000 == 0o060_000;
    let rdev = metadata.rdev();
    is_block.then(|| format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))
}

/// Decodes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(name: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/no-such-disk rw
30 21 8:17 / /srv/my\\040data rw shared:1 master:2 - xfs /dev/no-such-partition rw
31 21 0:44 / /proc rw - proc proc rw
";

    #[test]
    fn a_mount_is_found_by_its_number() {
        assert_eq!(mount_of("254:0", MOUNTS).as_deref(), Some("/"));
        assert_eq!(mount_of("8:17", MOUNTS).as_deref(), Some("/srv/my data"));
        assert_eq!(mount_of("8:1", MOUNTS), None);
        assert_eq!(mount_of("8:17", "a line that is none\n"), None);
    }

    #[test]
    fn partitions_and_holders_are_seen() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("8:0");
        fs::create_dir_all(disk.join("sda1/holders/dm-3")).unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        fs::create_dir(disk.join("queue")).unwrap();
        let family = family(sys.path(), "8:0");
        let numbers: Vec<&str> = family.iter().map(|(number, _)| number.as_str()).collect();
        assert_eq!(numbers, ["8:0", "8:1"]);
        assert_eq!(holder_of(&family[0].1), None);
        assert_eq!(holder_of(&family[1].1).as_deref(), Some("dm-3"));
    }

    #[test]
    fn swap_names_that_are_no_devices_are_passed_over() {
        assert_eq!(swap_of("8:1", "Filename Type Size\n/no/such/file file 1 0 -2\n"), None);
    }
}
