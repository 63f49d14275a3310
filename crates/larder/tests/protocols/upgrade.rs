//! A new process takes over from a running one (SIGUSR2).

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::Full;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use testkit::client::{Client, get, request};
use testkit::fleet_nodes::{Crowd, Fleet, HOST, ask, await_whole, fetch, view};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, larder_path, percent};
use testkit::listener::echo;
use testkit::origin::Origin;
use testkit::skip::skipped;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::caller::{Caller, run};

/// How often the program is replaced while clients are busy.
const UPGRADES: usize = 20;

/// A process that is not a child of this one, killed on drop.
struct Stranger(Pid);

impl Stranger {
    /// Returns the process that took over, as reported by `larder` for the `number`th time.
    fn of(larder: &Larder, number: usize) -> Stranger {
        let find = |said: &str| {
            let mut lines = said.lines().filter(|line| line.contains("takes over"));
            let line = lines.nth(number)?.to_owned();
            line.split("process ").nth(1)?.split(' ').next()?.parse().ok()
        };
        assert!(eventually(|| find(&larder.said()).is_some()), "{}", larder.said());
        let pid: i32 = find(&larder.said()).unwrap();
        Stranger(Pid::from_raw(pid).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }

    fn is_running(&self) -> bool {
        let path = format!("/proc/{}/stat", self.0.as_raw_nonzero());
        // Its parent may be gone, so a zombie counts as ended.
        fs::read_to_string(path).is_ok_and(|stat| !stat.contains(") Z "))
    }

    fn stop(self) {
        self.signal(Signal::TERM);
        assert!(eventually(|| !self.is_running()), "it does not end");
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

/// Requests pages repeatedly, each on a new connection, until stopped; panics at the first
/// rejection, error or wrong byte. Returns the number of responses.
fn ask_all_the_time(
    address: SocketAddr,
    origin: &Arc<Origin>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<usize> {
    let (origin, stop) = (origin.clone(), stop.clone());
    thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) || count < 20 {
            let target = format!("/page{}?size={}", count % 13, 1 + (count % 13) * 9_999);
            get(&origin.url(&target)).send(address).verify(&target);
            count += 1;
        }
        count
    })
}

/// Sends requests one after the other on a connection for as long as it lasts, and then on the
/// next, until stopped; every tenth is a POST. Panics at the first that gets no response.
async fn keep_asking(address: SocketAddr, origin: String, is_two: bool, stop: Arc<AtomicBool>) {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut caller = if is_two { Caller::two(stream).await } else { Caller::one(stream).await };
        while caller.is_open().await && !stop.load(Ordering::Relaxed) {
            let method = if count % 10 == 9 { Method::POST } else { Method::GET };
            let target = match caller {
                Caller::One(_) => format!("/page{}", count % 7),
                Caller::Two(_) => format!("{origin}/page{}", count % 7),
            };
            let host = origin.trim_start_matches("http://");
            let request = Request::builder().method(method).uri(target).header("host", host);
            let answer = match caller.ask(request.body(Full::default()).unwrap()).await {
                Err(error) if is_unsent(&error) => break,
                answer => answer.unwrap(),
            };
            assert_eq!(answer.status, 200, "{answer:?}");
            count += 1;
            // Leaves the processor to the upgrades.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns whether the client knows that the request was not read (RFC 9113, 6.8).
fn is_unsent(error: &hyper::Error) -> bool {
    let of_two = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let is_go_away =
        |error: &h2::Error| error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_canceled() || of_two.is_some_and(is_go_away)
}

/// Links or copies the program to a path of its own, so that it can be replaced.
fn copy_of_program(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("larder");
    if fs::hard_link(larder_path(), &path).is_err() {
        fs::copy(larder_path(), &path).unwrap();
    }
    path
}

fn replace(program: &Path, script: &str) {
    let new = program.with_extension("new");
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, program).unwrap();
}

#[test]
fn under_load_nobody_is_refused_and_the_cache_goes_along() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("larder.sock");
    let config = format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display());
    let setup = Setup::forward().program(&copy_of_program(&directory)).config(&config);
    let (origin, mut larder) = (Arc::new(Origin::start()), setup.start());
    let kept: Vec<String> = (0..20).map(|i| format!("/kept{i}?size={}", i * 7_777)).collect();
    for target in &kept {
        larder.get(&origin.url(target)).verify(target);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> =
        (0..4).map(|_| ask_all_the_time(larder.address(), &origin, &stop)).collect();
    larder.signal(Signal::USR2);
    let second = Stranger::of(&larder, 0);
    assert!(larder.await_exit().is_some_and(|s| s.success()), "{}", larder.said());
    second.signal(Signal::USR2);
    let third = Stranger::of(&larder, 1);
    assert!(eventually(|| !second.is_running()), "{}", larder.said());
    let recovered = || larder.admin_send(get("/readyz")).status == 200;
    assert!(eventually(recovered), "{}", larder.said());
    stop.store(true, Ordering::Relaxed);
    for thread in asking {
        assert!(thread.join().unwrap() >= 20);
    }
    for target in &kept {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        // From memory if the read of a neighbour has brought it along.
        assert!(["HIT_DISK", "HIT_RAM"].contains(&reply.outcome().as_str()), "{:?}", reply.head);
        assert_eq!(origin.fetches(target), 1);
    }
    assert!(UnixStream::connect(&socket).is_ok());
    third.stop();
    assert!(!socket.exists(), "the last one cleans up");
    assert!(!larder.said().contains("WITHOUT"), "{}", larder.said());
}

#[test]
fn no_busy_connection_loses_a_request() {
    let directory = tempfile::tempdir().unwrap();
    let (origin, two) = (Origin::start(), testkit::address::free());
    let config = format!("[[listener]]\naddress = \"{two}\"\nh2c = true\n");
    let setup = Setup::reverse(&origin.url("")).program(&copy_of_program(&directory));
    let setup = setup.config(&config);
    let larder = setup.start();
    let admin = larder.admin().to_string();
    let upgrade = move || {
        let command = [&*larder_path(), Path::new("upgrade"), Path::new("--admin")];
        Command::new(command[0]).args(&command[1..]).arg(&admin).status().unwrap().success()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let python = python_clients(larder.address(), 34);
    run(async {
        let mut clients = JoinSet::new();
        for number in 0..66 {
            let is_two = number % 2 == 1;
            let address = if is_two { two } else { larder.address() };
            clients.spawn(keep_asking(address, origin.url(""), is_two, stop.clone()));
        }
        for _ in 0..UPGRADES {
            let upgrade = upgrade.clone();
            assert!(tokio::task::spawn_blocking(upgrade).await.unwrap(), "{}", larder.said());
        }
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    });
    if let Some(python) = python {
        let ended = python.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    Stranger::of(&larder, UPGRADES - 1).stop();
}

/// Starts as many connections of Python's library; they end when its input does. Returns `None`
/// where Python is not installed.
fn python_clients(address: SocketAddr, connections: usize) -> Option<Child> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protocols/keep_asking.py");
    let mut python = Command::new("python3");
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    python.args([script, &ip, &port, &connections.to_string()]);
    let started = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    started.inspect_err(|error| skipped(&format!("python3 cannot be run: {error}"))).ok()
}

#[test]
fn a_node_of_a_fleet_stays_one_node() {
    let directory = tempfile::tempdir().unwrap();
    let program = copy_of_program(&directory);
    let origin = Origin::start();
    let fleet = Fleet::of(3, &origin).each(|setup, _| setup.program(&program));
    let mut nodes = fleet.start();
    let target = "/kept?size=50000";
    nodes.iter().for_each(|node| drop(fetch(node, target)));
    let crowd = Crowd::at(&nodes.iter().collect::<Vec<_>>());
    nodes[1].signal(Signal::USR2);
    let next = Stranger::of(&nodes[1], 0);
    assert!(nodes[1].await_exit().is_some_and(|s| s.success()), "{}", nodes[1].said());
    for node in &nodes {
        await_whole(node, 3);
        let view = view(node);
        assert!(view["lost"] == json!({}) && view["left"] == json!({}), "{view:#}");
    }
    let url = format!("{HOST}{target}");
    let (code, said) = ask(&nodes[1], &["purge", &url]);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    let (code, said) = ask(&nodes[0], &["purge", &url]);
    assert!(code == 0 && said.contains("; and at 2 other nodes"), "{code} {said}");
    assert!(crowd.end() >= 30);
    next.stop();
}

#[test]
fn what_cannot_take_over_leaves_the_old_process_serving() {
    let directory = tempfile::tempdir().unwrap();
    let program = copy_of_program(&directory);
    let setup = Setup::forward().program(&program).config("memory = \"32M\"\n");
    let (origin, larder) = (Arc::new(Origin::start()), setup.start());
    larder.get(&origin.url("/kept")).verify("/kept");
    let stop = Arc::new(AtomicBool::new(false));
    let asking = ask_all_the_time(larder.address(), &origin, &stop);
    let config = setup.path("larder.toml");
    let good = fs::read_to_string(&config).unwrap();
    // An invalid configuration.
    fs::write(&config, "nonsense = 1\n").unwrap();
    larder.signal(Signal::USR2);
    assert!(larder.says("the new process cannot take over"), "{}", larder.said());
    assert!(larder.says("nonsense: there is no such key"), "{}", larder.said());
    fs::write(&config, good).unwrap();
    // A program that ends at once, an invalid one, and one that gives up at the last step.
    for (script, said) in [
        ("#!/bin/sh\nexit 3\n", "the new process exited before it was ready"),
        ("no program", "cannot be started"),
        ("#!/bin/sh\nprintf R >&0\nsleep 0.3\nexit 3\n", "THIS PROCESS SERVES AGAIN"),
    ] {
        replace(&program, script);
        larder.signal(Signal::USR2);
        assert!(larder.says(said), "{script}: {}", larder.said());
        let serves = || larder.admin_send(get("/readyz")).status == 200;
        assert!(eventually(serves), "{script}: {}", larder.said());
        let reply = larder.get(&origin.url("/kept"));
        reply.verify("/kept");
        assert!(reply.outcome().starts_with("HIT"), "{script}: {:?}", reply.head);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(asking.join().unwrap() >= 20);
    assert_eq!(origin.fetches("/kept"), 1);
    // Each series exists once, however often the process began to serve.
    let metrics = larder.metrics();
    let mut series: Vec<_> = metrics.lines().filter_map(|line| line.rsplit_once(' ')).collect();
    series.retain(|(name, _)| !name.starts_with('#'));
    let mut names: Vec<_> = series.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{metrics}");
    larder.stop();
}

#[test]
fn until_the_cache_is_released_everything_is_passed_on_and_nothing_comes_back() {
    let setup = Setup::forward();
    let (origin, mut larder) = (Arc::new(Origin::start()), setup.start());
    for target in ["/kept", "/changed"] {
        larder.get(&origin.url(target)).verify(target);
    }
    // The objects that its response invalidates must be removed where they are stored.
    let slow = "/slow?headgate=slow&cc=no-store";
    let mut connection = Client::open(larder.address()).unwrap();
    connection.send(request("POST", &origin.url(slow)).body(b"new").bytes());
    origin.await_fetches(slow, 1);
    larder.signal(Signal::USR2);
    let second = Stranger::of(&larder, 0);
    assert!(larder.says("serving without the cache"), "{}", larder.said());
    let reply = larder.get(&origin.url("/kept"));
    reply.verify("/kept");
    assert_eq!(reply.outcome(), "BYPASS", "{:?}", reply.head);
    assert_eq!(larder.admin_send(get("/readyz")).status, 503);
    let url = percent(&origin.url("/kept"));
    let purge = request("POST", &format!("/purge?url={url}")).body(b"");
    assert_eq!(larder.admin_send(purge).status, 503);
    // The stored copy is outdated from now on.
    origin.change("/changed");
    let post = request("POST", &origin.url("/changed")).body(b"new");
    assert_eq!(larder.send(&post).status, 200);
    assert!(larder.is_running());
    origin.open("slow");
    assert_eq!(connection.read("POST").unwrap().status, 200);
    assert!(larder.await_exit().is_some_and(|s| s.success()), "{}", larder.said());
    let ready = || larder.admin_send(get("/readyz")).status == 200;
    assert!(eventually(ready), "{}", larder.said());
    let reply = larder.get(&origin.url("/kept"));
    reply.verify("/kept");
    assert!(reply.outcome().starts_with("HIT"), "{:?}", reply.head);
    let reply = larder.get(&origin.url("/changed"));
    reply.verify("/changed");
    assert_eq!(reply.outcome(), "MISS", "{:?}", reply.head);
    second.stop();
}

#[test]
fn a_new_process_that_fails_during_the_drain_gives_the_clients_back() {
    let setup = Setup::forward().config("drain = \"60s\"\n");
    let (origin, larder) = (Arc::new(Origin::start()), setup.start());
    larder.get(&origin.url("/kept?etag=1")).verify("/kept?etag=1");
    let stages = [
        ("POST", "takes over"),
        ("POST", "serving without the cache"),
        ("GET", "the caches are released"),
    ];
    for (number, (method, said)) in stages.into_iter().enumerate() {
        // The old process waits for its response, which does not come.
        let slow = format!("/slow{number}?headgate=slow&cc=no-store");
        let mut connection = larder.connect();
        connection.send(request(method, &origin.url(&slow)).body(b"").bytes());
        origin.await_fetches(&slow, 1);
        larder.signal(Signal::USR2);
        let next = Stranger::of(&larder, number);
        assert!(larder.says(said), "{}", larder.said());
        if number > 0 {
            larder.get(&origin.url("/kept?etag=1")).verify("/kept?etag=1");
        }
        next.signal(Signal::KILL);
        let killed = Instant::now();
        let reply = larder.get(&origin.url("/kept?etag=1"));
        assert!(killed.elapsed() < Duration::from_secs(8), "{}", larder.said());
        reply.verify("/kept?etag=1");
        // The process that failed may have answered what invalidates it, if it has served.
        assert_eq!(reply.outcome().starts_with("HIT"), number == 0, "{:?}", reply.head);
        let reply = larder.get(&origin.url("/kept?etag=1"));
        assert!(reply.outcome().starts_with("HIT"), "{:?}", reply.head);
        assert_eq!(larder.admin_send(get("/readyz")).status, 200);
    }
    assert!(!larder.said().contains("this one exits"), "{}", larder.said());
    origin.open("slow");
    larder.stop();
}

#[test]
fn a_new_process_that_is_stopped_during_the_drain_leaves_no_client_waiting() {
    let setup = Setup::forward().config("drain = \"60s\"\n");
    let (origin, larder) = (Arc::new(Origin::start()), setup.start());
    let slow = "/slow?headgate=slow&cc=no-store";
    let mut connection = larder.connect();
    connection.send(request("POST", &origin.url(slow)).body(b"").bytes());
    origin.await_fetches(slow, 1);
    larder.signal(Signal::USR2);
    let next = Stranger::of(&larder, 0);
    assert!(larder.says("serving without the cache"), "{}", larder.said());
    larder.get(&origin.url("/x")).verify("/x");
    next.stop();
    let is_refused = || Client::open(larder.address()).is_err();
    assert!(eventually(is_refused), "{}", larder.said());
    origin.open("slow");
    assert_eq!(connection.answer_to("POST").status, 200);
    assert!(larder.says("this one exits"), "{}", larder.said());
}

/// Sends a word through a tunnel and back.
fn shout(tunnel: &Client, word: &str) {
    let mut stream = tunnel.stream();
    stream.write_all(word.as_bytes()).unwrap();
    let mut back = vec![0; word.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, word.to_uppercase().into_bytes());
}

#[test]
fn what_does_not_need_the_cache_does_not_keep_it() {
    let far = echo();
    let setup = Setup::forward().config(&format!("connect-ports = [{}]\n", far.port()));
    let (origin, mut larder) = (Arc::new(Origin::start()), setup.start());
    for target in ["/kept", "/large?size=8000000&etag=1"] {
        larder.get(&origin.url(target)).verify(target);
    }
    let mut tunnel = larder.connect();
    tunnel.send(format!("CONNECT {far} HTTP/1.1\r\nHost: {far}\r\n\r\n").as_bytes());
    assert_eq!(tunnel.read("CONNECT").unwrap().status, 200);
    // Forwarded, and on its way into the cache: both stop half-way.
    let gated = ["/passed?size=200000&gate=end&cc=no-store", "/filling?size=700000&gate=end"];
    let mut running = gated.map(|target| {
        let mut connection = larder.connect();
        connection.send(get(&origin.url(target)).bytes());
        let head = connection.read_head().unwrap();
        (connection, head)
    });
    // From the cache, to a client that does not read yet.
    let mut slow = larder.connect();
    let large = "/large?size=8000000&etag=1";
    slow.send(get(&origin.url(large)).bytes());
    let slow_head = slow.read_head().unwrap();
    larder.signal(Signal::USR2);
    let second = Stranger::of(&larder, 0);
    let ready = || larder.admin_send(get("/readyz")).status == 200;
    assert!(eventually(ready), "{}", larder.said());
    let reply = larder.get(&origin.url("/kept"));
    reply.verify("/kept");
    assert!(reply.outcome().starts_with("HIT"), "{:?}", reply.head);
    assert!(larder.says("the caches are released"), "{}", larder.said());
    // An invalidation by a client takes effect in the new process.
    origin.change("/kept");
    assert_eq!(larder.send(&request("POST", &origin.url("/kept")).body(b"new")).status, 200);
    let reply = larder.get(&origin.url("/kept"));
    reply.verify("/kept");
    assert_eq!(reply.outcome(), "MISS", "{:?}", reply.head);
    // The old process has lost nothing of its work in progress.
    assert!(larder.is_running(), "{}", larder.said());
    shout(&tunnel, "still here");
    slow.rest(slow_head, "GET").verify(large);
    assert_eq!(origin.fetches(large), 2, "the origin went on where the cache could not");
    origin.open("end");
    for ((connection, head), target) in running.iter_mut().zip(gated) {
        connection.rest(head.clone(), "GET").verify(target);
    }
    assert!(larder.is_running(), "{}", larder.said());
    // The new process may be replaced meanwhile.
    second.signal(Signal::USR2);
    let third = Stranger::of(&larder, 1);
    assert!(eventually(|| !second.is_running()), "{}", larder.said());
    shout(&tunnel, "to the end");
    drop(tunnel);
    assert!(larder.await_exit().is_some_and(|s| s.success()), "{}", larder.said());
    assert!(!larder.said().contains("has failed"), "{}", larder.said());
    larder.get(&origin.url("/filling?size=700000&gate=end")).verify(gated[1]);
    third.stop();
}
