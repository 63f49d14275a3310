//! Bodies that the kernel can send from a file to a socket (`sendfile`), without copying their
//! bytes into this process.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body;

/// Result of an attempt to send the next bytes of a body from its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Bytes written to the socket; they are no longer part of the body.
    Bytes(u64),
    /// The socket accepts no bytes now.
    Full,
    /// The next bytes, or an error instead of them, must be taken as a frame of the body.
    Frames,
}

/// Body that is a file, or ranges of one.
pub trait SendFile: Body<Data = Bytes, Error = io::Error> {
    /// Returns whether the body is long enough for the kernel to send it, and prepares for that.
    /// Must be called before the first frame is taken. Frames still return all bytes that the
    /// kernel was not asked to send.
    fn prefers_kernel(&mut self) -> bool;

    /// Lets the kernel send the next bytes to `socket`, which must be non-blocking. Waits if they
    /// must first be read from disk.
    fn poll_send(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<Sent>;
}
