//! The mounts below a directory, read from /proc/self/mountinfo (proc_pid_mountinfo(5)).
//!
//! Mounting a file system over a directory, or unmounting it, changes what paths lead to, and no
//! watch of a directory reports it; the kernel reports it through this file. Changes of a single
//! file that is mounted over another one are reported in its original directory, not at the mount
//! point.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mount {
    number: Vec<u8>,
    /// The path of the mount point below the directory.
    pub place: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct MountTable(File);

impl MountTable {
    /// Opens the mount table of this process.
    pub fn open() -> io::Result<MountTable> {
        File::open("/proc/self/mountinfo").map(MountTable)
    }

    /// Reads the mounts below a directory, whose path must be absolute and free of links.
    pub fn below(&mut self, directory: &Path) -> io::Result<BTreeSet<Mount>> {
        let mut text = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut text)?;
        Ok(below(&text, directory.as_os_str().as_bytes()))
    }
}

impl AsFd for MountTable {
    /// Returns the descriptor that polls ready for exceptional events (`POLLPRI`) after a change.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn below(text: &[u8], directory: &[u8]) -> BTreeSet<Mount> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let number = fields.next()?.to_vec();
        let place = unescaped(fields.nth(3)?);
        let place = place.strip_prefix(directory)?.strip_prefix(b"/")?.to_vec();
        (!place.is_empty()).then_some(Mount { number, place })
    };
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Decodes bytes written as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_found_by_whole_names() {
        let text = b"22 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda rw\n\
            30 22 0:5 / /srv/www rw - tmpfs tmpfs rw\n\
            31 30 0:6 / /srv/www/a\\040b rw - tmpfs tmpfs rw\n\
            32 22 0:7 /x /srv/www2/c rw - ext4 /dev/sda rw\n\
            33 30 0:8 /y /srv/www/d/e\\134 rw - ext4 /dev/sda rw\n";
        let found = |directory: &str| {
            let mounts = below(text, directory.as_bytes()).into_iter();
            mounts.map(|mount| String::from_utf8(mount.place).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(found("/srv/www"), ["a b", "d/e\\"]);
        assert_eq!(found("/srv/www2"), ["c"]);
        assert_eq!(found("/srv/none"), [""; 0]);
        assert_eq!(found("/").len(), 4);
    }

    #[test]
    fn the_table_of_this_process_can_be_read() {
        let mut table = MountTable::open().unwrap();
        assert!(!table.below(Path::new("/")).unwrap().is_empty());
    }
}
