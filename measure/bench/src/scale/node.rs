//! A Larder with its own configuration, which is started, stopped, killed and upgraded. When
//! dropped it is killed, and its cache is removed unless it existed before.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use testkit::address;

use super::plan::Plan;
use crate::measure::process_at;
use crate::systems::admin;

/// The host of the objects of background requests, with a separate origin.
pub const BACKGROUND: &str = "background.test";

/// Timeout for a start, an upgrade and a stop.
const LONG: Duration = Duration::from_secs(120);
/// Interval of the checks whether the node serves.
const LOOK: Duration = Duration::from_millis(1);

/// The parameters of a node.
pub struct NodeOptions {
    /// Number of workers.
    pub workers: usize,
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Approximate object size in bytes, if the index is to be sized for it.
    pub mean_object: Option<u64>,
    /// An existing cache to use.
    pub existing: Option<PathBuf>,
}

/// A node.
pub struct Node {
    program: PathBuf,
    directory: TempDir,
    cores: Vec<usize>,
    child: Option<Child>,
    /// The serving address.
    pub listen: SocketAddr,
    /// The listening addresses of the origins: the main one, and that of `BACKGROUND`.
    pub origins: [SocketAddr; 2],
    /// The address of the admin interface.
    pub admin: SocketAddr,
}

impl Node {
    /// Creates a node and writes its configuration.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
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
        self.file("larder.toml")
    }

    /// Returns the path of a file in its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the address of the main origin, and the serving address.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        [self.origins[0], self.listen]
    }

    /// Starts the node, and returns when it was started. The node may not serve yet.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
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

    /// Starts the node, and waits until it accepts connections. Returns when it was started.
    ///
    /// # Errors
    /// Fails if the node does not start; the error contains its output.
    pub fn start(&mut self) -> Result<Instant, String> {
        let begun = self.spawn()?;
        self.await_listener(begun)?;
        Ok(begun)
    }

    /// Waits until the node accepts connections.
    ///
    /// # Errors
    /// Fails if the node ended or takes too long.
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

    /// Returns the process that currently serves.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn process(&self) -> Result<u32, String> {
        process_at(self.listen)
    }

    /// Stops the node and waits for its end. Returns how long that took.
    ///
    /// # Errors
    /// Fails if the node does not end.
    pub fn stop(&mut self) -> Result<Duration, String> {
        self.end(Signal::TERM)
    }

    /// Kills the node.
    ///
    /// # Errors
    /// Fails if the node does not end.
    pub fn kill(&mut self) -> Result<Duration, String> {
        self.end(Signal::KILL)
    }

    fn end(&mut self, signal: Signal) -> Result<Duration, String> {
        let begun = Instant::now();
        let process = self.process()?;
        send(process, signal)?;
        while begun.elapsed() < LONG {
            // A child process must be reaped before it is gone.
            self.child.as_mut().map(Child::try_wait);
            if !lives(process) {
                return Ok(begun.elapsed());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("larder (process {process}) did not end: {}", self.said()))
    }

    /// Returns a handle for other threads.
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

/// A handle to control a running node.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Control {
    /// Lets a new process take over, and waits until the old one has ended.
    ///
    /// # Errors
    /// Fails if no new process takes over.
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

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// Fails if the node has ended.
    pub fn resident(self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", process_at(self.listen)?);
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        kilobytes.map(|kb: u64| kb << 10).ok_or_else(|| format!("{path}: no VmRSS"))
    }

    /// Purges the objects that a query of the admin interface selects.
    ///
    /// # Errors
    /// Fails if the purge is refused.
    pub fn purge(self, query: &str) -> Result<(), String> {
        let (status, answer) = admin::ask(self.admin, "POST", &format!("/purge?{query}"), "")?;
        // 404 means that nothing was stored; the purge is in force.
        match status {
            200 | 404 => Ok(()),
            _ => Err(format!("purge of {query}: {status} {answer}")),
        }
    }

    /// Returns the metrics.
    ///
    /// # Errors
    /// Fails if the node does not respond.
    pub fn metrics(self) -> Result<Metrics, String> {
        admin::ask(self.admin, "GET", "/metrics", "").map(|(_, text)| Metrics(text))
    }
}

/// The metrics of a node.
pub struct Metrics(String);

impl Metrics {
    /// Returns the sum of a metric over all its labels; 0 if it is missing.
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

/// Returns whether a process runs, and is not a zombie.
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
