//! The environment of the scripts: the machine's network and clock, or simulated ones.

use std::future::Future;
use std::io;
use std::time::Duration;

use net::socket::Socket;
use proxy::{Network, TokioClock};
use tokio::io::AsyncReadExt;

/// Maximum duration of any step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Clock, network and concurrency of a run.
#[derive(Clone)]
pub struct World {
    pub clock: TokioClock,
    pub network: Network,
    /// Number of tests played concurrently: most of them wait.
    pub players: usize,
}

/// Returns the result of `work`, or an error when the time is up.
pub async fn patiently<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Reads until `parse` finds a whole message in the bytes so far; its flag tells whether the
/// connection has ended. `parse` consumes the bytes of the message. Returns `None` if the
/// connection ended before its first byte.
pub async fn read_message<T>(
    from: &mut Socket,
    early: &mut Vec<u8>,
    parse: impl Fn(&mut &[u8], bool) -> io::Result<T>,
) -> io::Result<Option<T>> {
    let mut ended = false;
    loop {
        let mut rest = early.as_slice();
        match parse(&mut rest, ended) {
            Ok(message) => {
                let taken = early.len() - rest.len();
                early.drain(..taken);
                return Ok(Some(message));
            }
            Err(_) if ended && early.is_empty() => return Ok(None),
            Err(error) if ended => return Err(error),
            // The message is incomplete.
            Err(_) => ended = from.read_buf(early).await? == 0,
        }
    }
}
