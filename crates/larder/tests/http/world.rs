//! What the scripts are played in: the machine's network and clock, or simulated ones.

use std::future::Future;
use std::io;
use std::time::Duration;

use net::socket::Socket;
use proxy::{Network, TokioClock};
use tokio::io::AsyncReadExt;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Clone)]
pub struct World {
    pub clock: TokioClock,
    pub network: Network,
    /// Tests that are played at the same time: most of them wait.
    pub players: usize,
}

/// The result of `work`, which may take only so long.
pub async fn patiently<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Reads until `parse` finds a whole message in what has come so far (and whether that is all that
/// comes), which it says by the bytes that it took. `None`: the connection ended before its first
/// byte.
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
            // There is more to come.
            Err(_) => ended = from.read_buf(early).await? == 0,
        }
    }
}
