//! Opens the path of a cache: a regular file or a block device. All errors of a path are detected
//! here and described in words.
//!
//! Guarantees: opening never changes foreign contents; a file that could not be created completely
//! is removed again; a file or device opened for writing is locked by this process.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, ioctl_blksszget, statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::file::allocate::{AllocateError, allocate};
use crate::file::fallback::{Fallback, Feature};
use crate::file::occupant;
use crate::transfer::extent::WRITE_ALIGN;

/// The intended use of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Exclusive reading and writing: a file is locked, a block device claimed.
    Exclusive,
    /// Reading only, even while another process has the file open.
    ReadOnly,
}

/// Options for opening.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The intended use of the file.
    pub access: Access,
    /// The length in bytes to which a regular file is preallocated if it does not exist or is empty
    /// (rounded up to 4,096). With `None` the file must exist. Ignored for other files.
    pub create: Option<u64>,
    /// The first bytes of a file preallocated in this way. They are durable before the file is
    /// extended, and identify an interrupted creation.
    pub mark: &'static [u8],
    /// True to request O_DIRECT.
    pub direct: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { access: Access::Exclusive, create: None, mark: &[], direct: true }
    }
}

/// The kind of file that the path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device: a disk, a partition, a volume.
    BlockDevice,
}

/// The reason why a path could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has the path open for writing.
    InUse {
        /// The path as given.
        path: PathBuf,
    },
    /// The system uses the block device.
    Occupied {
        /// The path as given.
        path: PathBuf,
        /// The use of the device: "mounted at /srv".
        by: String,
    },
    /// The path is neither a regular file nor a block device.
    WrongKind {
        /// The path as given.
        path: PathBuf,
        /// The kind of the path, with its article.
        what: &'static str,
    },
    /// The file system lacks space. A file created by this attempt is removed again.
    NoSpace {
        /// The path as given.
        path: PathBuf,
        /// Bytes requested.
        needed: u64,
        /// Bytes available.
        free: u64,
    },
    /// The file is, or would become, longer than this process may write.
    TooLarge {
        /// The path as given.
        path: PathBuf,
        /// Length of the file, in bytes.
        len: u64,
        /// Maximum file size for this process, in bytes; `None` if the file system sets the limit.
        limit: Option<u64>,
    },
    /// The operating system refused.
    Io {
        /// The path as given.
        path: PathBuf,
        /// The attempted action, as a verb.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { path } => write!(
                f,
                "{}: in use by another process; stop it or choose another path",
                path.display()
            ),
            OpenError::Occupied { path, by } => {
                write!(f, "{}: {by}; free the device first or choose another", path.display())
            }
            OpenError::WrongKind { path, what } => write!(
                f,
                "{}: is {what}; a cache lives in a regular file or on a block device",
                path.display()
            ),
            OpenError::NoSpace { path, needed, free } => write!(
                f,
                "{}: needs {needed} bytes, but its file system has {free} bytes free; choose a \
                 smaller size or another place",
                path.display()
            ),
            OpenError::TooLarge { path, len, limit: Some(limit) } => write!(
                f,
                "{}: a file of {len} bytes, but this process may write no file beyond {limit} \
                 bytes; raise the limit on file sizes (ulimit -f, LimitFSIZE=), or choose a \
                 smaller size",
                path.display()
            ),
            OpenError::TooLarge { path, len, limit: None } => write!(
                f,
                "{}: its file system takes no file of {len} bytes; choose a smaller size or \
                 another place",
                path.display()
            ),
            OpenError::Io { path, action, source } => {
                write!(f, "{}: cannot {action}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl OpenError {
    /// Returns whether the file system or the disk is at fault: it failed, or is read-only, as
    /// happens after a failure. All other errors are for the operator to fix.
    pub fn is_fault_of_disk(&self) -> bool {
        let OpenError::Io { source, .. } = self else { return false };
        let faults = [Errno::IO, Errno::ROFS, Errno::UCLEAN, Errno::STALE];
        source.raw_os_error().is_some_and(|code| faults.contains(&Errno::from_raw_os_error(code)))
    }
}

/// The result of [`open`].
pub(crate) struct Opened {
    pub file: File,
    pub kind: FileKind,
    pub len: u64,
    pub block: u32,
    pub direct: bool,
    pub created: bool,
    pub fallbacks: Vec<Fallback>,
}

/// Opens `path`, and creates, locks and preallocates it according to `options`.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, OpenError> {
    let failed = |action| move |source| OpenError::Io { path: path.to_owned(), action, source };
    let existing = match fs::metadata(path) {
        Ok(metadata) => Some(kind_of(path, &metadata)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("look at it")(error)),
    };
    let mut file = match existing {
        Some(kind) => patiently(|| open_existing(path, kind, options))?,
        None => create(path, options)?,
    };
    let metadata = file.metadata().map_err(failed("look at it"))?;
    let kind = kind_of(path, &metadata)?;
    if options.access == Access::Exclusive {
        patiently(|| lock(path, &file))?;
    }
    let mut fallbacks = Vec::new();
    let mut len = file.seek(SeekFrom::End(0)).map_err(failed("find its length"))?;
    if (kind, options.access) == (FileKind::Regular, Access::Exclusive) {
        check_size_limit(path, len)?;
    }
    let mut created = false;
    if let (FileKind::Regular, 0, Some(size)) = (kind, len, options.create)
        && options.access == Access::Exclusive
    {
        len = size.next_multiple_of(u64::from(WRITE_ALIGN));
        let is_new = existing.is_none();
        fallbacks.extend(fill(path, &file, options.mark, len).inspect_err(|_| {
            // Restore the previous state. Errors here matter less than the one being reported.
            _ = if is_new { fs::remove_file(path) } else { file.set_len(0) };
        })?);
        created = true;
    }
    let direct = options.direct
        && match set_direct(&file, kind) {
            Ok(()) => true,
            Err(reason) => {
                fallbacks.push(Feature::Direct.refused(reason));
                false
            }
        };
    let block = block_size(&file, kind, direct);
    Ok(Opened { file, kind, len, block, direct, created, fallbacks })
}

