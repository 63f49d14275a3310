//! The web servers under test: larder, nginx, Apache httpd and Caddy.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::address;

use super::options::Options;
use super::{apache, caddy, nginx, process};
use crate::workspace;

/// A server program and its setup.
#[derive(Clone)]
pub struct System {
    /// Name in the table.
    pub name: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Clone)]
enum Kind {
    /// With arguments of the command line and a configuration file.
    Larder {
        workers: usize,
        settings: Vec<String>,
        file: String,
    },
    /// With or without threads that read files.
    Nginx {
        threads: bool,
    },
    Apache,
    Caddy,
}

/// The parameters of a start.
pub struct Setup<'a> {
    /// The directory that will contain the server's own.
    pub base: &'a Path,
    /// A file or device for larder's cache.
    pub cache: &'a Path,
    /// Size of the cache, GiB.
    pub cache_gib: u32,
    /// Memory for objects, MiB; nginx has none of its own.
    pub memory_mib: u64,
    /// The files that it serves.
    pub root: WebRoot<'a>,
    /// Files of the control groups to which the server's process is added.
    pub groups: Vec<PathBuf>,
    /// The only core that it may use; `None`: all.
    pub core: Option<usize>,
}

/// A directory to be served, and related settings of the servers.
#[derive(Clone, Copy)]
pub struct WebRoot<'a> {
    /// Path of the directory.
    pub path: &'a Path,
    /// Number of files that a server may keep open.
    pub open_files: u64,
    /// Memory for a server, including the kernel memory charged to it, MiB.
    pub limit_mib: u64,
}

/// Maximum time for a server's start.
const START: Duration = Duration::from_secs(30);
/// Maximum time for its stop before it is killed.
const STOP: Duration = Duration::from_secs(30);

impl System {
    /// Returns larder's release build with `workers` workers.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn larder(workers: usize) -> Result<System, String> {
        Ok(System::larder_at(larder_program()?, workers))
    }

    /// Returns the larder at this path with `workers` workers.
    pub fn larder_at(program: PathBuf, workers: usize) -> System {
        let workers_shown =
            if workers == 1 { "1 worker".into() } else { format!("{workers} workers") };
        let name = format!("larder, {workers_shown}");
        let kind = Kind::Larder { workers, settings: Vec::new(), file: String::new() };
        System { name, kind, program }
    }

    /// Adds `--setting value` to larder's command line and to the name.
    pub fn set(&mut self, setting: &str, value: &str) {
        if let Kind::Larder { settings, .. } = &mut self.kind {
            settings.extend([format!("--{setting}"), value.to_owned()]);
            self.name = format!("{}, {setting} {value}", self.name);
        }
    }

    /// Adds a table to larder's configuration file, and its settings to the name.
    pub fn configure(&mut self, table: &str, setting: &str) {
        if let Kind::Larder { file, .. } = &mut self.kind {
            file.push_str(&format!("[{table}]\n{setting}\n"));
            self.name = format!("{}, {setting}", self.name);
        }
    }

    /// Returns nginx with one worker, and threads that read files; `None` if it is not installed.
    pub fn nginx() -> Option<System> {
        let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        System::installed("nginx, 1 worker", Kind::Nginx { threads: true }, &places)
    }

    /// Returns nginx whose one worker reads the files itself.
    pub fn nginx_without_threads() -> Option<System> {
        let system = System::nginx()?;
        let name = format!("{}, aio off", system.name);
        Some(System { name, kind: Kind::Nginx { threads: false }, ..system })
    }

    /// Returns Apache httpd with one process; `None` if it is not installed.
    pub fn apache() -> Option<System> {
        let places = ["/usr/sbin/apache2", "/usr/sbin/httpd"];
        System::installed("Apache httpd, 1 process", Kind::Apache, &places)
    }

    /// Returns Caddy on one core; `None` if it is not installed.
    pub fn caddy() -> Option<System> {
        let places = ["/usr/bin/caddy", "/usr/local/bin/caddy"];
        System::installed("Caddy, 1 core", Kind::Caddy, &places)
    }

    fn installed(name: &str, kind: Kind, places: &[&str]) -> Option<System> {
        let program = places.iter().map(PathBuf::from).find(|place| place.exists())?;
        Some(System { name: name.to_owned(), kind, program })
    }

    /// Starts the server. Its cache is used as found.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not respond in time; the text includes its output.
    pub fn start(&self, setup: &Setup) -> Result<Running, String> {
        let base = setup.base;
        fs::create_dir_all(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let directory = TempDir::new_in(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let (address, admin) = (address::free(), address::free());
        let command = self.command(setup, directory.path(), address, admin)?;
        let admin = matches!(self.kind, Kind::Larder { .. }).then_some(admin);
        Running::launch(&self.name, command, directory, (address, admin))
    }

    /// Returns the command that starts it, with its configuration files in `directory`.
    fn command(
        &self,
        setup: &Setup,
        directory: &Path,
        address: SocketAddr,
        admin: SocketAddr,
    ) -> Result<Command, String> {
        let root = &setup.root;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok::<PathBuf, String>(path)
        };
        let mut command = confined(&self.program, &setup.groups, setup.core);
        match &self.kind {
            Kind::Larder { workers, settings, file } => {
                command.arg("serve").arg("--cache").arg(setup.cache);
                command.args(["--cache-size", &format!("{}G", setup.cache_gib)]);
                command.args(["--workers", &workers.to_string()]);
                command.args(["--memory", &format!("{}M", setup.memory_mib)]);
                command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
                command.arg("--static").arg(root.path);
                if !file.is_empty() {
                    command.arg("--config").arg(write("larder.toml", file)?);
                }
                command.args(settings);
            }
            Kind::Nginx { threads } => {
                let text = nginx::of_files(directory, address, root, *threads);
                command.arg("-c").arg(write("nginx.conf", &text)?).arg("-p").arg(directory);
            }
            Kind::Apache => {
                let text = apache::of_files(directory, address, root.path)?;
                command.arg("-f").arg(write("httpd.conf", &text)?).arg("-DFOREGROUND");
                // On its stop it stops all processes of its group.
                command.process_group(0);
            }
            Kind::Caddy => {
                command.envs(caddy::environment(directory, root.limit_mib));
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(write("Caddyfile", &caddy::of_files(address, root.path))?);
            }
        }
        Ok(command)
    }

    /// Formats an empty cache on a device. Does nothing for servers other than larder.
    ///
    /// # Errors
    ///
    /// When larder reports one.
    pub fn empty(&self, device: &Path, gib: u32) -> Result<(), String> {
        let Kind::Larder { settings, .. } = &self.kind else { return Ok(()) };
        let mut command = Command::new(&self.program);
        command.args(["format", "--force", "--cache-size", &format!("{gib}G")]);
        let output = command.args(settings).arg(device).output();
        let output = output.map_err(|e| format!("larder format: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("larder format: {said}")) }
    }
}

/// Returns the program of larder's release build.
///
/// # Errors
///
/// When it was not built.
pub fn larder_program() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace::root().join("target"), PathBuf::from);
    let program = target.join("release/larder");
    match program.exists() {
        true => Ok(program),
        false => Err(format!("{} is not there after a build", program.display())),
    }
}

