//! A fast origin: answers `/store/SIZE/ID` and `/pass/SIZE/ID` from one thread.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::scenario;

/// The running origin; it ends with the process.
pub struct Origin {
    address: SocketAddr,
    served: Arc<AtomicU64>,
}

impl Origin {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered so far.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

/// Starts the origin in a thread.
///
/// # Errors
///
/// When no socket can be had.
pub fn start() -> Result<Origin, String> {
    let fail = |e: std::io::Error| format!("the origin: {e}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(fail)?;
    let served = Arc::new(AtomicU64::new(0));
    let counter = served.clone();
    thread::spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let counter = Rc::new(counter);
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let counter = counter.clone();
                tokio::task::spawn_local(async move { serve(stream, &counter).await });
            }
        });
    });
    Ok(Origin { address, served })
}

async fn serve(mut stream: TcpStream, served: &AtomicU64) {
    let _ = stream.set_nodelay(true);
    let (mut buffer, mut filled) = (vec![0; 16 << 10], 0);
    loop {
        let Ok(got @ 1..) = stream.read(&mut buffer[filled..]).await else { return };
        filled += got;
        let Some(end) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") else {
            if filled == buffer.len() {
                return;
            }
            continue;
        };
        let Some(answer) = answer(&buffer[..end]) else { return };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
        served.fetch_add(1, Ordering::Relaxed);
        buffer.copy_within(end + 4..filled, 0);
        filled -= end + 4;
    }
}

/// The answer to a request with this head; `None` when it is none of ours.
fn answer(head: &[u8]) -> Option<Vec<u8>> {
    let line = head.split(|b| *b == b'\r').next()?;
    let path = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let mut parts = path.trim_start_matches('/').split('/');
    let control = match parts.next()? {
        "store" => "max-age=86400",
        "pass" => "no-store",
        _ => return None,
    };
    let size = parts.next()?.parse().ok()?;
    let object = parts.next()?.parse().ok()?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: {control}\r\n\
         ETag: \"{object}\"\r\nContent-Length: {size}\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    answer.extend_from_slice(&scenario::body(object, size));
    Some(answer)
}
