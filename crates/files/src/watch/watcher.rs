//! Watches directories for changes with inotify(7), and issues stamps by which a caller learns
//! whether an earlier lookup may be out of date.
//!
//! A caller takes a [`Stamp`] of the directories that a lookup consults, then does the lookup, and
//! keeps the result with the stamp. The result is current as long as [`Watcher::holds`] returns
//! true. The kernel's queue is read first, so a request sees every change made before it arrived.
//!
//! Changes that the kernel does not report are bounded by time. This concerns file systems that
//! other machines change (NFS and the like), directories with a file over which another one is
//! mounted, and directories beyond the limit of watches. A stamp of such a directory holds for the
//! interval of checks.
//!
//! Mounts over directories are reported separately: only [`Watcher::wait`] detects them, not each
//! request.
//!
//! Two kinds of writes are not reported at all: writes through a shared mapping until its file is
//! closed, and writes through a name elsewhere that the file got after it was looked up.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{ffi::OsStr, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::directories::{Directories, Effect, Event, Number};
use super::mounts::{Mount, MountTable};

/// Bits of a stamp that hold a change number or a time in milliseconds.
const AT_BITS: u32 = 40;
const AT_MASK: u64 = (1 << AT_BITS) - 1;

/// The place in a stamp that depends on more than one directory.
const ANYWHERE: u64 = (1 << 24) - 2;
/// The place in a stamp that holds for a fixed time.
const TIMED: u64 = (1 << 24) - 1;
/// Maximum number of watched directories.
pub const MOST_DIRECTORIES: usize = (1 << 24) - 2;

/// Maximum number of attempts to watch a directory while others are being moved.
const TRIES: usize = 4;

/// Why a directory is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwatched {
    Missing,
    /// A limit is reached, the directory may not be opened, or the kernel does not report its
    /// changes.
    Refused,
    /// Directories were moved in the meantime.
    Overtaken,
    /// A disk access would be needed, which is not allowed.
    NotCached,
}

/// A stamp would need a disk access, which is not allowed.
struct NotCached;

/// A point in a directory's history, in one word. Zero is no stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    pub(super) fn of(place: u64, at: u64) -> Stamp {
        Stamp((place << AT_BITS) | (at & AT_MASK))
    }

    fn place(self) -> u64 {
        self.0 >> AT_BITS
    }

    /// Returns whether the stamp holds for a fixed time rather than until a change.
    pub fn is_timed(self) -> bool {
        self.place() == TIMED
    }

    fn at(self) -> u64 {
        self.0 & AT_MASK
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn from_word(word: u64) -> Stamp {
        Stamp(word)
    }

    pub(super) fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Counters of a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchStats {
    /// Number of watched directories.
    pub watches: usize,
    /// Number of events read.
    pub events: u64,
    /// Number of times that the kernel's queue overflowed and lost events; everything was checked
    /// again.
    pub overflows: u64,
    /// Number of directories left unwatched because the limit of watches was reached.
    pub refusals: u64,
}

/// The limits of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Maximum number of watched directories; 0: watch none.
    pub most: usize,
    /// The time for which a stamp of an unwatched directory holds.
    pub interval: Duration,
}

struct State {
    directories: Directories,
    buffer: Vec<MaybeUninit<u8>>,
    stats: WatchStats,
    /// Refusals since the last reset.
    refused: usize,
    mounts: BTreeSet<Mount>,
    /// The directories that contain files over which others are mounted.
    with_mounted_files: BTreeSet<Vec<u8>>,
}

/// The mounts below the root, read by [`Watcher::wait`].
struct Mounts {
    table: Mutex<MountTable>,
    /// The path of the root, without symbolic links.
    root: PathBuf,
    /// True if the last read of the table failed.
    unread: AtomicBool,
}

/// A watcher of the directories below one root.
pub struct Watcher {
    queue: Option<OwnedFd>,
    mounts: Option<Mounts>,
    interval: u64,
    /// The number of the last change. Changes that are read together share a number.
    changes: AtomicU64,
    /// The number of the last change that affected everything.
    everywhere: AtomicU64,
    /// The number of the last change in each directory, by directory number.
    last: Box<[AtomicU64]>,
    /// True if events were taken out of the queue but not applied yet.
    reading: AtomicBool,
    state: Mutex<State>,
}