/// Returns the command of a program, run in the control groups and on the core.
pub fn confined(program: &Path, groups: &[PathBuf], core: Option<usize>) -> Command {
    let mut command = Command::new("sh");
    let enter = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 1; shift; done; \
                 shift; exec \"$@\"";
    command.args(["-c", enter, "sh"]).args(groups).arg("--");
    if let Some(core) = core {
        command.args(["taskset", "--cpu-list", &core.to_string()]);
    }
    command.arg(program);
    command
}

/// A running server. Dropping it stops it and removes its cache.
pub struct Running {
    name: String,
    child: Child,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    directory: TempDir,
}

impl Running {
    /// Starts the command of a server. It serves on the first address, and its admin interface, if
    /// any, on the second. Its output and files are in `directory`.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not respond in time; the text includes its output.
    pub fn launch(
        name: &str,
        mut command: Command,
        directory: TempDir,
        (address, admin): (SocketAddr, Option<SocketAddr>),
    ) -> Result<Running, String> {
        let log =
            fs::File::create(directory.path().join("log")).map_err(|e| format!("log: {e}"))?;
        let errors = log.try_clone().map_err(|e| format!("log: {e}"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|e| format!("cannot start {name}: {e}"))?;
        let mut running = Running { name: name.to_owned(), child, address, admin, directory };
        running.await_ready()?;
        Ok(running)
    }

    /// Kills all its processes, and waits until the main one has ended.
    pub fn kill(&mut self) {
        self.kill_all();
        let _ = self.child.wait();
    }

    fn kill_all(&self) {
        for pid in self.pids().iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Returns the address on which it serves.
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
        // The id of a process that was waited for may have been reused.
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + STOP;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                // Killing a parent leaves its children.
                self.kill_all();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Sends a simple GET request; returns the body of a 200 response.
pub fn http_get(to: SocketAddr, path: &str) -> Option<String> {
    simple_request(to, "GET", path, "").ok()
}

/// Sends a simple request with this body; returns the body of a 200 response.
///
/// # Errors
///
/// When there is no response, or a different one.
pub fn simple_request(
    to: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<String, String> {
    let fail = |e: std::io::Error| format!("{method} {path} of {to}: {e}");
    let mut stream = TcpStream::connect(to).map_err(fail)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(fail)?;
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).map_err(fail)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(fail)?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(format!("{method} {path} of {to} was answered: {text}")),
    }
}

/// Returns Larder as the options select: its default on one worker and on all cores, or each layout
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
