//! The origin of the scripts: it answers each test, known by the first part of the path, with what
//! was planned for it, and remembers what it was asked.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::message::{self, Head};
use crate::script::Plan;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: Head,
    pub body: Vec<u8>,
}

/// What is known of one test.
#[derive(Default)]
pub struct Stage {
    pub plans: VecDeque<Plan>,
    pub seen: Vec<Seen>,
    /// Bodies sent, in their order.
    pub sent: Vec<String>,
}

type Stages = Arc<Mutex<HashMap<String, Stage>>>;

/// The running server. It ends with the process.
pub struct Origin {
    address: SocketAddr,
    stages: Stages,
}

impl Origin {
    /// Starts on a free port of the loopback interface.
    pub fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = listener.local_addr().expect("a bound address");
        let stages = Stages::default();
        let theirs = stages.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (Ok(connection), stages) = (connection, theirs.clone()) else { continue };
                thread::spawn(move || serve(connection, &stages));
            }
        });
        Origin { address, stages }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Looks at, or changes, what is known of a test.
    pub fn stage<T>(&self, test: &str, look: impl FnOnce(&mut Stage) -> T) -> T {
        look(lock(&self.stages).entry(test.to_owned()).or_default())
    }
}

fn lock(stages: &Stages) -> MutexGuard<'_, HashMap<String, Stage>> {
    stages.lock().expect("no thread panics while it holds the lock")
}

fn serve(connection: TcpStream, stages: &Stages) {
    let _ = connection.set_nodelay(true);
    let Ok(mut writer) = connection.try_clone() else { return };
    let mut reader = BufReader::new(connection);
    while let Ok(Some(head)) = message::read_head(&mut reader) {
        let Ok(body) = message::read_request_body(&mut reader, &head) else { return };
        match answer(Seen { head, body }, stages, &mut writer) {
            Ok(true) => {}
            _ => {
                let _ = writer.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

/// Answers; false when the connection is to be closed.
fn answer(seen: Seen, stages: &Stages, to: &mut TcpStream) -> io::Result<bool> {
    let first = seen.head.first.clone();
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let test = path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default();
    let (plan, body) = {
        let mut stages = lock(stages);
        let stage = stages.entry(test.to_owned()).or_default();
        stage.seen.push(seen);
        let down = stage.plans.front().is_some_and(|plan| plan.status.is_none());
        if down {
            return Ok(false);
        }
        let plan = stage.plans.pop_front().unwrap_or_else(unplanned);
        let automatic = format!("body {} of {test}", stage.sent.len() + 1);
        let body = plan.body.clone().unwrap_or(automatic);
        stage.sent.push(body.clone());
        (plan, body)
    };
    let status = plan.status.unwrap_or(500);
    for (code, field) in &plan.interim {
        write!(to, "HTTP/1.1 {code} Interim\r\n{field}\r\n\r\n")?;
    }
    let mut head = format!("HTTP/1.1 {status} As-Planned\r\n");
    let has = |name: &str| plan.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !(plan.no_date || has("date")) {
        let now = httpdate::fmt_http_date(std::time::SystemTime::now());
        head.push_str(&format!("Date: {now}\r\n"));
    }
    for (name, value) in &plan.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let bodiless = [204, 304].contains(&status);
    if !plan.trailers.is_empty() {
        head.push_str("Transfer-Encoding: chunked\r\n");
    } else if !(bodiless || has("content-length")) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    to.write_all(head.as_bytes())?;
    if method == "HEAD" || bodiless {
        return Ok(true);
    }
    if plan.trailers.is_empty() {
        to.write_all(body.as_bytes())?;
        return Ok(true);
    }
    write!(to, "{:x}\r\n{body}\r\n0\r\n{}\r\n\r\n", body.len(), plan.trailers.join("\r\n"))?;
    Ok(true)
}

fn unplanned() -> Plan {
    let fields = vec![("Cache-Control".to_owned(), "no-store".to_owned())];
    Plan { status: Some(599), fields, body: Some("unplanned".into()), ..Plan::default() }
}
