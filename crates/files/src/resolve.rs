//! Opens one path below the root under a policy for symbolic links.
//!
//! There are two methods with the same results, and the same tests cover both: `openat2`, which
//! resolves whole paths below a directory in the kernel (Linux 5.6), and a walk name by name, for
//! kernels and sandboxes without `openat2`. The method is chosen when the root is opened.
//!
//! A first attempt that allows no symbolic links tells whether one was crossed. The kernel cannot
//! permit absolute links that lead into the root, so these are left to the walk.

mod walk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::options::Symlinks;

/// Maximum number of attempts to open a path while names on it change.
const TRIES: usize = 8;

/// The purpose for which a path is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To examine it without touching it.
    Look,
    /// To read it, without blocking on a FIFO or a device.
    Read,
    /// To read the entries of a directory.
    List,
}

impl Purpose {
    fn flags(self) -> OFlags {
        let reading = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::LARGEFILE;
        OFlags::CLOEXEC
            | match self {
                Purpose::Look => OFlags::PATH,
                Purpose::Read => reading,
                Purpose::List => reading | OFlags::DIRECTORY,
            }
    }
}

#[derive(Debug)]
pub(crate) struct Opened {
    /// The descriptor, or the error.
    pub(crate) result: Result<OwnedFd, Errno>,
    /// True if a symbolic link was encountered on the way.
    pub(crate) crossed_link: bool,
}

/// The method of opening paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// With `openat2`; `cached` tells whether the kernel supports `RESOLVE_CACHED` (Linux 5.12).
    Kernel { cached: bool },
    /// Name by name.
    Walk,
}

impl Method {
    /// Returns the best method that this kernel allows, including in a sandbox that filters calls.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be searched.
    pub(crate) fn of(directory: BorrowedFd) -> Result<Method, Errno> {
        let probe = |resolve| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat2(directory, ".", flags, Mode::empty(), ResolveFlags::BENEATH | resolve)
        };
        match probe(ResolveFlags::empty()) {
            Ok(_) => {
                let cached = matches!(probe(ResolveFlags::CACHED), Ok(_) | Err(Errno::AGAIN));
                Ok(Method::Kernel { cached })
            }
            // A sandbox may return any error for `openat2`. Use `openat`, which always exists, to
            // find out whether the directory is at fault.
            Err(_) => {
                openat(directory, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                Ok(Method::Walk)
            }
        }
    }
}

/// A root directory and the method that opens paths below it.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) directory: OwnedFd,
    /// The directory's own absolute path, for absolute links that lead into it.
    pub(crate) path: Vec<u8>,
    pub(crate) method: Method,
    pub(crate) symlinks: Symlinks,
}

impl Resolver {
    /// Opens a path below the root; the empty path is the root. The path contains no `.` and no
    /// `..`.
    pub(crate) fn open(&self, path: &[u8], purpose: Purpose) -> Opened {
        match self.method {
            Method::Kernel { .. } => self.open_by_kernel(path, purpose),
            Method::Walk => self.walk(path, purpose),
        }
    }

    /// Opens a path if that needs no disk access; fails with [`Errno::AGAIN`] otherwise. A file
    /// system mounted below the root may need access to another machine, so it is not entered.
    pub(crate) fn open_cached(&self, path: &[u8], purpose: Purpose) -> Opened {
        if self.method != (Method::Kernel { cached: true }) {
            return Opened { result: Err(Errno::AGAIN), crossed_link: false };
        }
        let also = ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let opened = self.by_policy(path, purpose, also);
        match opened.result {
            Err(Errno::XDEV) => Opened { result: Err(Errno::AGAIN), ..opened },
            _ => opened,
        }
    }

    fn open_by_kernel(&self, path: &[u8], purpose: Purpose) -> Opened {
        for _ in 0..TRIES {
            let opened = self.by_policy(path, purpose, ResolveFlags::empty());
            match opened.result {
                // A directory was moved while a link led upwards.
                Err(Errno::AGAIN) => {}
                // An absolute link, which may lead into the root.
                Err(Errno::XDEV) if self.symlinks == Symlinks::Inside => break,
                _ => return opened,
            }
        }
        self.walk(path, purpose)
    }

    /// Asks the kernel first without symbolic links, then with those that the policy allows.
    fn by_policy(&self, path: &[u8], purpose: Purpose, also: ResolveFlags) -> Opened {
        let open = |resolve| {
            let path = if path.is_empty() { b".".as_slice() } else { path };
            retried(|| {
                openat2(&self.directory, path, purpose.flags(), Mode::empty(), resolve | also)
            })
        };
        let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match open(strict) {
            Err(Errno::LOOP) => {}
            result => return Opened { result, crossed_link: false },
        }
        let result = match self.symlinks {
            Symlinks::Never => Err(Errno::LOOP),
            Symlinks::Inside => open(ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS),
            Symlinks::Anywhere => open(ResolveFlags::empty()),
        };
        Opened { result, crossed_link: true }
    }

    fn walk(&self, path: &[u8], purpose: Purpose) -> Opened {
        walk::open(self.directory.as_fd(), &self.path, path, purpose.flags(), self.symlinks)
    }
}

/// Repeats a call that a signal interrupted.
fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
