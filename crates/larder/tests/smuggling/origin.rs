//! An origin server that records the received bytes, and parses them strictly. Its responses can be
//! given byte for byte, too.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::answers::EVIL;
use crate::strict::{self, Read, Request};

/// A result of parsing the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Request(Request),
    /// Bytes that are not a request, and the error.
    Malformed(String),
    /// The beginning of a request that never ended: its first line.
    Unfinished(String),
}

/// The response for a path.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pieces that are sent one after another, with a pause between them.
    pub pieces: Vec<Vec<u8>>,
    /// True if it closes the connection after them.
    pub close: bool,
}

#[derive(Default)]
struct Record {
    seen: Vec<Seen>,
    plans: HashMap<String, Plan>,
    /// Number of responses sent completely.
    answered: usize,
}

/// The running server. It ends with the process.
pub struct Origin {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

/// Pause between the pieces of a response.
const PAUSE: Duration = Duration::from_millis(30);

/// Time for the other side to notice unexpected bytes.
const NOTICE: Duration = Duration::from_secs(3);

/// The response for paths without a plan.
const USUAL: &[u8] =
    b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\nusual";

impl Origin {
    /// Starts the server on a free port of the loopback interface.
    pub fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = listener.local_addr().expect("a bound address");
        let record = Arc::<Mutex<Record>>::default();
        let theirs = record.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (Ok(connection), record) = (connection, theirs.clone()) else { continue };
                thread::spawn(move || serve(connection, &record));
            }
        });
        Origin { address, record }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the response for a path from now on.
    pub fn plan(&self, path: &str, plan: Plan) {
        self.record.lock().expect("whole").plans.insert(path.to_owned(), plan);
    }

    /// Returns the number of responses sent, with all their pieces.
    pub fn answered(&self) -> usize {
        self.record.lock().expect("whole").answered
    }

    /// Returns everything received since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.record.lock().expect("whole").seen)
    }
}

fn serve(mut connection: TcpStream, record: &Mutex<Record>) {
    let _ = connection.set_nodelay(true);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    let note = |seen| record.lock().expect("whole").seen.push(seen);
    loop {
        match strict::read(&bytes) {
            Read::Whole(request, length) => {
                bytes.drain(..length);
                let path = request.target.split('?').next().unwrap_or_default().to_owned();
                note(Seen::Request(request));
                let plan = record.lock().expect("whole").plans.get(&path).cloned();
                let usual = || Plan { pieces: vec![USUAL.to_vec()], close: false };
                let stays = answer(&mut connection, &plan.unwrap_or_else(usual));
                record.lock().expect("whole").answered += 1;
                if !stays {
                    return;
                }
            }
            Read::Malformed(why) => {
                note(Seen::Malformed(why));
                return;
            }
            Read::More => match connection.read(&mut buffer) {
                Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
                _ => {
                    if !bytes.is_empty() {
                        let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
                        note(Seen::Unfinished(String::from_utf8_lossy(line).into_owned()));
                    }
                    return;
                }
            },
        }
    }
}

/// Returns whether the other side closes the connection after it received unexpected bytes. It
/// sends no request meanwhile.
fn is_given_up(connection: &mut TcpStream) -> bool {
    let _ = connection.set_read_timeout(Some(NOTICE));
    let given_up = match connection.read(&mut [0]) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    let _ = connection.set_read_timeout(None);
    given_up
}

/// Sends a response; returns false when the connection is over.
fn answer(connection: &mut TcpStream, plan: &Plan) -> bool {
    for (number, piece) in plan.pieces.iter().enumerate() {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        if connection.write_all(piece).is_err() {
            return false;
        }
        if number > 0 && piece == EVIL.as_bytes() && is_given_up(connection) {
            return false;
        }
    }
    if plan.close {
        let _ = connection.shutdown(Shutdown::Both);
    }
    !plan.close
}
