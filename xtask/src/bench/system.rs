//! The servers under test: larder, nginx and Traffic Server, each as a reverse proxy with a cache
//! of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testbed::address;

use super::options::Options;
use super::report::DeviceWork;
use super::{nginx, process, traffic_server};
use crate::workspace;

/// One server program and its setup.
pub struct System {
    /// As in the table.
    pub name: String,
    kind: Kind,
    program: PathBuf,
}

enum Kind {
    Larder { workers: usize, settings: Vec<String> },
    Nginx,
    TrafficServer,
}

/// The parameters of a start.
pub struct Setup<'a> {
    /// The directory in which it gets one of its own.
    pub base: &'a Path,
    /// A file or device for the cache, for nginx a directory; `None`: in its own directory.
    pub cache: Option<&'a Path>,
    /// Size of the cache, GiB.
    pub cache_gib: u32,
    /// Memory for objects, MiB; nginx has none of its own.
    pub memory_mib: u64,
    /// What it serves.
    pub source: Source<'a>,
    /// The file of a control group that takes in the server's process.
    pub group: Option<&'a Path>,
}

/// What a server serves.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The answers of an origin.
    Origin(SocketAddr),
    /// The files in a directory; Traffic Server has none.
    Files(&'a Path),
}

/// Longest time for a server's start.
const START: Duration = Duration::from_secs(30);
/// Longest time for its stop before it is killed.
const STOP: Duration = Duration::from_secs(30);

impl System {
    /// Larder's release build with so many workers.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn larder(workers: usize) -> Result<System, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace::root().join("target"), PathBuf::from);
        let program = target.join("release/larder");
        if !program.exists() {
            return Err(format!("{} is not there after a build", program.display()));
        }
        let workers_shown =
            if workers == 1 { "1 worker".into() } else { format!("{workers} workers") };
        let name = format!("larder, {workers_shown}");
        Ok(System { name, kind: Kind::Larder { workers, settings: Vec::new() }, program })
    }

    /// Starts larder with `--setting value`, which then is part of the name.
    pub fn set(&mut self, setting: &str, value: &str) {
        if let Kind::Larder { settings, .. } = &mut self.kind {
            settings.extend([format!("--{setting}"), value.to_owned()]);
            self.name = format!("{}, {setting} {value}", self.name);
        }
    }

    /// Returns nginx with one worker; `None` when it is not installed.
    pub fn nginx() -> Option<System> {
        let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        let program = places.iter().map(PathBuf::from).find(|p| p.exists())?;
        Some(System { name: "nginx, 1 worker".into(), kind: Kind::Nginx, program })
    }

    /// Returns Traffic Server with one thread for connections; `None` when it is not installed.
    pub fn traffic_server() -> Option<System> {
        let program = PathBuf::from("/usr/bin/traffic_server");
        let name = "Traffic Server, 1 thread".into();
        program.exists().then_some(System { name, kind: Kind::TrafficServer, program })
    }

    /// Returns whether its cache lies in files in a directory.
    pub fn wants_directory(&self) -> bool {
        matches!(self.kind, Kind::Nginx)
    }

    /// Returns the user that its processes run as, when that is not ours.
    ///
    /// # Errors
    ///
    /// When there is no such user.
    pub fn user(&self) -> Result<Option<u32>, String> {
        match self.kind {
            Kind::TrafficServer => traffic_server::user(),
            Kind::Larder { .. } | Kind::Nginx => Ok(None),
        }
    }

    /// Starts it with an empty cache.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not answer in time; the text holds what it said.
    pub fn start(&self, setup: &Setup) -> Result<Running, String> {
        let base = setup.base;
        fs::create_dir_all(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let directory = TempDir::new_in(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let (address, admin) = (address::free(), address::free());
        let log =
            fs::File::create(directory.path().join("log")).map_err(|e| format!("log: {e}"))?;
        let errors = log.try_clone().map_err(|e| format!("log: {e}"))?;
        let mut command = self.command(setup, directory.path(), address, admin)?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", self.name))?;
        let admin = matches!(self.kind, Kind::Larder { .. }).then_some(admin);
        let mut running = Running { name: self.name.clone(), child, address, admin, directory };
        running.await_ready()?;
        Ok(running)
    }

    /// Returns the command that starts it, with the files that it reads in `directory`.
    fn command(
        &self,
        setup: &Setup,
        directory: &Path,
        address: SocketAddr,
        admin: SocketAddr,
    ) -> Result<Command, String> {
        let cache = setup.cache.map_or_else(|| directory.join("cache"), Path::to_path_buf);
        let mut command = self.program_in(setup.group);
        match &self.kind {
            Kind::Larder { workers, settings } => {
                command.arg("serve").arg("--cache").arg(cache);
                command.args(["--cache-size", &format!("{}G", setup.cache_gib)]);
                command.args(["--workers", &workers.to_string()]);
                command.args(["--memory", &format!("{}M", setup.memory_mib)]);
                command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
                match setup.source {
                    Source::Origin(origin) => {
                        command.args(["--reverse", &format!("http://{origin}")]);
                    }
                    Source::Files(root) => {
                        command.arg("--static").arg(root);
                    }
                }
                command.args(settings);
            }
            Kind::Nginx => {
                let path = directory.join("nginx.conf");
                let text = match setup.source {
                    Source::Origin(origin) => {
                        nginx::configuration(directory, &cache, address, setup, origin)
                    }
                    Source::Files(root) => nginx::of_files(directory, address, root),
                };
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
                command.arg("-c").arg(&path).arg("-p").arg(directory);
            }
            Kind::TrafficServer => {
                let Source::Origin(origin) = setup.source else {
                    return Err("Traffic Server serves no files".into());
                };
                traffic_server::configure(directory, &cache, address, setup, origin)?;
                command.arg(format!("--run-root={}", directory.display()));
            }
        }
        Ok(command)
    }

    /// Returns the command of the program, run in the control group.
    fn program_in(&self, group: Option<&Path>) -> Command {
        let Some(group) = group else { return Command::new(&self.program) };
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group).arg(&self.program);
        command
    }
}

