//! Watching directories for changes by inotify(7), and stamps by which a caller learns whether
//! something that it looked up may have changed since.
//!
//! A caller takes a [`Stamp`] of the directories that a look-up consults, then looks, and keeps the
//! result beside the stamp. While [`Watcher::holds`] says so, the result is current. The kernel's
//! queue is read first, so a change that was made before a request came is seen by that request.
//!
//! What the kernel does not report is bounded by time: on file systems that others change (NFS and
//! the like), in a directory with a file on which another one is mounted, and beyond the limit of
//! watches. A stamp of such a directory holds for the interval of checks.
//!
//! Mounts over directories are reported apart from the rest: they are seen by whoever waits
//! ([`Watcher::wait`]), not by each request.
//!
//! Not reported at all are writes through a shared mapping until its file is closed, and those by
//! a name elsewhere that a file got since it was looked at.

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

/// Bits of a stamp that count changes or milliseconds.
const AT_BITS: u32 = 40;
const AT_MASK: u64 = (1 << AT_BITS) - 1;

/// The place of a stamp that depends on more than one directory.
const ANYWHERE: u64 = (1 << 24) - 2;
/// The place of a stamp that holds for a time.
const TIMED: u64 = (1 << 24) - 1;
/// The largest number of directories that are watched.
pub const MOST_DIRECTORIES: usize = (1 << 24) - 2;

/// Attempts to watch a directory while others are moved.
const TRIES: usize = 4;

/// Why a directory is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwatched {
    /// It does not exist.
    Missing,
    /// A limit is reached, it may not be opened, or the kernel does not report its changes.
    Refused,
    /// Directories were moved meanwhile.
    Overtaken,
    /// A disk would have to be asked, and may not be.
    NotCached,
}

/// A disk would have to be asked for a stamp, and may not be.
struct NotCached;

/// A moment in the life of a directory, in one word. Zero is no stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    pub(super) fn of(place: u64, at: u64) -> Stamp {
        Stamp((place << AT_BITS) | (at & AT_MASK))
    }

    fn place(self) -> u64 {
        self.0 >> AT_BITS
    }

    /// Returns whether it holds for a time, and not until a change.
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

/// What a watcher has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchStats {
    /// Directories that are watched.
    pub watches: usize,
    /// Events read.
    pub events: u64,
    /// Times that the kernel's queue was full and events were lost: everything was checked again.
    pub overflows: u64,
    /// Directories that were not watched, because the limit of watches was reached.
    pub refusals: u64,
}

/// The limits of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Directories that are watched at most; 0: none.
    pub most: usize,
    /// The time for which a look at what is not watched holds.
    pub interval: Duration,
}

struct State {
    directories: Directories,
    buffer: Vec<MaybeUninit<u8>>,
    stats: WatchStats,
    /// Refusals since everything was forgotten last.
    refused: usize,
    mounts: BTreeSet<Mount>,
    /// The directories with files on which others are mounted.
    with_mounted_files: BTreeSet<Vec<u8>>,
}

/// The mounts below the root, for whoever waits.
struct Mounts {
    table: Mutex<MountTable>,
    /// The path of the root, without links.
    root: PathBuf,
    /// Reading the table failed.
    unread: AtomicBool,
}

/// A watcher of the directories below one root.
pub struct Watcher {
    queue: Option<OwnedFd>,
    mounts: Option<Mounts>,
    interval: u64,
    /// The number of the last change. Changes that are read together share one.
    changes: AtomicU64,
    /// The last change to everything.
    everywhere: AtomicU64,
    /// The last change in each directory, by its number.
    last: Box<[AtomicU64]>,
    /// Events have been taken out of the queue and are not applied yet.
    reading: AtomicBool,
    state: Mutex<State>,
}

