//! A Larder with a configuration of its own, which is started, stopped, killed and upgraded.
//! Dropped, it is killed, and its cache is removed unless it was there before.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use testbed::address;

use super::plan::Plan;
use crate::measure::process_at;

/// The host of what is asked for in the background, from an origin of its own.
pub const BACKGROUND: &str = "background.test";

/// Longest time for a start, an upgrade and a stop.
const LONG: Duration = Duration::from_secs(120);
/// How often it is looked whether it serves.
const LOOK: Duration = Duration::from_millis(1);

/// What a node is to be like.
pub struct NodeOptions {
    /// Its workers.
    pub workers: usize,
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes of an object, about, where the index is to be made for that.
    pub mean_object: Option<u64>,
    /// Its cache, if that is there.
    pub existing: Option<PathBuf>,
}

/// See the module.
pub struct Node {
    program: PathBuf,
    directory: TempDir,
    cores: Vec<usize>,
    child: Option<Child>,
    /// Where it serves.
    pub listen: SocketAddr,
    /// Where the origins are to listen: of most, and of [`BACKGROUND`].
    pub origins: [SocketAddr; 2],
    /// Its admin interface.
    pub admin: SocketAddr,
}

impl Node {
    /// Writes its configuration.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(plan: &Plan, options: &NodeOptions) -> Result<Node, String> {
        let fail = |error: std::io::Error| format!("{}: {error}", plan.base.display());
        let directory = TempDir::with_prefix_in("bench-scale-", &plan.base).map_err(fail)?;
        let node = Node {
            program: plan.larder.clone(),
            cores: plan.cores_of(options.workers).to_vec(),
            child: None,
            listen: address::free(),
            origins: [address::free_at_localhost(), address::free_at_localhost()],
            admin: address::free(),
            directory,
        };
        let cache = options.existing.clone().unwrap_or_else(|| node.directory.path().join("cache"));
        fs::write(node.configuration(), node.text(plan, options, &cache)).map_err(fail)?;
        Ok(node)
    }

    fn text(&self, plan: &Plan, options: &NodeOptions, cache: &Path) -> String {
        let store = options.mean_object.map_or_else(String::new, |bytes| {
            format!("[store]\nmean-object = \"{}\"\n", bytes.max(512))
        });
        format!(
            "listen = \"{}\"\nadmin = \"{}\"\nreverse = \"http://{}\"\ncache = \"{}\"\n\
             cache-size = \"{}\"\nmemory = \"{}\"\nworkers = {}\n\
             [[site]]\nhosts = [\"{BACKGROUND}\"]\nupstream = \"http://{}\"\n{store}",
            self.listen,
            self.admin,
            self.origins[0],
            cache.display(),
            options.cache,
            plan.memory,
            options.workers,
            self.origins[1],
        )
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("larder.toml")
    }

    /// Where requests go, and where the answers come from.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        [self.origins[0], self.listen]
    }

    /// Starts it, and returns when that was. It need not serve yet.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(&mut self) -> Result<Instant, String> {
        let fail = |error: std::io::Error| format!("{}: {error}", self.program.display());
        let said = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("said"))
            .map_err(fail)?;
        let cores: Vec<String> = self.cores.iter().map(ToString::to_string).collect();
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &cores.join(",")]).arg(&self.program);
        command.args(["serve", "--config"]).arg(self.configuration());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let begun = Instant::now();
        self.child = Some(command.spawn().map_err(fail)?);
        Ok(begun)
    }

    /// Starts it, and waits until it accepts connections. Returns when it was started.
    ///
    /// # Errors
    /// It does not come to that: what it said is in the text.
    pub fn start(&mut self) -> Result<Instant, String> {
        let begun = self.spawn()?;
        self.await_listener(begun)?;
        Ok(begun)
    }

    /// Waits until it accepts connections.
    ///
    /// # Errors
    /// It ended, or it takes too long.
    pub fn await_listener(&mut self, begun: Instant) -> Result<(), String> {
        while begun.elapsed() < LONG {
            if TcpStream::connect(self.listen).is_ok() {
                return Ok(());
            }
            let child = self.child.as_mut().and_then(|child| child.try_wait().ok()).flatten();
            if child.is_some() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("larder did not start: {}", self.said()))
    }

    fn said(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// The process that serves now.
    ///
    /// # Errors
    /// There is none.
    pub fn process(&self) -> Result<u32, String> {
        process_at(self.listen)
    }

    /// Tells it to stop, and waits until it has. Returns how long that took.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(&mut self) -> Result<Duration, String> {
        self.end(Signal::TERM)
    }

    /// Kills it.
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(&mut self) -> Result<Duration, String> {
        self.end(Signal::KILL)
    }

    fn end(&mut self, signal: Signal) -> Result<Duration, String> {
        let begun = Instant::now();
        let process = self.process()?;
        send(process, signal)?;
        while begun.elapsed() < LONG {
            // A child has to be waited for before it is gone.
            self.child.as_mut().map(Child::try_wait);
            if !lives(process) {
                return Ok(begun.elapsed());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("larder (process {process}) did not end: {}", self.said()))
    }

    /// How to reach it from another thread.
    pub fn control(&self) -> Control {
        Control { listen: self.listen, admin: self.admin }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(process) = self.process() {
            let _ = send(process, Signal::KILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A hand on a node that runs.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Control {
    /// Has a new process take over, and waits until the old one is gone.
    ///
    /// # Errors
    /// None does.
    pub fn upgrade(self) -> Result<(), String> {
        let (begun, old) = (Instant::now(), process_at(self.listen)?);
        send(old, Signal::USR2)?;
        while begun.elapsed() < LONG {
            if !runs(old) && process_at(self.listen).is_ok_and(|process| process != old) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("process {old} was told to upgrade, and goes on"))
    }

    /// Bytes of memory that it has.
    ///
    /// # Errors
    /// It is gone.
    pub fn resident(self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", process_at(self.listen)?);
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        kilobytes.map(|kb: u64| kb << 10).ok_or_else(|| format!("{path}: no VmRSS"))
    }

    /// Purges what a query of the admin interface says.
    ///
    /// # Errors
    /// It is refused.
    pub fn purge(self, query: &str) -> Result<(), String> {
        let answer = self.ask(&format!("POST /purge?{query} HTTP/1.0"))?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        // 404: nothing was stored, and the purge is in force.
        match status {
            "200" | "404" => Ok(()),
            _ => Err(format!("purge of {query}: {answer}")),
        }
    }

    /// Returns its metrics.
    ///
    /// # Errors
    /// It does not answer.
    pub fn metrics(self) -> Result<Metrics, String> {
        self.ask("GET /metrics HTTP/1.0").map(Metrics)
    }

    fn ask(self, line: &str) -> Result<String, String> {
        let fail = |error: std::io::Error| format!("the admin interface: {error}");
        let mut stream = TcpStream::connect(self.admin).map_err(fail)?;
        stream.set_read_timeout(Some(LONG)).map_err(fail)?;
        let request = format!("{line}\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(fail)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(fail)?;
        Ok(answer)
    }
}

/// What a node says of itself.
pub struct Metrics(String);

impl Metrics {
    /// Returns the sum of a metric over all its labels; 0 if it is not there.
    pub fn sum(&self, name: &str) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix(name));
        let values = lines.filter(|rest| rest.starts_with(['{', ' ']));
        values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

fn send(process: u32, signal: Signal) -> Result<(), String> {
    let pid = pid(process).ok_or_else(|| format!("process {process}: no such number"))?;
    kill_process(pid, signal).map_err(|error| format!("process {process}: {error}"))
}

fn lives(process: u32) -> bool {
    pid(process).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Whether a process goes on, and is not just waited for.
fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}

#[test]
fn metrics_are_summed_over_their_labels() {
    let text =
        "# HELP a_total x\na_total{cache=\"x\"} 3\na_total{cache=\"y y\"} 4.5\nab_total 9\nb 2\n";
    let metrics = Metrics(text.to_owned());
    assert_eq!(metrics.sum("a_total"), 7.5);
    assert_eq!(metrics.sum("b"), 2.0);
    assert_eq!(metrics.sum("c"), 0.0);
}

#[test]
fn this_process_runs() {
    assert!(runs(std::process::id()) && lives(std::process::id()));
    assert!(!runs(u32::MAX) && !lives(u32::MAX));
}
