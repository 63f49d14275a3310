//! Bodies that are read from files, one piece ahead of the reader.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use files::Reader;
use http_body::{Body, Frame, SizeHint};
use semantics::range::ByteRange;
use tokio::task::JoinHandle;

/// Bytes that are read at once.
const PIECE: u64 = 256 << 10;

/// Files of so many bytes are read whole before their head is sent: then what changes meanwhile is
/// read again instead of cut.
pub(crate) const WHOLE_MAX: u64 = PIECE;

type Piece = (Reader, io::Result<Bytes>);

/// The bytes of a file or of a range of it.
pub(crate) struct FileBody {
    /// Read and not taken yet.
    ready: Option<Bytes>,
    /// The next piece.
    reading: Option<JoinHandle<Piece>>,
    /// What is still to be read.
    rest: ByteRange,
    /// Bytes that the body has still to give.
    left: u64,
}

impl FileBody {
    /// Makes a body of bytes that are there.
    pub fn of(bytes: Bytes) -> FileBody {
        let left = bytes.len() as u64;
        let rest = ByteRange { start: 0, end: 0 };
        FileBody { ready: Some(bytes).filter(|bytes| !bytes.is_empty()), reading: None, rest, left }
    }

    /// Makes a body of a range of a file, and begins to read it.
    pub fn range(reader: Reader, range: ByteRange) -> FileBody {
        let mut body = FileBody { ready: None, reading: None, rest: range, left: range.count() };
        body.read_on(reader);
        body
    }

    fn read_on(&mut self, reader: Reader) {
        if self.rest.start >= self.rest.end {
            return;
        }
        let piece =
            ByteRange { start: self.rest.start, end: self.rest.end.min(self.rest.start + PIECE) };
        let is_last = piece.end == self.rest.end;
        self.rest.start = piece.end;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            let bytes = read_piece(&reader, piece, is_last);
            (reader, bytes)
        }));
    }
}

/// Reads a piece. With the last one the version is checked, so that the end comes only when all was
/// of one version.
fn read_piece(reader: &Reader, piece: ByteRange, is_last: bool) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(usize::try_from(piece.count()).map_err(io::Error::other)?);
    let read = reader.read_at(piece.start, &mut buffer);
    let read = if is_last { read.and_then(|()| reader.verify()) } else { read };
    read.map_err(io::Error::other)?;
    Ok(buffer.freeze())
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
                let (reader, bytes) = read.map_err(io::Error::other)?;
                let bytes = bytes?;
                self.read_on(reader);
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
