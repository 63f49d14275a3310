//! One operation between its submission and its end. It owns its buffer, and is resubmitted for the
//! bytes that the kernel did not transfer.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::Waker;

use io_uring::{opcode, squeue, types};
use rustix::io::Errno;

use crate::file::cache_file::CacheFile;
use crate::transfer::payload::Payload;

/// Maximum bytes per entry. The kernel transfers at most 2 GiB minus a page at once.
const MOST: usize = 1 << 30;

pub(crate) struct InFlight {
    pub file: Arc<CacheFile>,
    pub offset: u64,
    pub payload: Payload,
    done: usize,
    /// True if a kernel thread must perform the operation, because it would or might block the
    /// caller.
    insist: bool,
    pub progress: Progress,
}

pub(crate) enum Progress {
    /// `None` if not polled yet.
    Running(Option<Waker>),
    /// The future was dropped, so the result is not needed.
    Abandoned,
    Done(io::Result<()>),
}

impl InFlight {
    /// Returns an operation at its start, with the kind and the buffer of `payload`.
    pub fn new(file: Arc<CacheFile>, offset: u64, payload: Payload) -> InFlight {
        let progress = Progress::Running(None);
        // A write to a frozen file system blocks the thread that begins it; before Linux 6.13 even
        // with IOCB_NOWAIT.
        let insist = matches!(payload, Payload::Write(_));
        InFlight { file, offset, payload, done: 0, insist, progress }
    }

    /// Returns the kernel entry for all bytes not transferred yet. It points into the payload.
    pub fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.as_raw_fd());
        let offset = self.offset + self.done as u64;
        let entry = match &mut self.payload {
            Payload::Read(buf) => {
                let rest = &mut buf[self.done..];
                let len = rest.len().min(MOST) as u32;
                opcode::Read::new(fd, rest.as_mut_ptr(), len).offset(offset).build()
            }
            Payload::Write(buf) => {
                let rest = &buf[self.done..];
                let len = rest.len().min(MOST) as u32;
                opcode::Write::new(fd, rest.as_ptr(), len).offset(offset).build()
            }
            Payload::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        if self.insist { entry.flags(squeue::Flags::ASYNC) } else { entry }
    }

    /// Processes the kernel's result. Returns `None` if the rest must be submitted.
    pub fn advance(&mut self, result: i32) -> Option<io::Result<()>> {
        if result < 0 {
            let errno = Errno::from_raw_os_error(-result);
            if errno == Errno::INTR || errno == Errno::AGAIN {
                self.insist |= errno == Errno::AGAIN;
                return None;
            }
            return Some(Err(errno.into()));
        }
        if matches!(self.payload, Payload::Flush) {
            return Some(Ok(()));
        }
        self.done += result as usize;
        // O_DIRECT stops within a block only at the end of a file, and cannot continue from there.
        let block = self.file.geometry().block as usize;
        let stuck = self.file.is_direct() && !self.done.is_multiple_of(block);
        if self.done == self.payload.len() {
            Some(Ok(()))
        } else if result == 0 || stuck {
            Some(Err(self.file.cut_short(
                self.payload.operation(),
                self.offset,
                self.payload.len(),
                self.done,
            )))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoBuf, OpenOptions};

    fn read(len: usize) -> (tempfile::TempDir, InFlight) {
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: Some(1 << 20), ..OpenOptions::default() };
        let file = CacheFile::open(&directory.path().join("cache"), &options).unwrap();
        (directory, InFlight::new(file, 0, Payload::Read(IoBuf::zeroed(len))))
    }

    #[test]
    fn a_short_transfer_is_continued_to_its_end() {
        let (_directory, mut operation) = read(65536);
        assert!(operation.advance(4096).is_none());
        assert!(operation.advance(-Errno::INTR.raw_os_error()).is_none());
        assert!(!operation.insist && operation.done == 4096);
        assert!(operation.advance(-Errno::AGAIN.raw_os_error()).is_none());
        assert!(operation.insist);
        assert!(operation.advance(32768).is_none());
        assert!(operation.advance(65536 - 4096 - 32768).unwrap().is_ok());
    }

    #[test]
    fn a_write_never_blocks_the_thread_that_begins_it() {
        let (_directory, operation) = read(65536);
        let payload = Payload::Write(IoBuf::zeroed(4096).freeze());
        let mut write = InFlight::new(operation.file, 0, payload);
        assert!(write.insist && write.advance(4096).is_some_and(|end| end.is_ok()));
    }

    #[test]
    fn the_end_of_the_file_and_a_refusal_are_errors() {
        let (_directory, mut operation) = read(65536);
        assert!(operation.advance(8192).is_none());
        let error = operation.advance(0).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("8192 of 65536 bytes at 0"), "{error}");
        let error = operation.advance(-Errno::IO.raw_os_error()).unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
}
