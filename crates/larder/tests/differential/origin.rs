//! An origin server that records each request byte for byte, and responds as planned.

use std::collections::HashMap;
use std::io::{Read as _, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::answers::EVIL;
use crate::strict::{self, Read};

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
    seen: Vec<Vec<u8>>,
    plans: HashMap<String, Plan>,
    /// Number of requests in progress.
    busy: usize,
}

/// The running server. It ends with the process.
pub struct Origin {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

/// Pause between the pieces of a response.
const PAUSE: Duration = Duration::from_millis(20);

/// Time for a proxy to close a connection on which it received unexpected bytes.
const NOTICE: Duration = Duration::from_secs(3);

impl Origin {
    /// Starts the server on a free port of the loopback interface, with plans by `METHOD TARGET` or
    /// `TARGET`.
    pub fn start(plans: &[(String, Plan)]) -> Origin {
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
        let origin = Origin { address, record };
        origin.plan(plans);
        origin
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds plans.
    pub fn plan(&self, plans: &[(String, Plan)]) {
        lock(&self.record).plans.extend(plans.iter().cloned());
    }

    /// Returns the requests from number `from` on.
    pub fn seen(&self, from: usize) -> Vec<Vec<u8>> {
        lock(&self.record).seen.get(from..).unwrap_or_default().to_vec()
    }

    /// Returns whether no request is in progress.
    pub fn is_idle(&self) -> bool {
        lock(&self.record).busy == 0
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().expect("no thread panics while it holds the lock")
}

fn serve(mut connection: TcpStream, record: &Mutex<Record>) {
    let _ = connection.set_nodelay(true);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        match strict::read(&bytes) {
            Read::Whole(request, length) => {
                let raw: Vec<u8> = bytes.drain(..length).collect();
                let plan = {
                    let mut record = lock(record);
                    record.seen.push(raw);
                    record.busy += 1;
                    let (method, target) = (&request.method, &request.target);
                    let plans = &record.plans;
                    let plan = plans.get(&format!("{method} {target}"));
                    plan.or_else(|| plans.get(target)).cloned()
                };
                let stays =
                    answer(&mut connection, &plan.unwrap_or_else(|| usual(&request.method)));
                lock(record).busy -= 1;
                if !stays {
                    return;
                }
            }
            Read::Malformed(why) => {
                let told = format!("malformed ({why}): ").into_bytes();
                lock(record).seen.push([told, bytes].concat());
                return;
            }
            // How much of an aborted request was forwarded depends on timing.
            Read::More => match connection.read(&mut buffer) {
                Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
                _ => return,
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
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => {
            use std::io::ErrorKind::{TimedOut, WouldBlock};
            !matches!(error.kind(), WouldBlock | TimedOut)
        }
    };
    let _ = connection.set_read_timeout(None);
    given_up
}