impl Watcher {
    /// Makes a watcher of what is below the root, which has this path.
    ///
    /// # Errors
    /// The system has no inotify instance left (`fs.inotify.max_user_instances`), or does not tell
    /// what is mounted.
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
            // Stamps begin at 1, so that none is zero.
            changes: AtomicU64::new(1),
            everywhere: AtomicU64::new(0),
            last: (0..most).map(|_| AtomicU64::new(0)).collect(),
            reading: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        watcher.read_mounts()?;
        Ok(watcher)
    }

    /// Returns a stamp for what is looked up in `directories` from now on: paths below `root`,
    /// without a slash at either end, the root itself empty. `now` is in milliseconds of any clock
    /// that only goes forward. A stamp that never holds says that directories are moved faster than
    /// they can be watched.
    pub fn stamp(&self, root: BorrowedFd<'_>, directories: &[&[u8]], now: u64) -> Stamp {
        // A stamp without a hurry is always to be had.
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

    /// Does as [`Watcher::stamp`] if no disk need be asked for a directory; else returns `None`.
    pub fn stamp_cached(
        &self,
        root: BorrowedFd<'_>,
        directories: &[&[u8]],
        now: u64,
    ) -> Option<Stamp> {
        self.stamp_by(root, directories, now, ResolveFlags::CACHED | ResolveFlags::NO_XDEV).ok()
    }

    /// Returns a stamp for what is looked up in a directory from now on, if it is watched already.
    pub fn stamp_of_watched(&self, directory: &[u8]) -> Option<Stamp> {
        let at = self.changes.load(Ordering::SeqCst);
        let number = self.lock().directories.number(directory)?;
        Some(Stamp::of(number.into(), at))
    }

    /// Returns whether nothing that the stamp was taken for has changed since, as far as the
    /// kernel reports it, or for the interval of checks.
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

    /// Forgets all directories: every stamp of one is void from now on.
    pub fn reset(&self) {
        self.reset_locked(&mut self.lock());
    }

    /// Returns what was seen so far.
    pub fn stats(&self) -> WatchStats {
        let state = self.lock();
        WatchStats { watches: state.directories.len(), ..state.stats }
    }

    /// Waits for events, for `time` at most, and reads them, so that the kernel's queue does not
    /// overflow while no request comes; learns what is mounted.
    pub fn wait(&self, time: Duration) {
        let (Some(queue), Some(mounts)) = (&self.queue, &self.mounts) else {
            return std::thread::sleep(time);
        };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let is_changed = {
            let table = mounts.table.lock().unwrap_or_else(PoisonError::into_inner);
            let mut both =
                [PollFd::new(queue, PollFlags::IN), PollFd::new(&*table, PollFlags::PRI)];
            // A failure is a wake-up too many.
            let _ = poll(&mut both, Some(&time));
            !both[1].revents().is_empty()
        };
        self.read_if_any();
        if is_changed || mounts.unread.load(Ordering::SeqCst) {
            let read = self.read_mounts();
            // Until it is known what is mounted everything is looked at again and again.
            mounts.unread.store(read.is_err(), Ordering::SeqCst);
            read.unwrap_or_else(|_| self.reset());
        }
    }

    /// Learns what is mounted below the root. When that has changed everything is forgotten.
    fn read_mounts(&self) -> io::Result<()> {
        let Some(Mounts { table, root, .. }) = &self.mounts else { return Ok(()) };
        let mounts = table.lock().unwrap_or_else(PoisonError::into_inner).below(root)?;
        if self.lock().mounts == mounts {
            return Ok(());
        }
        // Looking may wait for a disk: not under the lock.
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

    /// Returns the number of a directory, which is watched from now on with all that lead to it; of
    /// one that does not exist that of the last directory on the way there, in which it would
    /// appear.
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

    /// Watches a directory and all that lead to it, from the root down: whatever moves after its
    /// parent is watched is seen.
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

    /// Watches one directory, unless everything was forgotten after the change `since`: then those
    /// that lead to it may be watched no more, and it may be another one by now.
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
        // Opening may wait for the disk: not under the lock.
        let opened = open_directory(root, directory, also).map_err(|error| match error {
            Errno::AGAIN | Errno::XDEV if !also.is_empty() => Unwatched::NotCached,
            Errno::NOENT | Errno::NOTDIR => Unwatched::Missing,
            _ => Unwatched::Refused,
        })?;
        // It may lie on a file system of its own.
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

    /// Counts a refusal. After as many as there are watches all are given up, so that those that
    /// are wanted now get them.
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
            // It may be gone with its directory.
            let _ = inotify::remove_watch(queue, watch);
        }
        // The kernel reports each removal, more than its queue holds where there were many. What
        // else is in there is about what is forgotten.
        let mut reader = inotify::Reader::new(queue, buffer);
        while reader.next().is_ok() {}
    }

    /// Reads the kernel's queue, unless it is empty and all that came out of it is applied.
    fn read_if_any(&self) {
        let Some(queue) = &self.queue else { return };
        // In this order: events leave the queue only while `reading` is set.
        let any = rustix::io::ioctl_fionread(queue).map_or(true, |bytes| bytes > 0);
        if any || self.reading.load(Ordering::SeqCst) {
            self.read(queue);
        }
    }

    fn read(&self, queue: &OwnedFd) {
        let mut state = self.lock();
        let State { directories, buffer, stats, .. } = &mut *state;
        self.reading.store(true, Ordering::SeqCst);
        // Published when all is applied: stamps that are taken meanwhile are of before.
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

/// Returns whether something is mounted over a directory, not over a file: without asking a server
/// that may hang.
fn is_directory(root: &Path, place: &[u8]) -> bool {
    let path = root.join(OsStr::from_bytes(place));
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    // What cannot be looked at is taken for a file: then it is not watched either.
    statx(CWD, path, flags, StatxFlags::TYPE)
        .is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory)
}

/// Returns the path of the directory that something lies in.
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

/// Returns whether the kernel reports all changes on the file system of a directory: not when other
/// machines or programs change the files behind its back.
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
