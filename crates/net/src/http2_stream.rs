//! An HTTP/2 stream used as a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes that wait for room in the peer's flow control window.
pub const PIECE: usize = 16 << 10;

/// An HTTP/2 stream that is read and written like a socket.
pub struct StreamIo {
    /// The sending half.
    pub sink: SendStream<Bytes>,
    /// The receiving half.
    pub source: RecvStream,
    /// Bytes received from the source but not read yet.
    pub early: Bytes,
}

impl AsyncRead for StreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.early.is_empty() {
            match ready!(self.source.poll_data(cx)) {
                Some(data) => self.early = data.map_err(io::Error::other)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let n = self.early.len().min(buf.remaining());
        buf.put_slice(&self.early[..n]);
        self.early.advance(n);
        // This fails if the stream has ended.
        let _ = self.source.flow_control().release_capacity(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.sink.reserve_capacity(buf.len().min(PIECE));
        let room = ready!(poll_room(&mut self.sink, cx)).ok_or_else(gone)?;
        let n = room.min(buf.len()).min(PIECE);
        let piece = Bytes::copy_from_slice(&buf[..n]);
        Poll::Ready(self.sink.send_data(piece, false).map(|()| n).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection sends as fast as the peer accepts.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.sink.send_data(Bytes::new(), true).map_err(io::Error::other))
    }
}

/// Waits until some of the reserved send capacity is available and returns it in bytes; `None` if
/// the stream has ended.
pub fn poll_room(sink: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<Option<usize>> {
    loop {
        match sink.capacity() {
            0 => match ready!(sink.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            },
            room => return Poll::Ready(Some(room)),
        }
    }
}
