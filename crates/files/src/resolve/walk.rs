//! Opens a path name by name. Each directory is opened from its parent, and no call ever follows a
//! symbolic link or goes up.
//!
//! A link is read from the descriptor that was opened, and its names are walked like others. A `..`
//! in it removes the last name from the list of names passed, and that list is walked again from
//! the root. So a directory that is moved away during the walk cannot lead outside the root. Links
//! are counted as in the kernel, and names are counted too, so nested links terminate.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

use super::{Opened, TRIES, retried};
use crate::options::Symlinks;

/// Maximum number of links in one walk, as in the kernel.
const LINKS_MAX: usize = 40;

/// Maximum number of names in one walk, including those of links and those walked again.
const NAMES_MAX: usize = 4096;

/// Opens `path` below `root`, whose own path is `root_path`, with `flags`.
pub(super) fn open(
    root: BorrowedFd,
    root_path: &[u8],
    path: &[u8],
    flags: OFlags,
    symlinks: Symlinks,
) -> Opened {
    let mut crossed_link = false;
    for _ in 0..TRIES {
        let mut walk = Walk {
            root,
            root_path,
            flags,
            symlinks,
            here: None,
            passed: Vec::new(),
            ahead: names(path).collect(),
            links: 0,
            names: 0,
        };
        let result = walk.run();
        crossed_link |= walk.links > 0;
        match result {
            Ok(None) => {}
            Ok(Some(file)) => return Opened { result: Ok(file), crossed_link },
            Err(Errno::LOOP) if crossed_link && symlinks == Symlinks::Anywhere => {
                let result = retried(|| openat(root, path, flags, Mode::empty()));
                return Opened { result, crossed_link };
            }
            Err(errno) => return Opened { result: Err(errno), crossed_link },
        }
    }
    Opened { result: Err(Errno::AGAIN), crossed_link }
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    root_path: &'a [u8],
    flags: OFlags,
    symlinks: Symlinks,
    /// The directory reached so far; `None` is the root.
    here: Option<OwnedFd>,
    /// The names from the root to that directory, none of them a link.
    passed: Vec<Vec<u8>>,
    /// The names still to be walked.
    ahead: VecDeque<Vec<u8>>,
    links: usize,
    names: usize,
}

impl Walk<'_> {
    /// Walks to the end. Returns `None` if a name was changed in the meantime and the walk must
    /// restart.
    fn run(&mut self) -> Result<Option<OwnedFd>, Errno> {
        while let Some(name) = self.ahead.pop_front() {
            self.count()?;
            if name == b"." {
                continue;
            }
            if name == b".." {
                if !self.up()? {
                    return Ok(None);
                }
                continue;
            }
            let next = self.open_name(&name, OFlags::PATH | OFlags::CLOEXEC)?;
            let kind = FileType::from_raw_mode(fstat(&next)?.st_mode);
            if kind == FileType::Symlink {
                self.enter_link(&next)?;
            } else if !self.ahead.is_empty() {
                if kind != FileType::Directory {
                    return Err(Errno::NOTDIR);
                }
                self.passed.push(name);
                self.here = Some(next);
            } else if self.flags.contains(OFlags::PATH) {
                return Ok(Some(next));
            } else {
                return self.open_last(&name, kind);
            }
        }
        // The path is the root, or ends at a directory reached through a link.
        self.open_name(b".", self.flags).map(Some)
    }

    /// Opens the last name, which was not a link when it was examined.
    fn open_last(&self, name: &[u8], kind: FileType) -> Result<Option<OwnedFd>, Errno> {
        match self.open_name(name, self.flags) {
            Err(Errno::LOOP) => Ok(None),
            // `O_DIRECTORY` causes this error for a link, too.
            Err(Errno::NOTDIR) if kind == FileType::Directory => Ok(None),
            result => result.map(Some),
        }
    }

    /// Opens a name in the directory reached so far.
    fn open_name(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let here = self.here.as_ref().map_or(self.root, |here| here.as_fd());
        retried(|| openat(here, name, flags | OFlags::NOFOLLOW, Mode::empty()))
    }

    /// Puts the names of a link in front of those still to be walked.
    fn enter_link(&mut self, link: &OwnedFd) -> Result<(), Errno> {
        self.links += 1;
        if self.symlinks != Symlinks::Inside || self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(link, "", Vec::new())?.into_bytes();
        let target = if target.starts_with(b"/") {
            self.here = None;
            self.passed.clear();
            below(&target, self.root_path).ok_or(Errno::XDEV)?
        } else {
            &target
        };
        // A target with a final slash must be a directory.
        let end = target.ends_with(b"/").then(|| b".".to_vec());
        let ahead = std::mem::take(&mut self.ahead);
        self.ahead = names(target).chain(end).chain(ahead).collect();
        Ok(())
    }

    /// Goes up by one name; returns `false` if the path up to there has changed.
    fn up(&mut self) -> Result<bool, Errno> {
        self.passed.pop().ok_or(Errno::XDEV)?;
        self.here = None;
        for index in 0..self.passed.len() {
            self.count()?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match self.open_name(&self.passed[index], flags) {
                Ok(next) => self.here = Some(next),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    fn count(&mut self) -> Result<(), Errno> {
        self.names += 1;
        if self.names > NAMES_MAX { Err(Errno::LOOP) } else { Ok(()) }
    }
}

/// Returns the non-empty names of a path.
fn names(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec)
}

/// Returns the rest of an absolute path below `root`.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_below_a_root_by_whole_names() {
        for (path, root, expected) in [
            ("/srv/www/a", "/srv/www", Some("/a")),
            ("/srv/www", "/srv/www", Some("")),
            ("/srv/www2/a", "/srv/www", None),
            ("/srv", "/srv/www", None),
            ("/a", "/", Some("/a")),
            ("/", "/", Some("/")),
        ] {
            let got = below(path.as_bytes(), root.as_bytes());
            assert_eq!(got, expected.map(str::as_bytes), "{path} {root}");
        }
    }
}
