//! The servers under test: larder and nginx, each as a reverse proxy with a cache of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::process;
use super::report::DeviceWork;
use super::scenario::Scenario;
use crate::workspace;

/// One server program and how it is set up.
pub struct System {
    /// As in the table.
    pub name: String,
    kind: Kind,
    program: PathBuf,
}

enum Kind {
    Larder { workers: usize, settings: Vec<String> },
    Nginx,
}

/// How long a server may take to start.
const START: Duration = Duration::from_secs(30);

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

    /// nginx with one worker; `None` when it is not installed.
    pub fn nginx() -> Option<System> {
        let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        let program = places.iter().map(PathBuf::from).find(|p| p.exists())?;
        Some(System { name: "nginx, 1 worker".into(), kind: Kind::Nginx, program })
    }

    /// Starts it with an empty cache below `base`.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not answer in time; the text holds what it said.
    pub fn start(
        &self,
        scenario: &Scenario,
        base: &Path,
        origin: SocketAddr,
    ) -> Result<Running, String> {
        fs::create_dir_all(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let directory = TempDir::new_in(base).map_err(|e| format!("{}: {e}", base.display()))?;
        let (address, admin) = (free_address()?, free_address()?);
        let log =
            fs::File::create(directory.path().join("log")).map_err(|e| format!("log: {e}"))?;
        let mut command = Command::new(&self.program);
        match &self.kind {
            Kind::Larder { workers, settings } => {
                command.arg("serve").arg("--cache").arg(directory.path().join("cache"));
                command.args(["--cache-size", "2G", "--workers", &workers.to_string()]);
                command.args(["--memory", &format!("{}M", scenario.memory_mib)]);
                command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
                command.args(["--reverse", &format!("http://{origin}")]);
                command.args(settings);
            }
            Kind::Nginx => {
                let path = directory.path().join("nginx.conf");
                let text = nginx_configuration(directory.path(), address, origin);
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
                command.arg("-c").arg(&path).arg("-p").arg(directory.path());
            }
        }
        let errors = log.try_clone().map_err(|e| format!("log: {e}"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", self.name))?;
        let admin = matches!(self.kind, Kind::Larder { .. }).then_some(admin);
        let mut running = Running { name: self.name.clone(), child, address, admin, directory };
        running.await_ready()?;
        Ok(running)
    }
}

/// nginx as its documentation recommends for a cache: keep-alive to the origin, no temporary files
/// on another file system, logs off.
fn nginx_configuration(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> String {
    let at = directory.display();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log crit;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; sendfile on; tcp_nodelay on;
            keepalive_timeout 1h; keepalive_requests 1000000000;
            client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
            fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
            proxy_cache_path {at}/cache levels=1:2 keys_zone=bench:128m max_size=2g
                inactive=1d use_temp_path=off;
            upstream origin {{
                server {origin}; keepalive 128; keepalive_requests 1000000000;
            }}
            server {{
                listen {listen} backlog=1024;
                location / {{
                    proxy_pass http://origin; proxy_http_version 1.1;
                    proxy_set_header Connection \"\"; proxy_cache bench;
                }}
            }}
        }}\n"
    )
}

fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("loopback: {e}"))?;
    listener.local_addr().map_err(|e| format!("loopback: {e}"))
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
    /// The system's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All its processes.
    pub fn pids(&self) -> Vec<u32> {
        process::family(self.child.id())
    }

    /// User and system time of all its processes so far, seconds.
    pub fn cpu(&self) -> Result<f64, String> {
        process::cpu_seconds(&self.pids())
    }

    /// What it did with its device so far; only larder tells.
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
        let _ = self.child.wait();
    }
}

/// The body of a 200 answer to a simple request.
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
