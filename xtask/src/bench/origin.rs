//! An origin on one thread that serves `/store/SIZE/ID`, `/vary/SIZE/ID`, `/pass/SIZE/ID` and the
//! documents of fleets, `/page/GROUP/ID-SIZE`.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::scenario;

/// The running origin; it ends with the process.
pub struct Origin {
    address: SocketAddr,
    served: Arc<Served>,
}

/// Responses so far.
#[derive(Default)]
struct Served {
    requests: AtomicU64,
}

impl Origin {
    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of responses so far.
    pub fn served(&self) -> u64 {
        self.served.requests.load(Ordering::Relaxed)
    }
}

/// Starts the origin in a thread; it takes `delay` for each response.
///
/// # Errors
///
/// When no socket can be opened.
pub fn start(delay: Duration) -> Result<Origin, String> {
    let fail = |e: std::io::Error| format!("the origin: {e}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let served = Arc::new(Served::default());
    let counter = served.clone();
    thread::spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let counter = Rc::new(counter);
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let counter = counter.clone();
                tokio::task::spawn_local(async move { serve(stream, delay, &counter).await });
            }
        });
    });
    Ok(Origin { address, served })
}

async fn serve(mut stream: TcpStream, delay: Duration, served: &Served) {
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
        let Some(object) = Asked::read(&buffer[..end]) else { return };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // Counted before the response is sent, so that a client that has received it sees it
        // counted.
        served.requests.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(&object.answer()).await.is_err() {
            return;
        }
        buffer.copy_within(end + 4..filled, 0);
        filled -= end + 4;
    }
}

const STORED: &str = "Cache-Control: max-age=86400\r\n";
const VARIED: &str = "Cache-Control: max-age=86400\r\nVary: Accept-Encoding\r\n";
const PASSED: &str = "Cache-Control: no-store\r\n";

/// The requested object.
#[derive(Debug, PartialEq)]
struct Asked {
    /// Fields of the response.
    fields: &'static str,
    size: usize,
    object: u64,
}

impl Asked {
    /// Parses the head of a request; returns `None` if it is for no object of this origin.
    fn read(head: &[u8]) -> Option<Asked> {
        let line = head.split(|b| *b == b'\r').next()?;
        let path = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
        let mut parts = path.trim_start_matches('/').split('/');
        let (word, first, second) = (parts.next()?, parts.next()?, parts.next()?);
        let (fields, object, size) = match word {
            "store" => (STORED, second, first),
            "vary" => (VARIED, second, first),
            "pass" => (PASSED, second, first),
            "page" => {
                let (object, size) = second.split_once('-')?;
                (STORED, object, size)
            }
            _ => return None,
        };
        let (object, size) = (object.parse().ok()?, size.parse().ok()?);
        Some(Asked { fields, size, object })
    }

    fn answer(&self) -> Vec<u8> {
        let Asked { fields, size, object } = self;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\
             ETag: \"{object}\"\r\nContent-Length: {size}\r\n\r\n"
        );
        let mut answer = head.into_bytes();
        answer.extend_from_slice(&scenario::body(*object, *size));
        answer
    }
}

#[test]
fn what_is_asked_for_is_read_off_the_path() {
    let read = |path: &str| Asked::read(format!("GET {path} HTTP/1.1\r\nHost: x").as_bytes());
    let asked = |fields, size, object| Some(Asked { fields, size, object });
    assert_eq!(read("/store/3000/7"), asked(STORED, 3_000, 7));
    assert_eq!(read("/vary/3000/7"), asked(VARIED, 3_000, 7));
    assert_eq!(read("/pass/3000/7"), asked(PASSED, 3_000, 7));
    assert_eq!(read("/page/2/64-500"), asked(STORED, 500, 64));
    assert_eq!(read("/favicon.ico"), None);
}
