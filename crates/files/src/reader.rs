//! Reads the bytes of a file, all of one version.
//!
//! Guarantee: a caller that gets the last piece has received exactly the bytes of the version. If
//! the file was changed in the meantime, reading fails with [`ReadError::Changed`] before the last
//! piece is returned. A response that is not truncated therefore never mixes old and new bytes. See
//! [`crate::Version`] for the changes that the kernel does not report.
//!
//! A [tolerant](Reader::tolerant) reader accepts more, for bodies that are already being sent and
//! cannot be restarted: changes of permissions and names, and bytes appended after the version. If
//! the file has become longer, samples of the bytes already read must still match, so a file that
//! was emptied and rewritten is detected. Small changes in place remain undetected if `mtime` is
//! then set back or bytes are appended.

use std::fmt;
use std::io;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Advice, fadvise, fstat, sendfile};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use semantics::range::ByteRange;
use xxhash_rust::xxh3::xxh3_64;

use crate::version::Version;

/// Number of bytes to read before telling the kernel to drop them from its cache.
const GIVE_BACK: u64 = 8 << 20;

/// Size in bytes of the largest pieces in which the kernel caches a file; most are smaller.
const PIECE: u64 = 2 << 20;

/// Distance in bytes between the samples taken of bytes that the kernel sends.
const SAMPLE_STEP: u64 = 1 << 20;

/// Distance in bytes between the probes that wait while the kernel loads part of a file; the kernel
/// reads in requests of about this size.
const LOAD_STEP: u64 = 64 << 10;

/// Maximum size of a sample in bytes.
const SAMPLE: usize = 4 << 10;

/// The hash of a range of bytes that was read.
#[derive(Clone, Copy, Debug)]
struct Sample {
    offset: u64,
    length: usize,
    hash: u64,
}

impl Sample {
    fn of(offset: u64, bytes: &[u8]) -> Sample {
        Sample { offset, length: bytes.len(), hash: xxh3_64(bytes) }
    }
}

/// Why a read failed.
#[derive(Debug)]
pub enum ReadError {
    /// The file is no longer in the version in which it was opened.
    Changed,
    /// The kernel could not read it.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Changed => f.write_str("the file was changed while it was being read"),
            ReadError::Io(why) => write!(f, "the file cannot be read: {why}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Changed => None,
            ReadError::Io(why) => Some(why),
        }
    }
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> ReadError {
        ReadError::Io(errno.into())
    }
}

/// A file, or a range of it, that is being read from beginning to end.
#[derive(Debug)]
pub struct Reader<F = OwnedFd> {
    file: F,
    version: Version,
    at: u64,
    /// The offset at which reading stops.
    end: u64,
    is_tolerant: bool,
    /// For a tolerant reader: samples of the first and of the latest piece.
    samples: [Option<Sample>; 2],
    /// The offset from which the kernel has yet to be told to drop what was read; `None` if it may
    /// keep it or has been told.
    forgotten: Option<u64>,
}

impl<F: AsFd> Reader<F> {
    /// Creates a reader. With `forget` the kernel is asked to drop the bytes read from its page
    /// cache, because they are stored in another cache.
    pub(crate) fn new(file: F, version: Version, forget: bool) -> Reader<F> {
        let (end, forgotten) = (version.size, forget.then_some(0));
        Reader { file, version, at: 0, end, is_tolerant: false, samples: [None; 2], forgotten }
    }

    /// Makes the reader accept changes that leave the bytes of the version in place, as far as size
    /// and `mtime` tell. It then checks with each piece that the file has not become shorter.
    pub fn tolerant(self) -> Reader<F> {
        Reader { is_tolerant: true, ..self }
    }

    /// Restricts the reader to a range and moves it to the start of that range. The part of the
    /// range after the end of the file is ignored.
    pub fn within(mut self, range: ByteRange) -> Reader<F> {
        self.end = range.end.min(self.version.size);
        self.at = range.start.min(self.end);
        self.forgotten = self.forgotten.map(|_| self.at & !(PIECE - 1));
        self
    }

    /// Returns the version that is being read.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the number of bytes still to be read.
    pub fn remaining(&self) -> u64 {
        self.end - self.at
    }

