//! Bodies that are read from files, one piece ahead of the consumer: a file, a range of it, or
//! several ranges as `multipart/byteranges`. A caller that has a socket may have the kernel send
//! the bytes between the first and the last piece ([`SendFile`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::{ReadError, Reader};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use semantics::multipart::Multipart;
use semantics::range::ByteRange;
use tokio::task::JoinHandle;
use upstream::connection::send_file::{SendFile, Sent};

use crate::origin::pool::Pool;
use crate::origin::transfers::Place;

/// Bytes in one read.
const PIECE: u64 = 256 << 10;

/// Files of up to this many bytes are read whole before their head is sent. If such a file changes
/// in the meantime, it is read again instead of cut.
pub(crate) const WHOLE_MAX: u64 = PIECE;

/// Number of emitted pieces whose memory is kept for reuse. It exceeds the number in flight, which
/// the consumer of the body bounds.
const GIVEN_MAX: usize = 4;

/// Maximum bytes that the kernel sends in one call, and that are loaded from the disk at a time.
const SENT_AT_ONCE: u64 = 1 << 20;

/// A piece, and the reader for the bytes after it. The piece is empty if the bytes were only loaded
/// into the page cache.
type Piece = io::Result<(Reader, Bytes)>;

/// The bytes of a file, or of ranges of it.
pub(crate) struct FileBody {
    /// Bytes that were read but not yet taken.
    ready: Option<Bytes>,
    /// The ranges that follow, each with the bytes that precede it.
    parts: VecDeque<(Bytes, ByteRange)>,
    /// The bytes after the last range.
    closing: Option<Bytes>,
    /// The read of the next piece.
    reading: Option<JoinHandle<Piece>>,
    /// The latest emitted pieces: allocating new memory for each would cost more than reading.
    given: VecDeque<Bytes>,
    /// Bytes that the body has yet to emit.
    left: u64,
    /// Set while there is more to read.
    open: Option<(Pool, Place)>,
    kernel: Kernel,
}

/// The kernel's part in sending a body.
#[derive(Default)]
enum Kernel {
    /// All bytes are read and emitted as frames.
    #[default]
    Off,
    /// A piece is being read; the kernel sends the bytes after it.
    On,
    /// The kernel sends next. The page cache is known to hold this many of the next bytes.
    Next(Box<Reader>, u64),
    /// `reading` is loading the next bytes into the page cache.
    Loading,
    /// The file has changed or could not be loaded: the next frame is this error.
    Broken(io::Error),
}

impl FileBody {
    /// Creates a body from bytes in memory.
    pub fn of(bytes: Bytes) -> FileBody {
        let left = bytes.len() as u64;
        let ready = Some(bytes).filter(|bytes| !bytes.is_empty());
        let (parts, given) = (VecDeque::new(), VecDeque::new());
        let (closing, reading, open, kernel) = (None, None, None, Kernel::Off);
        FileBody { ready, parts, closing, reading, given, left, open, kernel }
    }

    /// Returns all bytes of the body if they are in memory.
    pub fn whole(&self) -> Option<&Bytes> {
        self.ready.as_ref().filter(|ready| ready.len() as u64 == self.left)
    }

    /// Creates a body of all that a reader reads, and begins to read it.
    pub fn read(reader: Reader, pool: Pool, place: Place) -> FileBody {
        let (left, open) = (reader.remaining(), Some((pool, place)));
        let mut body = FileBody::of(Bytes::new());
        (body.left, body.open) = (left, open);
        body.read_on(reader);
        body
    }

    /// Creates a body of several ranges, and begins to read the first.
    pub fn read_parts(reader: Reader, frame: &Multipart, pool: Pool, place: Place) -> FileBody {
        let mut body = FileBody::of(Bytes::new());
        (body.left, body.open) = (frame.total_length(), Some((pool, place)));
        body.parts = frame.parts().iter().cloned().collect();
        body.closing = Some(frame.closing());
        body.read_on(reader.within(ByteRange { start: 0, end: 0 }));
        body
    }

    /// Reads the next piece, or leaves the following bytes to the kernel.
    fn go_on(&mut self, reader: Reader) {
        match self.kernel {
            Kernel::On if reader.remaining() > PIECE => {
                self.kernel = Kernel::Next(Box::new(reader), 0);
            }
            _ => self.read_on(reader),
        }
    }

    /// Makes the next frame an error.
    fn break_off(&mut self, error: impl Into<io::Error>) -> Poll<Sent> {
        self.kernel = Kernel::Broken(error.into());
        Poll::Ready(Sent::Frames)
    }

    /// Begins to load the next bytes into the page cache.
    fn load(&mut self, reader: Reader) {
        let Some((pool, _)) = &self.open else { return };
        let (pool, length) = (pool.clone(), SENT_AT_ONCE.min(reader.remaining()));
        let load = move || {
            reader.load(length);
            (reader, Bytes::new())
        };
        self.reading = Some(tokio::spawn(async move { pool.run(load).await }));
        self.kernel = Kernel::Loading;
    }

