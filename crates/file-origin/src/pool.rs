//! Work that may wait for a disk, on threads apart from the workers'.

use std::io;

/// Runs `work` on such a thread.
///
/// # Errors
/// The program is ending, or the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
