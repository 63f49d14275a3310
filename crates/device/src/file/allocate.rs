//! Preallocation of a file's space, so that the disk does not fill up under a running cache.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::file::fallback::{Fallback, Feature};

/// The reason why a file could not be extended. Its length is unchanged.
#[derive(Debug)]
pub(crate) enum AllocateError {
    /// The file system has `free` bytes available; `needed` bytes were requested.
    NoSpace { needed: u64, free: u64 },
    /// Any other error.
    Io(io::Error),
}

/// Extends `file` from `from` to `to` bytes and allocates the space. If the file system does not
/// support that, the file becomes sparse and the fallback is returned. The length changes last.
pub(crate) fn allocate(file: &File, from: u64, to: u64) -> Result<Option<Fallback>, AllocateError> {
    let needed = to - from;
    let fallback = loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, needed) {
            Ok(()) => break None,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC) => {
                give_back(file, from);
                let free = free(file).unwrap_or(0);
                return Err(AllocateError::NoSpace { needed, free });
            }
            Err(error @ (Errno::OPNOTSUPP | Errno::NOSYS)) => {
                if let Some(free) = free(file).filter(|free| *free < needed) {
                    return Err(AllocateError::NoSpace { needed, free });
                }
                break Some(Feature::Allocate.refused(io::Error::from(error)));
            }
            Err(error) => {
                give_back(file, from);
                return Err(AllocateError::Io(error.into()));
            }
        }
    };
    if let Err(error) = file.set_len(to) {
        give_back(file, from);
        return Err(AllocateError::Io(error));
    }
    Ok(fallback)
}

/// Frees the space that a failed attempt allocated beyond the end. Errors are ignored, because the
/// failed attempt is reported anyway.
fn give_back(file: &File, len: u64) {
    // Truncating to the same length does not free blocks beyond it on every file system.
    _ = file.set_len(len + 1);
    _ = file.set_len(len);
}

/// Returns the bytes available to this user on the file's file system; `None` if it reports no size
/// (as an in-memory file system may).
fn free(file: &File) -> Option<u64> {
    let stat = fstatvfs(file).ok().filter(|stat| stat.f_blocks > 0)?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