    fn read_on(&mut self, mut reader: Reader) {
        if reader.remaining() == 0 {
            let Some((head, range)) = self.parts.pop_front() else {
                (self.ready, self.open) = (self.closing.take(), None);
                return;
            };
            self.ready = Some(head);
            reader = reader.within(range);
        }
        let buffer = self.free_buffer();
        let Some((pool, _)) = &self.open else { return };
        let pool = pool.clone();
        let reading = async move { pool.run(move || read_piece(reader, buffer)).await? };
        self.reading = Some(tokio::spawn(reading));
    }

    /// Records an emitted piece for reuse of its memory.
    fn note_given(&mut self, bytes: &Bytes) {
        if self.given.len() == GIVEN_MAX {
            self.given.pop_front();
        }
        self.given.push_back(bytes.clone());
    }

    /// Returns the memory of the oldest emitted piece if nothing else uses it any more.
    fn free_buffer(&mut self) -> Option<BytesMut> {
        match self.given.pop_front()?.try_into_mut() {
            Ok(buffer) => Some(buffer),
            Err(used) => {
                self.given.push_front(used);
                None
            }
        }
    }
}

/// Reads a piece, into `buffer` if that is large enough. Reading the last piece also checks the
/// version, so the body ends cleanly only if all bytes are of one version.
fn read_piece(mut reader: Reader, buffer: Option<BytesMut>) -> Piece {
    let length = usize::try_from(reader.remaining().min(PIECE)).map_err(io::Error::other)?;
    let fitting = buffer.filter(|buffer| buffer.len() >= length);
    let mut buffer = fitting.unwrap_or_else(|| BytesMut::zeroed(length));
    buffer.truncate(length);
    reader.read(&mut buffer).map_err(io::Error::other)?;
    Ok((reader, buffer.freeze()))
}

impl Drop for FileBody {
    fn drop(&mut self) {
        // A read that still waits for a place gives up and closes its descriptor.
        self.reading.iter().for_each(JoinHandle::abort);
    }
}

impl SendFile for FileBody {
    fn prefers_kernel(&mut self) -> bool {
        let is_long = self.reading.is_some() && self.left >= SENT_AT_ONCE;
        if let (true, Kernel::Off) = (is_long, &self.kernel) {
            self.kernel = Kernel::On;
        }
        is_long
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent> {
        loop {
            let (mut reader, at_hand) = match (std::mem::take(&mut self.kernel), &mut self.reading)
            {
                (Kernel::Next(reader, at_hand), _) => (reader, at_hand),
                (Kernel::Loading, Some(loading)) => {
                    self.kernel = Kernel::Loading;
                    let loaded = ready!(Pin::new(loading).poll(cx));
                    self.reading = None;
                    match loaded.map_err(io::Error::other).flatten() {
                        Ok((reader, _)) => (Box::new(reader), SENT_AT_ONCE),
                        Err(error) => return self.break_off(error),
                    }
                }
                (kernel, _) => {
                    self.kernel = kernel;
                    return Poll::Ready(Sent::Frames);
                }
            };
            let last = reader.remaining() - PIECE;
            let most = last.min(if at_hand > 0 { at_hand } else { SENT_AT_ONCE });
            if at_hand == 0 && !reader.is_cached(most) {
                self.load(*reader);
                continue;
            }
            let sent = match reader.send(socket, most) {
                Ok(sent) => sent,
                Err(ReadError::Changed) => {
                    return self.break_off(io::Error::other(ReadError::Changed));
                }
                Err(ReadError::Io(error)) => {
                    self.kernel = Kernel::Next(reader, most);
                    return match error.kind() {
                        io::ErrorKind::WouldBlock => Poll::Ready(Sent::Full),
                        // The read or write that follows reports the error.
                        _ => Poll::Ready(Sent::Frames),
                    };
                }
            };
            self.left -= sent;
            match reader.remaining() > PIECE {
                true => self.kernel = Kernel::Next(reader, most - sent),
                false => {
                    self.kernel = Kernel::On;
                    self.read_on(*reader);
                }
            }
            return Poll::Ready(Sent::Bytes(sent));
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let bytes = loop {
            match std::mem::take(&mut self.kernel) {
                Kernel::Broken(error) => return Poll::Ready(Some(Err(error))),
                Kernel::Next(reader, _) => self.read_on(*reader),
                Kernel::Loading => self.kernel = Kernel::Loading,
                kernel @ (Kernel::Off | Kernel::On) => self.kernel = kernel,
            }
            match (self.ready.take(), &mut self.reading) {
                (Some(bytes), _) => break bytes,
                (None, None) => return Poll::Ready(None),
                (None, Some(reading)) => {
                    let read = ready!(Pin::new(reading).poll(cx));
                    self.reading = None;
                    let (reader, bytes) = read.map_err(io::Error::other)??;
                    if let Kernel::Loading = self.kernel {
                        self.kernel = Kernel::Off;
                        self.read_on(reader);
                        continue;
                    }
                    self.go_on(reader);
                    self.note_given(&bytes);
                    break bytes;
                }
            }
        };
        self.left -= bytes.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