fn kind_of(path: &Path, metadata: &fs::Metadata) -> Result<FileKind, OpenError> {
    let kind = metadata.file_type();
    let what = if kind.is_file() {
        return Ok(FileKind::Regular);
    } else if kind.is_block_device() {
        return Ok(FileKind::BlockDevice);
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a socket"
    };
    Err(OpenError::WrongKind { path: path.to_owned(), what })
}

/// How long to wait for a path in use before reporting it. After a process is killed, the kernel
/// releases its ring asynchronously, and until then the file is open and locked. A start right
/// after a kill must not ask the operator to choose another path.
const IN_USE_PATIENCE: Duration = Duration::from_secs(2);

/// Retries `claim` while it finds the path in use, for [`IN_USE_PATIENCE`].
fn patiently<T>(mut claim: impl FnMut() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let begin = Instant::now();
    loop {
        match claim() {
            Err(OpenError::InUse { .. }) if begin.elapsed() < IN_USE_PATIENCE => {
                thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn open_existing(path: &Path, kind: FileKind, options: &OpenOptions) -> Result<File, OpenError> {
    let exclusive = options.access == Access::Exclusive;
    let mut flags = OFlags::NONBLOCK; // no effect here, but the path may be a pipe by now
    if exclusive && kind == FileKind::BlockDevice {
        // The kernel's own claim: it prevents mounts, swap and a second claim while we hold it.
        flags |= OFlags::EXCL;
    }
    let mut open = fs::OpenOptions::new();
    open.read(true).write(exclusive).custom_flags(flags.bits() as i32);
    open.open(path).map_err(|source| {
        if source.kind() == io::ErrorKind::ResourceBusy && kind == FileKind::BlockDevice {
            let user = fs::metadata(path).ok().and_then(|data| occupant::user_of(data.rdev()));
            return match user {
                Some(by) => OpenError::Occupied { path: path.to_owned(), by },
                None => OpenError::InUse { path: path.to_owned() },
            };
        }
        OpenError::Io { path: path.to_owned(), action: "open it", source }
    })
}

fn create(path: &Path, options: &OpenOptions) -> Result<File, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), action: "create it", source };
    if options.create.is_none() || options.access == Access::ReadOnly {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(OpenError::Io { path: path.to_owned(), action: "open it", source });
    }
    let mut open = fs::OpenOptions::new();
    open.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(failed)
}

fn lock(path: &Path, file: &File) -> Result<(), OpenError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::InUse { path: path.to_owned() },
        TryLockError::Error(source) => {
            OpenError::Io { path: path.to_owned(), action: "lock it", source }
        }
    })
}

