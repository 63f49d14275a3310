//! Socket below TLS. It tracks record boundaries in the bytes read (RFC 8446, 5.1), to detect
//! whether an idle connection has part of a record in the TLS buffers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use net::socket::Socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket, and the position in the stream of records read from it.
pub(crate) struct TlsTransport {
    socket: Socket,
    records: Records,
}

impl TlsTransport {
    /// Creates the transport of a socket that has not been read from.
    pub fn new(socket: Socket) -> TlsTransport {
        TlsTransport { socket, records: Records::default() }
    }

    /// See [`Socket::read_now`].
    pub fn read_now(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read_now(buf)?;
        self.records.follow(&buf[..count]);
        Ok(count)
    }

    /// See [`Socket::acknowledge_at_once`].
    pub fn acknowledge_at_once(&self) {
        self.socket.acknowledge_at_once();
    }

    /// See [`Socket::has_unacknowledged`].
    pub fn has_unacknowledged(&self) -> bool {
        self.socket.has_unacknowledged()
    }

    /// Returns whether the bytes read end at a record boundary.
    pub fn is_between_records(&self) -> bool {
        self.records.is_between()
    }
}

impl AsyncRead for TlsTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        self.records.follow(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for TlsTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Length of a record header in bytes: type, version, length.
const HEADER: usize = 5;

/// Position in a stream of records.
#[derive(Debug, Default)]
struct Records {
    /// Bytes of the header read so far.
    of_header: usize,
    /// Bytes of the record still to come. While the header is read, the first length byte.
    left: usize,
}

impl Records {
    /// Processes the next bytes of the stream.
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.of_header == HEADER {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = &bytes[count..];
            } else {
                self.of_header += 1;
                if self.of_header >= HEADER - 1 {
                    self.left = self.left << 8 | usize::from(first);
                }
                bytes = rest;
            }
            if self.of_header == HEADER && self.left == 0 {
                *self = Records::default();
            }
        }
    }

    fn is_between(&self) -> bool {
        self.of_header == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_boundaries_are_tracked_in_any_pieces() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for length in [0, 1, 255, 256, 300, 5, 0, 16_640] {
            bytes.extend_from_slice(&[23, 3, 3, (length >> 8) as u8, length as u8]);
            bytes.extend(std::iter::repeat_n(7, length));
            ends.push(bytes.len());
        }
        for size in [1, 2, 3, 5, 7, 100, 305, 20_000] {
            let (mut records, mut read) = (Records::default(), 0);
            for piece in bytes.chunks(size) {
                records.follow(piece);
                read += piece.len();
                assert_eq!(records.is_between(), ends.contains(&read), "{read} by {size}");
            }
        }
    }
}