    /// Reads the next bytes and fills `buffer`, except with the last piece; returns the length.
    /// Returns 0 if everything was read or `buffer` is empty. Checks the version before the last
    /// piece is returned.
    ///
    /// # Errors
    ///
    /// Fails if the file was changed or cannot be read. Do not read on then.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let room = u64::try_from(buffer.len()).unwrap_or(u64::MAX).min(self.remaining());
        let wanted = usize::try_from(room).unwrap_or(buffer.len());
        let (begin, piece) = (self.at, &mut buffer[..wanted]);
        self.read_at(begin, piece)?;
        self.at += room;
        if self.remaining() == 0 || self.is_tolerant {
            self.verify()?;
        }
        if self.is_tolerant {
            self.take_samples(begin, piece);
        }
        self.give_back();
        Ok(wanted)
    }

    /// Reads all the remaining bytes if that needs no disk access; otherwise returns `None` and
    /// reads nothing.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    pub fn read_cached(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let Ok(length) = usize::try_from(self.remaining()) else { return Ok(None) };
        let mut buffer = vec![0; length];
        let place = &mut [IoSliceMut::new(&mut buffer)];
        // The kernel reports unsupported operations by various errors; the blocking read tells
        // more.
        if preadv2(&self.file, place, self.at, ReadWriteFlags::NOWAIT) != Ok(length) {
            return Ok(None);
        }
        self.at = self.end;
        self.verify()?;
        self.give_back();
        Ok(Some(buffer))
    }

    /// Reads all the remaining bytes.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    pub fn read_rest(&mut self) -> Result<Vec<u8>, ReadError> {
        let length = usize::try_from(self.remaining()).map_err(|_| ReadError::Changed)?;
        let mut buffer = vec![0; length];
        self.read(&mut buffer)?;
        Ok(buffer)
    }

    /// Fills `buffer` with the bytes at `offset`, independent of earlier reads. Of the version only
    /// the length is checked; see [`Self::verify`].
    ///
    /// # Errors
    ///
    /// Fails if the file ends before `buffer` is full, or cannot be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < buffer.len() {
            match pread(&self.file, &mut buffer[done..], offset + done as u64) {
                Ok(0) => return Err(ReadError::Changed),
                Ok(length) => done += length,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Checks that the file is still in this version, so that everything read so far belongs to it.
    ///
    /// # Errors
    ///
    /// Fails if the version has changed, or if the kernel cannot tell.
    pub fn verify(&self) -> Result<(), ReadError> {
        let stat = fstat(&self.file)?;
        let holds = match self.is_tolerant {
            true => self.version.holds_at_start(&stat),
            false => self.version.holds(&stat),
        };
        if !holds {
            return Err(ReadError::Changed);
        }
        let is_longer = u64::try_from(stat.st_size).is_ok_and(|size| size > self.version.size);
        let samples = self.samples.iter().flatten().filter(|_| is_longer);
        for Sample { offset, length, hash } in samples {
            let mut bytes = vec![0; *length];
            self.read_at(*offset, &mut bytes)?;
            if xxh3_64(&bytes) != *hash {
                return Err(ReadError::Changed);
            }
        }
        Ok(())
    }

    /// Makes the kernel send the next bytes, at most `most`, to a non-blocking socket, and returns
    /// their number. Waits for the disk if the bytes are not [cached](Self::is_cached). The version
    /// is checked first, which covers only what was sent before, so the last bytes must be
    /// [read](Self::read) instead.
    ///
    /// # Errors
    ///
    /// Fails if the file was changed, if the socket accepts no bytes now (`WouldBlock`), or if the
    /// kernel cannot send the file. Except after a change, nothing was sent and reading may
    /// continue.
    pub fn send(&mut self, socket: impl AsFd, most: u64) -> Result<u64, ReadError> {
        self.verify()?;
        let wanted = usize::try_from(most.min(self.remaining())).unwrap_or(usize::MAX);
        let (begin, mut at) = (self.at, self.at);
        loop {
            match sendfile(&socket, &self.file, Some(&mut at), wanted) {
                Ok(0) => return Err(ReadError::Changed),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.at = at;
        let is_due = |latest: Sample| begin.saturating_sub(latest.offset) >= SAMPLE_STEP;
        if self.is_tolerant && self.samples[1].is_none_or(is_due) {
            let mut piece = vec![0; SAMPLE.min(usize::try_from(at - begin).unwrap_or(SAMPLE))];
            // If this read fails, reading the last piece will fail as well.
            if self.read_at(begin, &mut piece).is_ok() {
                self.take_samples(begin, &piece);
            }
        }
        self.give_back();
        Ok(at - begin)
    }

    /// Returns whether the next bytes, at most `most`, are probably in the kernel's cache: checks
    /// the first and the last of them.
    pub fn is_cached(&self, most: u64) -> bool {
        let last = self.at + most.min(self.remaining()).saturating_sub(1);
        [self.at, last].into_iter().all(|offset| {
            let mut byte = [0];
            let place = &mut [IoSliceMut::new(&mut byte)];
            preadv2(&self.file, place, offset, ReadWriteFlags::NOWAIT) == Ok(1)
        })
    }

    /// Waits until the next bytes, at most `most`, are in the kernel's cache, and makes it load as
    /// many after them. Failures are left for [`Self::send`] and [`Self::read`] to report.
    pub fn load(&self, most: u64) {
        let wanted = most.min(self.remaining());
        let _ = fadvise(&self.file, self.at, NonZeroU64::new(wanted * 2), Advice::WillNeed);
        let end = self.at + wanted;
        let mut offset = self.at;
        while offset < end && self.read_at(offset, &mut [0]).is_ok() {
            offset = (offset + LOAD_STEP).min(end.saturating_sub(1)).max(offset + 1);
        }
    }

    /// Records samples of a piece that was read at `begin`.
    fn take_samples(&mut self, begin: u64, piece: &[u8]) {
        let [first, latest] = &mut self.samples;
        first.get_or_insert_with(|| Sample::of(begin, &piece[..piece.len().min(SAMPLE)]));
        let skipped = piece.len().saturating_sub(SAMPLE);
        *latest = Some(Sample::of(begin + skipped as u64, &piece[skipped..]));
    }

    /// Tells the kernel to drop what was read. This is only advice, so a failure changes no result.
    ///
    /// The kernel caches a file in pieces of up to some MiB, and keeps a piece unless all of it is
    /// named. Each call therefore begins with the piece in which the previous call ended, and the
    /// last call names the whole file.
    fn give_back(&mut self) {
        let Some(from) = self.forgotten else { return };
        if self.remaining() == 0 {
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
            self.forgotten = None;
        } else if self.at - from >= GIVE_BACK {
            let length = NonZeroU64::new(self.at - from);
            let _ = fadvise(&self.file, from, length, Advice::DontNeed);
            self.forgotten = Some(self.at & !(PIECE - 1));
        }
    }
}