impl Watcher {
    /// Creates a watcher for the directories below the root with this path.
    ///
    /// # Errors
    /// Fails if the system has no inotify instance left (`fs.inotify.max_user_instances`), or does
    /// not report the mounts.
    pub fn new(root: &Path, options: WatchOptions) -> io::Result<Watcher> {
        let most = options.most.min(MOST_DIRECTORIES);
        let (queue, mounts) = match most {
            0 => (None, None),
            _ => {
                let table = Mutex::new(MountTable::open()?);
                let unread = AtomicBool::new(false);
                let mounts = Mounts { table, root: root.canonicalize()?, unread };
                let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
                (Some(queue), Some(mounts))
            }
        };
        let state = State {
            directories: Directories::new(most),
            buffer: vec![MaybeUninit::uninit(); 16 << 10],
            stats: WatchStats::default(),
            refused: 0,
            mounts: BTreeSet::new(),
            with_mounted_files: BTreeSet::new(),
        };
        let watcher = Watcher {
            queue,
            mounts,
            interval: options.interval.as_millis() as u64,
            // Changes are numbered from 1, so that no stamp is zero.
            changes: AtomicU64::new(1),
            everywhere: AtomicU64::new(0),
            last: (0..most).map(|_| AtomicU64::new(0)).collect(),
            reading: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        watcher.read_mounts()?;
        Ok(watcher)
    }

    /// Returns a stamp for lookups in `directories` from now on: paths below `root` without a slash
    /// at either end; the root itself is empty. `now` is in milliseconds of any monotonic clock.
    /// Returns a stamp that never holds if directories are moved faster than they can be watched.
    pub fn stamp(&self, root: BorrowedFd<'_>, directories: &[&[u8]], now: u64) -> Stamp {
        // Without the restriction to cached directories a stamp is always available.
        self.stamp_by(root, directories, now, ResolveFlags::empty()).unwrap_or_default()
    }

    fn stamp_by(
        &self,
        root: BorrowedFd<'_>,
        directories: &[&[u8]],
        now: u64,
        also: ResolveFlags,
    ) -> Result<Stamp, NotCached> {
        let at = self.changes.load(Ordering::SeqCst);
        let mut place = None;
        for directory in directories {
            let number = match self.number(root, directory, also) {
                Ok(number) => number,
                Err(Unwatched::Overtaken) => return Ok(Stamp::default()),
                Err(Unwatched::NotCached) => return Err(NotCached),
                Err(Unwatched::Missing | Unwatched::Refused) => return Ok(Stamp::of(TIMED, now)),
            };
            let number = u64::from(number);
            place = match place {
                Some(other) if other != number => Some(ANYWHERE),
                _ => Some(number),
            };
        }
        Ok(place.map_or(Stamp::of(TIMED, now), |place| Stamp::of(place, at)))
    }

    /// Returns a stamp like [`Watcher::stamp`] if that needs no disk access; `None` otherwise.
    pub fn stamp_cached(
        &self,
        root: BorrowedFd<'_>,
        directories: &[&[u8]],
        now: u64,
    ) -> Option<Stamp> {
        self.stamp_by(root, directories, now, ResolveFlags::CACHED | ResolveFlags::NO_XDEV).ok()
    }

    /// Returns a stamp for lookups in a directory from now on, if it is already watched.
    pub fn stamp_of_watched(&self, directory: &[u8]) -> Option<Stamp> {
        let at = self.changes.load(Ordering::SeqCst);
        let number = self.lock().directories.number(directory)?;
        Some(Stamp::of(number.into(), at))
    }

    /// Returns whether nothing that the stamp covers has changed since, as far as the kernel
    /// reports it; a timed stamp holds for the interval of checks.
    pub fn holds(&self, stamp: Stamp, now: u64) -> bool {
        if !stamp.is_some() {
            return false;
        }
        if stamp.place() == TIMED {
            return (now & AT_MASK).checked_sub(stamp.at()).is_some_and(|age| age < self.interval);
        }
        self.read_if_any();
        let at = stamp.at();
        if stamp.place() == ANYWHERE {
            return self.changes.load(Ordering::SeqCst) <= at;
        }
        let last = self.last.get(stamp.place() as usize);
        self.everywhere.load(Ordering::SeqCst) <= at
            && last.is_some_and(|last| last.load(Ordering::SeqCst) <= at)
    }

    /// Stops watching all directories and invalidates every stamp of one.
    pub fn reset(&self) {
        self.reset_locked(&mut self.lock());
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> WatchStats {
        let state = self.lock();
        WatchStats { watches: state.directories.len(), ..state.stats }
    }

    /// Waits for events for at most `time` and reads them, so that the kernel's queue does not
    /// overflow while there are no requests. Also reads the mounts if they have changed.
    pub fn wait(&self, time: Duration) {
        let (Some(queue), Some(mounts)) = (&self.queue, &self.mounts) else {
            return std::thread::sleep(time);
        };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let is_changed = {
            let table = mounts.table.lock().unwrap_or_else(PoisonError::into_inner);
            let mut both =
                [PollFd::new(queue, PollFlags::IN), PollFd::new(&*table, PollFlags::PRI)];
            // A failure only causes a spurious wake-up.
            let _ = poll(&mut both, Some(&time));
            !both[1].revents().is_empty()
        };
        self.read_if_any();
        if is_changed || mounts.unread.load(Ordering::SeqCst) {
            let read = self.read_mounts();
            // Until the mounts are known, everything is looked up again.
            mounts.unread.store(read.is_err(), Ordering::SeqCst);
            read.unwrap_or_else(|_| self.reset());
        }
    }

    /// Reads the mounts below the root. If they have changed, all directories are forgotten.
    fn read_mounts(&self) -> io::Result<()> {
        let Some(Mounts { table, root, .. }) = &self.mounts else { return Ok(()) };
        let mounts = table.lock().unwrap_or_else(PoisonError::into_inner).below(root)?;
        if self.lock().mounts == mounts {
            return Ok(());
        }
        // May wait for a disk, so it is not done under the lock.
        let of_files = mounts.iter().filter(|mount| !is_directory(root, &mount.place));
        let with_mounted_files = of_files.map(|mount| parent(&mount.place)).collect();
        let mut state = self.lock();
        (state.mounts, state.with_mounted_files) = (mounts, with_mounted_files);
        self.reset_locked(&mut state);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a directory, which is watched from now on together with all
    /// directories above it. If it does not exist, returns the number of the last existing
    /// directory on its path, in which it would appear.
    fn number(
        &self,
        root: BorrowedFd<'_>,
        directory: &[u8],
        also: ResolveFlags,
    ) -> Result<Number, Unwatched> {
        let queue = self.queue.as_ref().ok_or(Unwatched::Refused)?;
        for _ in 0..TRIES {
            let since = {
                let state = self.lock();
                if let Some(number) = state.directories.number(directory) {
                    return Ok(number);
                }
                self.everywhere.load(Ordering::SeqCst)
            };
            match self.watch_all(queue, (root, also), directory, since) {
                Err(Unwatched::Overtaken) => {}
                ended => return ended,
            }
        }
        Err(Unwatched::Overtaken)
    }

    /// Watches a directory and all directories above it, from the root down, so that every move
    /// after its parent is watched is seen.
    fn watch_all(
        &self,
        queue: &OwnedFd,
        root: (BorrowedFd<'_>, ResolveFlags),
        directory: &[u8],
        since: u64,
    ) -> Result<Number, Unwatched> {
        let mut number = self.watch(queue, root, b"", since)?;
        let slashes = directory.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends = slashes.map(|(end, _)| end).chain([directory.len()]);
        for end in ends.filter(|end| *end > 0) {
            match self.watch(queue, root, &directory[..end], since) {
                Err(Unwatched::Missing) => return Ok(number),
                watched => number = watched?,
            }
        }
        Ok(number)
    }

    /// Watches one directory, unless everything was forgotten after the change `since`. In that
    /// case the directories above it may no longer be watched, and its path may lead to another
    /// directory.
    fn watch(
        &self,
        queue: &OwnedFd,
        (root, also): (BorrowedFd<'_>, ResolveFlags),
        directory: &[u8],
        since: u64,
    ) -> Result<Number, Unwatched> {
        let still = || match self.everywhere.load(Ordering::SeqCst) == since {
            true => Ok(()),
            false => Err(Unwatched::Overtaken),
        };
        {
            let mut state = self.lock();
            still()?;
            if let Some(number) = state.directories.number(directory) {
                return Ok(number);
            }
            if state.with_mounted_files.contains(directory) {
                return Err(Unwatched::Refused);
            }
            if state.directories.is_full() {
                self.refuse(&mut state);
                return Err(Unwatched::Refused);
            }
        }
        // Opening may wait for a disk, so it is not done under the lock.
        let opened = open_directory(root, directory, also).map_err(|error| match error {
            Errno::AGAIN | Errno::XDEV if !also.is_empty() => Unwatched::NotCached,
            Errno::NOENT | Errno::NOTDIR => Unwatched::Missing,
            _ => Unwatched::Refused,
        })?;
        // The directory may be on another file system.
        if !reports_changes(opened.as_fd()) {
            return Err(Unwatched::Refused);
        }
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        let mut state = self.lock();
        still()?;
        match inotify::add_watch(queue, path, flags) {
            Ok(watch) => state.directories.add(directory, watch).ok_or(Unwatched::Refused),
            Err(error) => {
                if error == Errno::NOSPC {
                    self.refuse(&mut state);
                }
                Err(Unwatched::Refused)
            }
        }
    }

    /// Counts a refusal. Once there were more refusals than there are watches, drops all watches,
    /// so that the directories in use now get them.
    fn refuse(&self, state: &mut State) {
        state.stats.refusals += 1;
        state.refused += 1;
        if state.refused > state.directories.len() {
            self.reset_locked(state);
        }
    }

    fn reset_locked(&self, state: &mut State) {
        let change = self.changes.load(Ordering::SeqCst) + 1;
        self.everywhere.store(change, Ordering::SeqCst);
        self.changes.store(change, Ordering::SeqCst);
        state.refused = 0;
        let State { directories, buffer, .. } = state;
        let Some(queue) = &self.queue else { return };
        for watch in directories.clear() {
            // The kernel has removed the watch if its directory is gone.
            let _ = inotify::remove_watch(queue, watch);
        }
        // The kernel reports each removal, and many removals overflow its queue. All other events
        // in it concern watches that are gone, so discard everything.
        let mut reader = inotify::Reader::new(queue, buffer);
        while reader.next().is_ok() {}
    }

    /// Reads the kernel's queue, unless it is empty and everything read from it has been applied.
    fn read_if_any(&self) {
        let Some(queue) = &self.queue else { return };
        // The order matters: events leave the queue only while `reading` is set.
        let any = rustix::io::ioctl_fionread(queue).map_or(true, |bytes| bytes > 0);
        if any || self.reading.load(Ordering::SeqCst) {
            self.read(queue);
        }
    }

    fn read(&self, queue: &OwnedFd) {
        let mut state = self.lock();
        let State { directories, buffer, stats, .. } = &mut *state;
        self.reading.store(true, Ordering::SeqCst);
        // Published once everything is applied: stamps taken in the meantime have an older number.
        let change = self.changes.load(Ordering::SeqCst) + 1;
        let (mut any, mut everywhere) = (false, false);
        let mut reader = inotify::Reader::new(queue, buffer);
        while let Ok(raw) = reader.next() {
            stats.events += 1;
            any = true;
            if raw.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                stats.overflows += 1;
                everywhere = true;
                continue;
            }
            match directories.apply(event_of(&raw)) {
                Effect::None => {}
                Effect::Everywhere => everywhere = true,
                Effect::In(numbers) => {
                    for number in numbers {
                        self.last[number as usize].store(change, Ordering::SeqCst);
                    }
                }
            }
        }
        match everywhere {
            true => self.reset_locked(&mut state),
            false if any => self.changes.store(change, Ordering::SeqCst),
            false => {}
        }
        self.reading.store(false, Ordering::SeqCst);
    }
}

fn event_of(raw: &inotify::Event<'_>) -> Event {
    let flags = raw.events();
    let moved = ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
    let changed = moved | ReadFlags::ATTRIB | ReadFlags::DELETE;
    Event {
        watch: raw.wd(),
        of_directory: flags.contains(ReadFlags::ISDIR),
        moved_changed_or_removed: flags.intersects(changed),
        moved_itself: flags.contains(ReadFlags::MOVE_SELF),
        gone: flags.contains(ReadFlags::IGNORED),
    }
}

/// Returns whether a mount point is a directory, not a file. Does not query a server that may hang.
fn is_directory(root: &Path, place: &[u8]) -> bool {
    let path = root.join(OsStr::from_bytes(place));
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    // Treat a mount point that cannot be examined as a file, so that its directory is not watched.
    statx(CWD, path, flags, StatxFlags::TYPE)
        .is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory)
}

/// Returns the path of the parent directory.
fn parent(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path[..end].to_vec()
}

/// Opens a directory below the root without following links.
fn open_directory(
    root: BorrowedFd<'_>,
    directory: &[u8],
    also: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    if directory.is_empty() {
        return rustix::io::fcntl_dupfd_cloexec(root, 0);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | also;
    let path = OsStr::from_bytes(directory);
    match rustix::fs::openat2(root, path, flags, Mode::empty(), within) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) if !also.is_empty() => Err(Errno::AGAIN),
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut at = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
            for name in directory.split(|byte| *byte == b'/') {
                let name = OsStr::from_bytes(name);
                let flags = flags | OFlags::NOFOLLOW;
                at = rustix::fs::openat(at.as_fd(), name, flags, Mode::empty())?;
            }
            Ok(at)
        }
        opened => opened,
    }
}

/// Returns whether the kernel reports all changes on the file system of a directory. It does not if
/// other machines or programs can change files without its knowledge.
pub fn reports_changes(directory: BorrowedFd<'_>) -> bool {
    // NFS, SMB (three), FUSE and virtiofs, 9P, Ceph, AFS (two), Coda, OCFS2, GFS2, Lustre.
    const ELSEWHERE: [u32; 13] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x6b41_4653,
        0x7375_7245,
        0x7461_636f,
        0x0116_1970,
        0x0bd0_0bd0,
    ];
    rustix::fs::fstatfs(directory).is_ok_and(|stat| !ELSEWHERE.contains(&(stat.f_type as u32)))
}
