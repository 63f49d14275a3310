//! Bodies that the kernel can send from a file to a socket (`sendfile`), so that their bytes are
//! never copied into this program.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body;

/// The result of an attempt to send the next bytes of a body from its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Number of bytes that went to the socket; they are no longer part of the body.
    Bytes(u64),
    /// The socket takes nothing now.
    Full,
    /// The next bytes, or the error in place of them, come as a frame of the body.
    Frames,
}

/// A body that is a file, or ranges of one.
pub trait SendFile: Body<Data = Bytes, Error = io::Error> {
    /// Returns whether the body is long enough for the kernel to send it, and prepares for that. To
    /// be called before the first frame is taken. Frames still bring all of the body, as far as the
    /// kernel is not asked to send it.
    fn prefers_kernel(&mut self) -> bool;

    /// Has the kernel send the next bytes to `socket`, which must not block, or waits until they
    /// have been read from the disk.
    fn poll_send(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent>;
}
