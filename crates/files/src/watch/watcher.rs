//! Watching directories for changes by inotify(7), and stamps by which a caller learns whether
//! something that it looked up may have changed since.
//!
//! A caller takes a [`Stamp`] of the directories that a look-up consults, then looks, and keeps the
//! result beside the stamp. While [`Watcher::holds`] says so, the result is current. The kernel's
//! queue is read first, so a change that was made before a request came is seen by that request.
//!
//! What the kernel does not report is bounded by time: on file systems that others change (NFS and
//! the like), and beyond the limit of watches. A stamp of such a directory holds for the interval
//! of checks.
//!
//! Not reported at all are writes through a shared mapping until its file is closed, and a mount
//! over a directory.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{ffi::OsStr, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::directories::{Directories, Effect, Event, Number};

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
    /// A limit is reached, or it may not be opened.
    Refused,
    /// Directories were moved meanwhile.
    Overtaken,
}

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
}

/// A watcher of the directories below one root.
pub struct Watcher {
    queue: Option<OwnedFd>,
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
    /// Makes a watcher.
    ///
    /// # Errors
    /// The system has no inotify instance left (`fs.inotify.max_user_instances`).
    pub fn new(options: WatchOptions) -> io::Result<Watcher> {
        let most = options.most.min(MOST_DIRECTORIES);
        let queue = match most {
            0 => None,
            _ => Some(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?),
        };
        let state = State {
            directories: Directories::new(most),
            buffer: vec![MaybeUninit::uninit(); 16 << 10],
            stats: WatchStats::default(),
            refused: 0,
        };
        Ok(Watcher {
            queue,
            interval: options.interval.as_millis() as u64,
            // Stamps begin at 1, so that none is zero.
            changes: AtomicU64::new(1),
            everywhere: AtomicU64::new(0),
            last: (0..most).map(|_| AtomicU64::new(0)).collect(),
            reading: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Returns a stamp for what is looked up in `directories` from now on: paths below `root`,
    /// without a slash at either end, the root itself empty. `now` is in milliseconds of any clock
    /// that only goes forward. A stamp that never holds says that directories are moved faster than
    /// they can be watched.
    pub fn stamp(&self, root: BorrowedFd<'_>, directories: &[&[u8]], now: u64) -> Stamp {
        let at = self.changes.load(Ordering::SeqCst);
        let mut place = None;
        for directory in directories {
            let number = match self.number(root, directory) {
                Ok(number) => number,
                Err(Unwatched::Overtaken) => return Stamp::default(),
                Err(Unwatched::Missing | Unwatched::Refused) => return Stamp::of(TIMED, now),
            };
            let number = u64::from(number);
            place = match place {
                Some(other) if other != number => Some(ANYWHERE),
                _ => Some(number),
            };
        }
        place.map_or(Stamp::of(TIMED, now), |place| Stamp::of(place, at))
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
    /// overflow while no request comes.
    pub fn wait(&self, time: Duration) {
        let Some(queue) = &self.queue else { return std::thread::sleep(time) };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // A failure is a wake-up too many.
        let _ = poll(&mut [PollFd::new(queue, PollFlags::IN)], Some(&time));
        self.read_if_any();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a directory, which is watched from now on with all that lead to it; of
    /// one that does not exist that of the last directory on the way there, in which it would
    /// appear.
    fn number(&self, root: BorrowedFd<'_>, directory: &[u8]) -> Result<Number, Unwatched> {
        let queue = self.queue.as_ref().ok_or(Unwatched::Refused)?;
        for _ in 0..TRIES {
            let since = {
                let state = self.lock();
                if let Some(number) = state.directories.number(directory) {
                    return Ok(number);
                }
                self.everywhere.load(Ordering::SeqCst)
            };
            match self.watch_all(queue, root, directory, since) {
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
        root: BorrowedFd<'_>,
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
        root: BorrowedFd<'_>,
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
            if state.directories.is_full() {
                self.refuse(&mut state);
                return Err(Unwatched::Refused);
            }
        }
        // Opening may wait for the disk: not under the lock.
        let opened = open_directory(root, directory).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Unwatched::Missing,
            _ => Unwatched::Refused,
        })?;
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

/// Opens a directory below the root without following links.
fn open_directory(root: BorrowedFd<'_>, directory: &[u8]) -> Result<OwnedFd, Errno> {
    if directory.is_empty() {
        return rustix::io::fcntl_dupfd_cloexec(root, 0);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let path = OsStr::from_bytes(directory);
    match rustix::fs::openat2(root, path, flags, Mode::empty(), within) {
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

/// Returns whether the kernel reports all changes below `root`: not when other machines or
/// programs change the files behind its back.
pub fn reports_changes(root: BorrowedFd<'_>) -> bool {
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
    rustix::fs::fstatfs(root).is_ok_and(|stat| !ELSEWHERE.contains(&(stat.f_type as u32)))
}
