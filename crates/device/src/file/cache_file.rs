//! An open file or block device, shared by all workers. Each worker attaches to it to get its own
//! device handle.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file::fallback::Fallback;
use crate::file::open::{FileKind, OpenError, OpenOptions, Opened, extend, open};
use crate::file::thread_pool::{Pool, Queue};
use crate::file::{occupant, signature};
use crate::transfer::counters::{Counters, Operation};
use crate::transfer::extent::WRITE_ALIGN;
use crate::{Extent, Geometry, IoBuf};

/// The contents of a file or device before it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Empty, or zeros where formats have their signatures.
    Blank,
    /// A format recognised by its signature; the name includes its article ("an XFS file system").
    Known(&'static str),
    /// Bytes of no known format.
    Unknown,
}

/// A change that others made to a file in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// Nothing is at the path: the file was removed or renamed.
    Removed,
    /// Another file is at the path.
    Replaced,
    /// The file is shorter than before.
    Shortened,
}

impl PathChange {
    const ALL: [PathChange; 3] = [PathChange::Removed, PathChange::Replaced, PathChange::Shortened];

    fn code(self) -> u8 {
        self as u8 + 1
    }
}

impl fmt::Display for PathChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathChange::Removed => "its file was removed",
            PathChange::Replaced => "its file was replaced by another one",
            PathChange::Shortened => "its file was shortened",
        })
    }
}

/// An open file or block device. The lock is released with the last handle.
pub struct CacheFile {
    path: PathBuf,
    handle: Arc<File>,
    kind: FileKind,
    len: AtomicU64,
    block: u32,
    direct: bool,
    created: bool,
    fallbacks: Mutex<Vec<Fallback>>,
    counters: Arc<Counters>,
    pool: Mutex<Option<Pool>>,
    /// 0, or the code of a change.
    path_change: AtomicU8,
}