/// Returns an error if the file is longer than the process may write (RLIMIT_FSIZE).
fn check_size_limit(path: &Path, len: u64) -> Result<(), OpenError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < len => {
            Err(OpenError::TooLarge { path: path.to_owned(), len, limit: Some(limit) })
        }
        _ => Ok(()),
    }
}

/// Extends the file at `path` from `from` to `to` bytes and preallocates the space.
pub(crate) fn extend(
    path: &Path,
    file: &File,
    from: u64,
    to: u64,
) -> Result<Option<Fallback>, OpenError> {
    check_size_limit(path, to)?;
    let path = path.to_owned();
    allocate(file, from, to).map_err(|error| match error {
        AllocateError::NoSpace { needed, free } => OpenError::NoSpace { path, needed, free },
        AllocateError::Io(source) if source.kind() == io::ErrorKind::FileTooLarge => {
            OpenError::TooLarge { path, len: to, limit: None }
        }
        AllocateError::Io(source) => OpenError::Io { path, action: "allocate its space", source },
    })
}

/// Marks a new file, allocates its space and makes its existence durable.
fn fill(path: &Path, file: &File, mark: &[u8], len: u64) -> Result<Option<Fallback>, OpenError> {
    let failed = |action| move |source| OpenError::Io { path: path.to_owned(), action, source };
    check_size_limit(path, len)?;
    file.write_all_at(mark, 0).map_err(failed("write to it"))?;
    file.sync_all().map_err(failed("make it durable"))?;
    let fallback = extend(path, file, 0, len)?;
    file.sync_all().map_err(failed("make it durable"))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(failed("make its directory entry durable"))?;
    Ok(fallback)
}

/// Enables O_DIRECT. The error is the reason why that failed.
fn set_direct(file: &File, kind: FileKind) -> Result<(), String> {
    let alignment = direct_alignment(file);
    if alignment == Some((0, 0)) && kind == FileKind::Regular {
        return Err("the file system does not support it for this file".to_owned());
    }
    if let Some((memory, _)) = alignment
        && memory > WRITE_ALIGN
    {
        return Err(format!("it wants memory aligned to {memory} bytes"));
    }
    let flags = fcntl_getfl(file).map_err(|error| io::Error::from(error).to_string())?;
    let set = fcntl_setfl(file, flags | OFlags::DIRECT);
    set.map_err(|error| io::Error::from(error).to_string())
}

/// Returns the alignments of memory and of offsets, in bytes, as reported by statx; 0 if O_DIRECT
/// is not supported.
fn direct_alignment(file: &File) -> Option<(u32, u32)> {
    const DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);
    let stat = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, DIOALIGN).ok()?;
    let known = stat.stx_mask & DIOALIGN.bits() != 0;
    known.then_some((stat.stx_dio_mem_align, stat.stx_dio_offset_align))
}

/// Returns the unit of offsets and lengths, in bytes. Without O_DIRECT any unit works, and a page
/// is the cheapest.
fn block_size(file: &File, kind: FileKind, direct: bool) -> u32 {
    if !direct {
        return WRITE_ALIGN;
    }
    let told = match direct_alignment(file) {
        Some((memory, offset)) if offset > 0 => Some(memory.max(offset)),
        _ if kind == FileKind::BlockDevice => ioctl_blksszget(file).ok(),
        _ => None,
    };
    told.filter(|block| block.is_power_of_two()).map_or(WRITE_ALIGN, |block| block.max(512))
}
