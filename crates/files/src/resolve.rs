//! Opening one path below the root, under a policy of symbolic links.
//!
//! Two ways lead to the same answers, and the same tests run over both: `openat2`, which resolves
//! whole paths below a directory in the kernel (Linux 5.6), and a walk name by name, for kernels
//! and sandboxes that have no `openat2`. Which one is decided when the root is opened.
//!
//! A first try without any symbolic link tells whether one was crossed. The kernel has no way to
//! let absolute links in that lead into the root: for these, the walk takes over.

mod walk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::options::Symlinks;

/// How often the kernel is asked again after names were changed under its hands.
const TRIES: usize = 8;

/// What a path is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Asking what it is, without touching it.
    Look,
    /// Reading it. A FIFO or a device does not make this wait.
    Read,
    /// Reading the entries of a directory.
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

/// What came of opening a path.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The descriptor, or why there is none.
    pub(crate) result: Result<OwnedFd, Errno>,
    /// A symbolic link was met on the way.
    pub(crate) crossed_link: bool,
}

/// How paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// By `openat2`; `cached` says whether the kernel knows `RESOLVE_CACHED` (Linux 5.12).
    Kernel { cached: bool },
    /// Name by name.
    Walk,
}

impl Method {
    /// Returns the best way that this kernel allows, also inside a sandbox that filters calls.
    ///
    /// # Errors
    ///
    /// When the directory cannot be searched.
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
            // What a sandbox answers depends on who wrote it; whether the directory is at fault is
            // told by the call that has always been there.
            Err(_) => {
                openat(directory, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                Ok(Method::Walk)
            }
        }
    }
}

/// A root directory and the way in which paths below it are opened.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) directory: OwnedFd,
    /// The directory's own absolute path, for absolute links that lead into it.
    pub(crate) path: Vec<u8>,
    pub(crate) method: Method,
    pub(crate) symlinks: Symlinks,
}

impl Resolver {
    /// Opens a path below the root; the empty one is the root. The path has no `.` and no `..`.
    pub(crate) fn open(&self, path: &[u8], purpose: Purpose) -> Opened {
        match self.method {
            Method::Kernel { .. } => self.open_by_kernel(path, purpose),
            Method::Walk => self.walk(path, purpose),
        }
    }

    /// Opens a path if that needs no disk; [`Errno::AGAIN`] otherwise. What lies on a file system
    /// that is mounted below the root may need another machine.
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
                // An absolute link, maybe into the root.
                Err(Errno::XDEV) if self.symlinks == Symlinks::Inside => break,
                _ => return opened,
            }
        }
        self.walk(path, purpose)
    }

    /// Asks the kernel without symbolic links, then with those that the policy allows.
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

/// Calls again what a signal interrupted.
fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
