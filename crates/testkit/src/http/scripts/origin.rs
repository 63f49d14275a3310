//! The origin of the scripts: it serves each test, identified by the first part of the path, as
//! planned for it, and records the requests. An origin of one test at a time serves all requests as
//! planned for [`ONLY`].

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use net::clock::TokioClock;
use net::network::{AcceptSocket, ListenSocket};
use tokio::task::spawn_local;

use super::format::Plan;
use crate::origin::{Received, Then, serve_connection};

/// The name of the test where the origin has one at a time.
pub const ONLY: &str = "";

/// State of one test.
#[derive(Default)]
pub struct Stage {
    /// Responses to the next requests.
    pub plans: VecDeque<Plan>,
    /// The requests.
    pub seen: Vec<Received>,
    /// Bodies sent, in order.
    pub sent: Vec<String>,
    /// Responses as received by the client, including interim ones.
    pub replies: Vec<Vec<u8>>,
}

/// Returns the test that a path belongs to.
type TestOf = fn(&str) -> &str;

fn test_of(path: &str) -> &str {
    path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default()
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
        Origin::serving(vec![listener], clock, test_of)
    }

    /// Starts to serve one test at a time, whatever the paths.
    pub fn start_for_one(listeners: Vec<ListenSocket>, clock: TokioClock) -> Origin {
        Origin::serving(listeners, clock, |_| ONLY)
    }

    fn serving(listeners: Vec<ListenSocket>, clock: TokioClock, test_of: TestOf) -> Origin {
        let (stages, mut addresses) = (Stages::default(), Vec::new());
        for listener in listeners {
            listener.set_nonblocking().expect("a socket that can be waited for");
            let listener = listener.into_tokio().expect("a runtime that takes the socket");
            addresses.push(listener.local_addr().expect("a bound address"));
            spawn_local(accept(listener, stages.clone(), clock, test_of));
        }
        Origin { address: addresses[0], stages }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fills in the origin's address, and its port, in a text.
    pub fn filled(&self, text: &str) -> String {
        let port = self.address.port().to_string();
        text.replace("{origin}", &self.address.to_string()).replace("{origin-port}", &port)
    }

    /// Returns the text of a configuration with the origin's address filled in, and with the paths
    /// of files that it writes to `files`.
    pub fn configuration(&self, path: &Path, files: &Path) -> String {
        let text = fs::read_to_string(path).expect("a configuration");
        let credentials = files.join("credentials");
        fs::write(&credentials, "proxy:secret\n").expect("a directory for files");
        let root = files.join("root");
        let folder = root.join("folder");
        fs::create_dir_all(&folder).expect("a directory for files");
        for (name, text) in
            [("file.txt", "of the root"), (".hidden", "x"), ("folder/index.html", "x")]
        {
            let path = root.join(name);
            fs::write(&path, text).expect("a directory for files");
            // Entity tags of files depend on it, and two plays of a script are compared.
            let file = File::options().write(true).open(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("a file");
        }
        _ = std::os::unix::fs::symlink(&credentials, root.join("link"));
        let text = self.filled(&text).replace("{root}", &root.display().to_string());
        text.replace("{credentials}", &credentials.display().to_string())
    }

    /// Reads or changes the state of a test.
    pub fn stage<T>(&self, test: &str, look: impl FnOnce(&mut Stage) -> T) -> T {
        look(lock(&self.stages).entry(test.to_owned()).or_default())
    }
}

fn lock(stages: &Stages) -> MutexGuard<'_, HashMap<String, Stage>> {
    stages.lock().expect("no thread panics while it holds the lock")
}

async fn accept(listener: AcceptSocket, stages: Stages, clock: TokioClock, test_of: TestOf) {
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        connection.send_at_once();
        let stages = stages.clone();
        spawn_local(async move {
            let respond = async |request: Received| {
                let test = test_of(&request.path).to_owned();
                match respond(request, &test, &stages, clock) {
                    Some(response) => response,
                    None => pending().await,
                }
            };
            // A broken connection is for the proxy to handle.
            let _ = serve_connection(connection, respond).await;
        });
    }
}

/// Returns the bytes of a response; `None` if there is none.
fn respond(
    request: Received,
    test: &str,
    stages: &Stages,
    clock: TokioClock,
) -> Option<(Vec<u8>, Then)> {
    let method = request.method.clone();
    let (plan, body) = {
        let mut stages = lock(stages);
        let stage = stages.entry(test.to_owned()).or_default();
        stage.seen.push(request);
        let is_down = stage.plans.front().is_some_and(|plan| plan.status.is_none());
        if is_down {
            return Some((Vec::new(), Then::Close));
        }
        let plan = stage.plans.pop_front().unwrap_or_else(unplanned);
        if plan.silent {
            return None;
        }
        let automatic = format!("body {} of {test}", stage.sent.len() + 1);
        let body = plan.body.clone().unwrap_or(automatic);
        stage.sent.push(body.clone());
        (plan, body)
    };
    let status = plan.status.unwrap_or(500);
    let mut text = String::new();
    for (code, field) in &plan.interim {
        text.push_str(&format!("HTTP/1.1 {code} Interim\r\n{field}\r\n\r\n"));
    }
    text.push_str(&format!("HTTP/1.1 {status} As-Planned\r\n"));
    let has = |name: &str| plan.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !(plan.no_date || has("date")) {
        let now = httpdate::fmt_http_date(clock.wall());
        text.push_str(&format!("Date: {now}\r\n"));
    }
    for (name, value) in &plan.fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let is_bodiless = [204, 304].contains(&status);
    if !plan.trailers.is_empty() {
        text.push_str("Transfer-Encoding: chunked\r\n");
    } else if !(is_bodiless || has("content-length")) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    if method == "HEAD" || is_bodiless {
    } else if plan.trailers.is_empty() {
        text.push_str(&body);
    } else {
        let trailers = plan.trailers.join("\r\n");
        text.push_str(&format!("{:x}\r\n{body}\r\n0\r\n{trailers}\r\n\r\n", body.len()));
    }
    Some((text.into_bytes(), Then::Stay))
}

fn unplanned() -> Plan {
    let fields = vec![("Cache-Control".to_owned(), "no-store".to_owned())];
    Plan { status: Some(599), fields, body: Some("unplanned".into()), ..Plan::default() }
}
