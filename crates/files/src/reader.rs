//! The bytes of a file, all of one version.
//!
//! It promises: a caller that gets the last piece got the bytes of the version, and nothing else;
//! what was changed meanwhile ends in [`ReadError::Changed`] before the last piece is given out. So
//! an answer that is not cut short is never made of old and new bytes. See [`crate::Version`] for
//! what the kernel does not tell.
//!
//! A [tolerant](Reader::tolerant) reader accepts more, for bodies that are under way and cannot
//! begin anew: changes of permissions and names, and bytes appended behind the version. A file that
//! has become longer must still have samples of the bytes that were read, so that one that was
//! emptied and written anew is noticed. Not noticed are a few bytes that are changed in place
//! before `mtime` is set back or bytes are appended.

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

/// How much is read before the kernel is told to forget it.
const GIVE_BACK: u64 = 8 << 20;

/// The size of the kernel's pieces of a file in memory; most are smaller.
const PIECE: u64 = 2 << 20;

/// The distance between the samples that are taken of bytes that the kernel sends.
const SAMPLE_STEP: u64 = 1 << 20;

/// The distance between the bytes by which the kernel is waited for while it loads a part of a
/// file: it reads in requests of about this size.
const LOAD_STEP: u64 = 64 << 10;

/// Bytes of a sample.
const SAMPLE: usize = 4 << 10;

/// Bytes that were read, by their hash.
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

/// Why a read ended.
#[derive(Debug)]
pub enum ReadError {
    /// The file is no longer of the version that it was opened as.
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

/// A file that is being read from its beginning to its end, or a range of it.
#[derive(Debug)]
pub struct Reader<F = OwnedFd> {
    file: F,
    version: Version,
    at: u64,
    /// Where it stops.
    end: u64,
    is_tolerant: bool,
    /// Of a tolerant reader: of the first piece and of the latest.
    samples: [Option<Sample>; 2],
    /// From where on the kernel has yet to be told to forget what it read; `None` when it may keep
    /// it, or was told.
    forgotten: Option<u64>,
}

impl<F: AsFd> Reader<F> {
    /// Begins to read. With `forget` the kernel is asked to drop from its cache what was read,
    /// since it goes into another one.
    pub(crate) fn new(file: F, version: Version, forget: bool) -> Reader<F> {
        let (end, forgotten) = (version.size, forget.then_some(0));
        Reader { file, version, at: 0, end, is_tolerant: false, samples: [None; 2], forgotten }
    }

    /// Accepts changes that leave the bytes of the version in place, as far as size and `mtime`
    /// tell, and checks with each piece that the file has not become shorter.
    pub fn tolerant(self) -> Reader<F> {
        Reader { is_tolerant: true, ..self }
    }

    /// Reads nothing but a range, from its beginning. What lies behind the end of the file is left
    /// out.
    pub fn within(mut self, range: ByteRange) -> Reader<F> {
        self.end = range.end.min(self.version.size);
        self.at = range.start.min(self.end);
        self.forgotten = self.forgotten.map(|_| self.at & !(PIECE - 1));
        self
    }

    /// Returns the version whose bytes these are.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns how many bytes are still to be read.
    pub fn remaining(&self) -> u64 {
        self.end - self.at
    }

    /// Reads on and fills `buffer`, but for the last piece; returns the length. 0 says that all was
    /// read, or that there is no room in `buffer`. Before the last piece is given out the version
    /// is checked.
    ///
    /// # Errors
    ///
    /// When the file was changed or cannot be read. Reading on is pointless then.
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

    /// Reads all the rest if no disk need be asked for it; else returns `None`, and has read
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_cached(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let Ok(length) = usize::try_from(self.remaining()) else { return Ok(None) };
        let mut buffer = vec![0; length];
        let place = &mut [IoSliceMut::new(&mut buffer)];
        // What the kernel cannot do it says by various errors; the read that may wait tells more.
        if preadv2(&self.file, place, self.at, ReadWriteFlags::NOWAIT) != Ok(length) {
            return Ok(None);
        }
        self.at = self.end;
        self.verify()?;
        self.give_back();
        Ok(Some(buffer))
    }

    /// Reads all the rest.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_rest(&mut self) -> Result<Vec<u8>, ReadError> {
        let length = usize::try_from(self.remaining()).map_err(|_| ReadError::Changed)?;
        let mut buffer = vec![0; length];
        self.read(&mut buffer)?;
        Ok(buffer)
    }

    /// Fills `buffer` with the bytes at `offset`, whatever was read before. The version is not
    /// checked but for the length: see [`Self::verify`].
    ///
    /// # Errors
    ///
    /// When the file ends before `buffer` is full, or cannot be read.
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

    /// Checks that the file is still of the version, so that all that was read until now is.
    ///
    /// # Errors
    ///
    /// When it is not, or the kernel cannot say.
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

    /// Has the kernel send the next bytes, at most `most`, to a socket that does not block, and
    /// returns how many that were. Waits for the disk, if they are not [at hand](Self::is_cached).
    /// First the version is checked, for what was sent before: what is sent last is to be
    /// [read](Self::read) instead.
    ///
    /// # Errors
    ///
    /// When the file was changed, the socket takes nothing now (`WouldBlock`), or the kernel cannot
    /// send the file. After any but the first nothing was sent, and reading may go on.
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
            // What keeps it from being read keeps the last piece from being read, too.
            if self.read_at(begin, &mut piece).is_ok() {
                self.take_samples(begin, &piece);
            }
        }
        self.give_back();
        Ok(at - begin)
    }

    /// Returns whether the next bytes, at most `most`, are probably in the kernel's cache: the
    /// first and the last of them are.
    pub fn is_cached(&self, most: u64) -> bool {
        let last = self.at + most.min(self.remaining()).saturating_sub(1);
        [self.at, last].into_iter().all(|offset| {
            let mut byte = [0];
            let place = &mut [IoSliceMut::new(&mut byte)];
            preadv2(&self.file, place, offset, ReadWriteFlags::NOWAIT) == Ok(1)
        })
    }

    /// Waits until the next bytes, at most `most`, are in the kernel's cache, and has it go on with
    /// as many behind them. A failure is left to [`Self::send`] and [`Self::read`].
    pub fn load(&self, most: u64) {
        let wanted = most.min(self.remaining());
        let _ = fadvise(&self.file, self.at, NonZeroU64::new(wanted * 2), Advice::WillNeed);
        let end = self.at + wanted;
        let mut offset = self.at;
        while offset < end && self.read_at(offset, &mut [0]).is_ok() {
            offset = (offset + LOAD_STEP).min(end.saturating_sub(1)).max(offset + 1);
        }
    }

    /// Notes samples of a piece that was read from `begin` on.
    fn take_samples(&mut self, begin: u64, piece: &[u8]) {
        let [first, latest] = &mut self.samples;
        first.get_or_insert_with(|| Sample::of(begin, &piece[..piece.len().min(SAMPLE)]));
        let skipped = piece.len().saturating_sub(SAMPLE);
        *latest = Some(Sample::of(begin + skipped as u64, &piece[skipped..]));
    }

    /// Tells the kernel to forget what was read. Advice: that it fails changes no answer.
    ///
    /// The kernel keeps its pages in pieces of up to some MiB, and keeps a piece that is not asked
    /// for whole. So every time begins a piece earlier than the last time ended, and in the end the
    /// whole file is named.
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
