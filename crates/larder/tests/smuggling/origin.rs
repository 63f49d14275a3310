//! An origin server that records each request byte for byte, and parses it strictly ([`strict`]).
//! Its responses are given byte for byte, too.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use testkit::listener::serve_each;

use crate::answers::EVIL;
use crate::strict::{self, Read, Request};

/// Received bytes, and the result of parsing them.
#[derive(Clone, Debug)]
pub struct Seen {
    pub bytes: Vec<u8>,
    pub parsed: Parsed,
}

/// A result of parsing the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    Request(Request),
    /// Bytes that are not a request, and the error.
    Malformed(String),
    /// The beginning of a request that never ended.
    Unfinished,
}

/// A planned response.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pieces that are sent one after another, with a pause between them.
    pub pieces: Vec<Vec<u8>>,
    /// True if the connection is closed after them.
    pub close: bool,
}

#[derive(Default)]
struct Record {
    seen: Vec<Seen>,
    plans: HashMap<String, Plan>,
    /// Number of requests in progress.
    busy: usize,
    /// Number of responses sent completely.
    answered: usize,
}

#[derive(Default)]
struct Shared {
    record: Mutex<Record>,
    changed: Condvar,
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut Record) -> T) -> T {
        let result = look(&mut self.record.lock().expect("no thread panics under this lock"));
        self.changed.notify_all();
        result
    }
}

/// The running server. It ends with the process.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// Pause between the pieces of a response.
const PAUSE: Duration = Duration::from_millis(20);

/// Time for the other side to notice unexpected bytes.
const NOTICE: Duration = Duration::from_secs(3);

/// Maximum time until a response is sent.
const PATIENCE: Duration = Duration::from_secs(5);

impl Origin {
    /// Starts the server on a free port of the loopback interface.
    pub fn start() -> Origin {
        let shared = Arc::<Shared>::default();
        let server = shared.clone();
        let address = serve_each(move |connection| serve(connection, &server));
        Origin { address, shared }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds plans by `METHOD TARGET` or `TARGET`.
    pub fn plan(&self, plans: &[(String, Plan)]) {
        self.shared.with(|record| record.plans.extend(plans.iter().cloned()));
    }

    /// Returns the number of responses sent, with all their pieces.
    pub fn answered(&self) -> usize {
        self.shared.with(|record| record.answered)
    }

    /// Waits until more than `count` responses have been sent, or the time is up.
    pub fn await_answered(&self, count: usize) {
        let record = self.shared.record.lock().expect("no thread panics under this lock");
        let is_missing = |record: &mut Record| record.answered <= count;
        let _ = self.shared.changed.wait_timeout_while(record, PATIENCE, is_missing);
    }

    /// Returns everything received since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        self.shared.with(|record| std::mem::take(&mut record.seen))
    }

    /// Returns all requests and malformed bytes from number `from` on. How much of an aborted
    /// request was forwarded depends on timing.
    #[allow(dead_code)] // The comparison of two programs uses it.
    pub fn seen(&self, from: usize) -> Vec<Seen> {
        let is_complete = |seen: &&Seen| seen.parsed != Parsed::Unfinished;
        let complete = |record: &mut Record| {
            record.seen.iter().filter(is_complete).skip(from).cloned().collect()
        };
        self.shared.with(complete)
    }

    /// Returns whether no request is in progress.
    #[allow(dead_code)] // As above.
    pub fn is_idle(&self) -> bool {
        self.shared.with(|record| record.busy == 0)
    }
}

fn serve(mut connection: TcpStream, shared: &Shared) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    let note = |bytes, parsed| shared.with(|record| record.seen.push(Seen { bytes, parsed }));
    loop {
        match strict::read(&bytes) {
            Read::Whole(request, length) => {
                let raw: Vec<u8> = bytes.drain(..length).collect();
                let Request { method, target, .. } = request.clone();
                let plan = shared.with(|record| {
                    record.seen.push(Seen { bytes: raw, parsed: Parsed::Request(request) });
                    record.busy += 1;
                    let plan = record.plans.get(&format!("{method} {target}"));
                    plan.or_else(|| record.plans.get(&target)).cloned()
                });
                let stays = answer(&mut connection, &plan.unwrap_or_else(|| usual(&method)));
                shared.with(|record| {
                    record.busy -= 1;
                    record.answered += 1;
                });
                if !stays {
                    return;
                }
            }
            Read::Malformed(why) => return note(bytes, Parsed::Malformed(why)),
            Read::More => match connection.read(&mut buffer) {
                Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
                _ if bytes.is_empty() => return,
                _ => return note(bytes, Parsed::Unfinished),
            },
        }
    }
}

/// Returns the response for targets without a plan.
fn usual(method: &str) -> Plan {
    let body = if method == "HEAD" { "" } else { "usual" };
    let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\n";
    Plan { pieces: vec![format!("{head}{body}").into_bytes()], close: false }
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

/// Returns whether the other side closes the connection after it received unexpected bytes. It
/// sends no request meanwhile.
fn is_given_up(connection: &mut TcpStream) -> bool {
    let _ = connection.set_read_timeout(Some(NOTICE));
    let given_up = match connection.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    let _ = connection.set_read_timeout(None);
    given_up
}
