//! Bodies that are read from files, one piece ahead of the reader: a file, a range of it, or
//! several as `multipart/byteranges`. A caller that has a socket may have the kernel send what lies
//! between the first and the last piece ([`SendFile`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use files::{ReadError, Reader};
use http_body::{Body, Frame, SizeHint};
use semantics::multipart::Multipart;
use semantics::range::ByteRange;
use tokio::task::JoinHandle;
use upstream::connection::send_file::{SendFile, Sent};

use crate::pool::Pool;
use crate::transfers::Place;

/// Bytes that are read at once.
const PIECE: u64 = 256 << 10;

/// Files of so many bytes are read whole before their head is sent: then what changes meanwhile is
/// read again instead of cut.
pub(crate) const WHOLE_MAX: u64 = PIECE;

/// Pieces that were given out whose memory is kept to be used again: more than are under way at a
/// time, which the reader of the body bounds.
const GIVEN_MAX: usize = 4;

/// Bytes that the kernel sends at once at most, and that are loaded from the disk at once.
const SENT_AT_ONCE: u64 = 1 << 20;

/// A piece, and what reads on behind it. The piece is empty if the next bytes were only loaded.
type Piece = io::Result<(Reader, Bytes)>;

/// The bytes of a file, or of ranges of it.
pub(crate) struct FileBody {
    /// Read and not taken yet.
    ready: Option<Bytes>,
    /// The ranges that follow, and the bytes before each.
    parts: VecDeque<(Bytes, ByteRange)>,
    /// The bytes behind the last range.
    closing: Option<Bytes>,
    /// The next piece.
    reading: Option<JoinHandle<Piece>>,
    /// The latest pieces that were given out: new memory for each would cost more than reading.
    given: VecDeque<Bytes>,
    /// Bytes that the body has still to give.
    left: u64,
    /// While there is more to be read.
    open: Option<(Pool, Place)>,
    kernel: Kernel,
}

/// The part of the kernel in sending a body.
#[derive(Default)]
enum Kernel {
    /// All bytes are read and given out as frames.
    #[default]
    Off,
    /// A piece is being read; what follows is for the kernel.
    On,
    /// The kernel sends next. The page cache is known to hold so many of the next bytes.
    Next(Box<Reader>, u64),
    /// The next bytes are being loaded into the page cache, by `reading`.
    Loading,
    /// The file has changed, or could not be loaded: the next frame is this error.
    Broken(io::Error),
}

impl FileBody {
    /// Makes a body of bytes that are there.
    pub fn of(bytes: Bytes) -> FileBody {
        let left = bytes.len() as u64;
        let ready = Some(bytes).filter(|bytes| !bytes.is_empty());
        let (parts, given) = (VecDeque::new(), VecDeque::new());
        let (closing, reading, open, kernel) = (None, None, None, Kernel::Off);
        FileBody { ready, parts, closing, reading, given, left, open, kernel }
    }

    /// Returns all of its bytes, if they are there.
    pub fn whole(&self) -> Option<&Bytes> {
        self.ready.as_ref().filter(|ready| ready.len() as u64 == self.left)
    }

    /// Makes a body of all that a reader reads, and begins to read it.
    pub fn read(reader: Reader, pool: Pool, place: Place) -> FileBody {
        let (left, open) = (reader.remaining(), Some((pool, place)));
        let mut body = FileBody::of(Bytes::new());
        (body.left, body.open) = (left, open);
        body.read_on(reader);
        body
    }

    /// Makes a body of several ranges, and begins to read the first.
    pub fn read_parts(reader: Reader, frame: &Multipart, pool: Pool, place: Place) -> FileBody {
        let mut body = FileBody::of(Bytes::new());
        (body.left, body.open) = (frame.total_length(), Some((pool, place)));
        body.parts = frame.parts().iter().cloned().collect();
        body.closing = Some(frame.closing());
        body.read_on(reader.within(ByteRange { start: 0, end: 0 }));
        body
    }

    /// Reads on behind a piece, or has the kernel send what follows.
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

    /// Begins to read the next piece.
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

    /// Notes a piece that is given out.
    fn note_given(&mut self, bytes: &Bytes) {
        if self.given.len() == GIVEN_MAX {
            self.given.pop_front();
        }
        self.given.push_back(bytes.clone());
    }

    /// Returns the memory of the oldest piece that was given out, if nothing else uses it any more.
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

/// Reads a piece, into `buffer` if that is large enough. With the last one the version is checked,
/// so that the end comes only when all was of one version.
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
        // What has no place yet gives up, and its descriptor with it.
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
                        // Reading or writing finds out what is wrong.
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
