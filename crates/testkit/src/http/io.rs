//! Reading into a buffer, and waiting with a time limit.

use std::io::{self, ErrorKind, Read};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum duration of any step before a test counts as stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats `probe` until it returns true; returns false if [`PATIENCE`] is over first.
pub fn eventually(mut probe: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if probe() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Returns whether a read ended because nothing came in time.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads more from a blocking stream; returns false at its end.
pub(crate) fn fill(stream: &mut impl Read, buffer: &mut BytesMut) -> io::Result<bool> {
    let filled = buffer.len();
    buffer.resize(filled + (16 << 10), 0);
    let read = stream.read(&mut buffer[filled..]);
    buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
    Ok(read? > 0)
}

/// Reads more from an asynchronous stream, also into `received`; returns false at its end.
pub(crate) async fn read_more(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    received: &mut Vec<u8>,
) -> io::Result<bool> {
    let filled = buffer.len();
    let more = stream.read_buf(buffer).await? > 0;
    received.extend_from_slice(&buffer[filled..]);
    Ok(more)
}
