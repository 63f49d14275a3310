//! The origin of the scripts: it serves each test, identified by the first part of the path, as
//! planned for it, and records the requests.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use net::network::AcceptSocket;
use net::socket::Socket;
use proxy::{ListenSocket, TokioClock};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;

use super::message;
use super::message::Head;
use super::script::Plan;
use super::world::read_message;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: Head,
    pub body: Vec<u8>,
    /// The whole request as received.
    #[allow(dead_code)] // The comparison of two programs uses it.
    pub bytes: Vec<u8>,
}

/// State of one test.
#[derive(Default)]
pub struct Stage {
    pub plans: VecDeque<Plan>,
    pub seen: Vec<Seen>,
    /// Bodies sent, in order.
    pub sent: Vec<String>,
    /// Responses as received by the client, including interim ones.
    pub replies: Vec<Vec<u8>>,
}

type Stages = Arc<Mutex<HashMap<String, Stage>>>;

/// The running server. It ends with the `LocalSet` in which it was started.
pub struct Origin {
    address: SocketAddr,
    stages: Stages,
}

impl Origin {
    /// Starts to serve at `listener`.
    pub fn start(listener: ListenSocket, clock: TokioClock) -> Origin {
        listener.set_nonblocking().expect("a socket that can be waited for");
        let listener = listener.into_tokio().expect("a runtime that takes the socket");
        let address = listener.local_addr().expect("a bound address");
        let stages = Stages::default();
        spawn_local(accept(listener, stages.clone(), clock));
        Origin { address, stages }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads or changes the state of a test.
    pub fn stage<T>(&self, test: &str, look: impl FnOnce(&mut Stage) -> T) -> T {
        look(lock(&self.stages).entry(test.to_owned()).or_default())
    }
}

fn lock(stages: &Stages) -> MutexGuard<'_, HashMap<String, Stage>> {
    stages.lock().expect("no thread panics while it holds the lock")
}

async fn accept(listener: AcceptSocket, stages: Stages, clock: TokioClock) {
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        connection.send_at_once();
        let stages = stages.clone();
        spawn_local(async move {
            // A broken connection is for the proxy to handle.
            let _ = serve(connection, &stages, clock).await;
        });
    }
}

async fn serve(mut connection: Socket, stages: &Stages, clock: TokioClock) -> io::Result<()> {
    let mut early = Vec::new();
    let request = |from: &mut &[u8], _| {
        let whole = *from;
        let head = message::read_head(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let body = message::read_request_body(from, &head)?;
        let bytes = whole[..whole.len() - from.len()].to_vec();
        Ok(Seen { head, body, bytes })
    };
    while let Some(seen) = read_message(&mut connection, &mut early, request).await? {
        let mut bytes = Vec::new();
        let goes_on = answer(seen, stages, clock, &mut bytes)?;
        connection.write_all(&bytes).await?;
        if !goes_on {
            return connection.shutdown().await;
        }
    }
    Ok(())
}

/// Sends a response; returns false if the connection is to be closed.
fn answer(
    seen: Seen,
    stages: &Stages,
    clock: TokioClock,
    to: &mut impl io::Write,
) -> io::Result<bool> {
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
        let now = httpdate::fmt_http_date(clock.wall());
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