impl CacheFile {
    /// Opens `path`; see [`OpenOptions`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Arc<CacheFile>, OpenError> {
        let Opened { file, kind, len, block, direct, created, fallbacks } = open(path, options)?;
        Ok(Arc::new(CacheFile {
            path: path.to_owned(),
            handle: Arc::new(file),
            kind,
            len: AtomicU64::new(len),
            block,
            direct,
            created,
            fallbacks: Mutex::new(fallbacks),
            counters: Arc::default(),
            pool: Mutex::new(None),
            path_change: AtomicU8::new(0),
        }))
    }

    /// Returns the path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is a regular file or a block device.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns the usable length (in whole blocks) and the alignment.
    pub fn geometry(&self) -> Geometry {
        let len = self.len.load(Ordering::Acquire);
        Geometry { len: len - len % u64::from(self.block), block: self.block }
    }

    /// Returns whether opening created the file, or preallocated it because it was empty.
    pub fn was_created(&self) -> bool {
        self.created
    }

    /// Returns whether O_DIRECT is in use.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns the features refused so far.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        lock(&self.fallbacks).clone()
    }

    /// Adds a refusal that occurred elsewhere ([`crate::Ring::new`]) to those of this file.
    /// Duplicates are ignored.
    pub fn note(&self, fallback: Fallback) {
        let mut fallbacks = lock(&self.fallbacks);
        if !fallbacks.contains(&fallback) {
            fallbacks.push(fallback);
        }
    }

    /// Returns the counters of all devices of this file.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Reads at any offset and length, synchronously on the calling thread. For formatting and
    /// inspection, not for serving. Fails with `UnexpectedEof` beyond the end.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let wanted = Extent { offset, len: into.len() as u64 };
        let extent = wanted.aligned(self.block);
        let mut buf = IoBuf::zeroed(extent.len as usize);
        let start = (offset - extent.offset) as usize;
        let mut done = 0;
        while done < start + into.len() {
            match self.handle.read_at(&mut buf[done..], extent.offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        into.copy_from_slice(&buf[start..start + into.len()]);
        Ok(())
    }

    /// Returns the current contents. The store must decide first whether they are a cache.
    pub fn contents(&self) -> io::Result<Contents> {
        let len = self.len.load(Ordering::Acquire);
        let mut head = vec![0; signature::HEAD.min(len as usize)];
        self.read_at(0, &mut head)?;
        let mut tail = vec![0; signature::TAIL.min(len as usize)];
        self.read_at(len - tail.len() as u64, &mut tail)?;
        if let Some(name) = signature::identify(&head, &tail) {
            return Ok(Contents::Known(name));
        }
        let blank = head.iter().chain(&tail).all(|byte| *byte == 0);
        Ok(if blank { Contents::Blank } else { Contents::Unknown })
    }

    /// Returns how the system uses this block device ("mounted at /srv"); `None` for a file.
    /// Opening for writing already refuses such a device, so this is for readers.
    pub fn occupant(&self) -> Option<String> {
        let metadata = self.handle.metadata().ok()?;
        (self.kind == FileKind::BlockDevice).then(|| occupant::user_of(metadata.rdev())).flatten()
    }

    /// Grows a regular file in use to `len` bytes (rounded up to 4,096) and preallocates the space.
    /// For a block device that has grown, picks up the new length. Returns the length. A file is
    /// never shortened: a smaller `len` changes nothing.
    pub fn grow(&self, len: u64) -> Result<u64, OpenError> {
        let failed =
            |action| move |source| OpenError::Io { path: self.path.clone(), action, source };
        let now = (&*self.handle).seek(SeekFrom::End(0)).map_err(failed("find its length"))?;
        let mut new = now;
        let wanted = len.next_multiple_of(u64::from(WRITE_ALIGN));
        if self.kind == FileKind::Regular && wanted > now {
            let fallback = extend(&self.path, &self.handle, now, wanted)?;
            fallback.into_iter().for_each(|fallback| self.note(fallback));
            self.handle.sync_all().map_err(failed("make its length durable"))?;
            new = wanted;
        }
        self.len.fetch_max(new, Ordering::AcqRel);
        Ok(self.geometry().len)
    }

    /// Transfers ownership of a regular file from root to another user, who can then open it later.
    /// Returns whether the owner changed. A file reached through a symbolic link or with several
    /// names may belong to something else, so it is left unchanged, and so is a block device.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn give_to(&self, owner: u32, group: u32) -> io::Result<bool> {
        let (ours, there) = (self.handle.metadata()?, fs::symlink_metadata(&self.path)?);
        let same = (ours.dev(), ours.ino()) == (there.dev(), there.ino());
        let is_plain = self.kind == FileKind::Regular && same && ours.nlink() == 1;
        if !is_plain || ours.uid() != 0 || owner == 0 {
            return Ok(false);
        }
        fchown(&*self.handle, Some(owner), Some(group))?;
        Ok(true)
    }

    /// Checks whether the path still names this file, at its full length.
    /// [`CacheFile::path_change`] returns the last result. May block on the file system, so do not
    /// call it on a serving thread.
    pub fn look_at_path(&self) -> Option<PathChange> {
        let change = self.handle.metadata().map_or(None, |ours| self.compare(&ours));
        self.path_change.store(change.map_or(0, PathChange::code), Ordering::Relaxed);
        change
    }

    /// Returns the last result of [`CacheFile::look_at_path`].
    pub fn path_change(&self) -> Option<PathChange> {
        let code = self.path_change.load(Ordering::Relaxed);
        PathChange::ALL.into_iter().find(|change| change.code() == code)
    }

    fn compare(&self, ours: &Metadata) -> Option<PathChange> {
        let is_device = self.kind == FileKind::BlockDevice;
        let identity = |data: &Metadata| match is_device {
            true => (0, data.rdev()),
            false => (data.dev(), data.ino()),
        };
        match fs::metadata(&self.path) {
            Ok(there) if there.file_type().is_block_device() != is_device => {
                Some(PathChange::Replaced)
            }
            Ok(there) if identity(&there) != identity(ours) => Some(PathChange::Replaced),
            Ok(_) if !is_device && ours.len() < self.len.load(Ordering::Acquire) => {
                Some(PathChange::Shortened)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(PathChange::Removed),
            // Other errors, for example of an unreachable file system, prove nothing about the
            // file.
            Ok(_) | Err(_) => None,
        }
    }

    /// Releases the lock for another process while handles are still open here. Call it when
    /// nothing is written through them any more. Data read through them may change from then on.
    ///
    /// # Errors
    ///
    /// If the system refuses; the lock is then released with the last handle.
    pub fn unlock(&self) -> io::Result<()> {
        self.handle.unlock()
    }

    /// Returns the queue of the threads that serve this file. Starts the threads on the first call.
    pub(crate) fn queue(&self) -> io::Result<Arc<Queue>> {
        let mut pool = lock(&self.pool);
        let pool = match &mut *pool {
            Some(pool) => pool,
            none => none.insert(Pool::start()?),
        };
        Ok(pool.queue().clone())
    }

    pub(crate) fn handle(&self) -> &Arc<File> {
        &self.handle
    }

    /// Returns the error of an operation that ended early because the file was shortened meanwhile.
    pub(crate) fn cut_short(
        &self,
        operation: Operation,
        offset: u64,
        len: usize,
        done: usize,
    ) -> io::Error {
        let kind = match operation {
            Operation::Read => io::ErrorKind::UnexpectedEof,
            Operation::Write | Operation::Flush => io::ErrorKind::WriteZero,
        };
        let path = self.path.display();
        io::Error::new(kind, format!("{path}: {done} of {len} bytes at {offset}, then the end"))
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // Ends the jobs, then releases the lock. The lock is released explicitly, because a child
        // process that is just being started may hold a copy of the descriptor.
        *lock(&self.pool) = None;
        _ = self.handle.unlock();
    }
}

impl AsRawFd for CacheFile {
    fn as_raw_fd(&self) -> RawFd {
        self.handle.as_raw_fd()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic halfway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
