//! Bodies that are read from files, one piece ahead of the reader: a file, a range of it, or
//! several as `multipart/byteranges`.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use files::Reader;
use http_body::{Body, Frame, SizeHint};
use semantics::multipart::Multipart;
use semantics::range::ByteRange;
use tokio::task::JoinHandle;

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

/// A piece, and what reads on behind it.
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
}

impl FileBody {
    /// Makes a body of bytes that are there.
    pub fn of(bytes: Bytes) -> FileBody {
        let left = bytes.len() as u64;
        let ready = Some(bytes).filter(|bytes| !bytes.is_empty());
        let (parts, given) = (VecDeque::new(), VecDeque::new());
        FileBody { ready, parts, closing: None, reading: None, given, left, open: None }
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

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let bytes = match (self.ready.take(), &mut self.reading) {
            (Some(bytes), _) => bytes,
            (None, None) => return Poll::Ready(None),
            (None, Some(reading)) => {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                let (reader, bytes) = read.map_err(io::Error::other)??;
                self.read_on(reader);
                self.note_given(&bytes);
                bytes
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