/// A running server. Dropped, it is stopped and its cache removed.
pub struct Running {
    name: String,
    child: Child,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    directory: TempDir,
}

impl Running {
    /// Returns the system's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address that it serves on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all its processes.
    pub fn pids(&self) -> Vec<u32> {
        process::family(self.child.id())
    }

    /// Returns the user and system time of all its processes so far in seconds.
    pub fn cpu(&self) -> Result<f64, String> {
        process::cpu_seconds(&self.pids())
    }

    /// Returns the work of its device so far; only larder reports it.
    pub fn device(&self) -> Option<DeviceWork> {
        let text = http_get(self.admin?, "/metrics")?;
        Some(DeviceWork::from_metrics(&text))
    }

    fn await_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            let ready = match self.admin {
                Some(admin) => http_get(admin, "/readyz").is_some(),
                None => TcpStream::connect(self.address).is_ok(),
            };
            if ready {
                return Ok(());
            }
            if self.child.try_wait().is_ok_and(|s| s.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        Err(format!("{} did not start: {said}", self.name))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + STOP;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the body of a 200 answer to a simple request.
fn http_get(to: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// Returns Larder as the options say: its default on one worker and on all cores, or each layout
/// and preset on one worker.
pub fn larders(options: &Options) -> Result<Vec<System>, String> {
    let layouts = options.layout.iter().map(|name| ("layout", name));
    let presets = options.preset.iter().map(|name| ("preset", name));
    let variants: Vec<_> = layouts.chain(presets).collect();
    if variants.is_empty() {
        let cores = process::cores();
        let workers = if cores > 1 { vec![1, cores] } else { vec![1] };
        return workers.into_iter().map(System::larder).collect();
    }
    let larder = |(setting, name): (&str, &String)| {
        let mut system = System::larder(1)?;
        system.set(setting, name);
        Ok(system)
    };
    variants.into_iter().map(larder).collect()
}
