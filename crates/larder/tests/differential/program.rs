//! A program under comparison, with a small cache in a directory of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testbed::address;

/// Maximum time for a start or a stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parameters of a program's start.
pub struct Start<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its origin server; without one it is a forward proxy.
    pub origin: Option<SocketAddr>,
    /// Text of its configuration file, in which `{FRONT}` and `{BETWEEN}` stand for addresses of
    /// its own.
    pub configuration: &'a str,
    /// True if it writes an access log, in JSON.
    pub logs: bool,
}

/// A running `larder serve`, killed on drop.
pub struct Program {
    child: Child,
    command: Command,
    address: SocketAddr,
    front: SocketAddr,
    admin: SocketAddr,
    between: SocketAddr,
    directory: TempDir,
}

impl Program {
    /// Starts a program, and waits until it serves.
    pub fn start(start: &Start) -> Program {
        let directory = TempDir::new().expect("a temporary directory");
        let [address, front, admin, between] = [(); 4].map(|()| address::free());
        let text = start.configuration.replace("{FRONT}", &front.to_string());
        let text = text.replace("{BETWEEN}", &between.to_string());
        let config = directory.path().join("larder.toml");
        fs::write(&config, text).expect("the configuration can be written");
        let mut command = Command::new(start.program);
        command.args(["serve", "--listen", &address.to_string(), "--admin", &admin.to_string()]);
        command.args(["--cache-size", "64M", "--memory", "32M"]);
        command.arg("--cache").arg(directory.path().join("cache"));
        command.arg("--config").arg(config);
        if let Some(origin) = start.origin {
            command.arg("--reverse").arg(format!("http://{origin}"));
        }
        if start.logs {
            command.arg("--access-log").arg(directory.path().join("access.log"));
            command.args(["--log-format", "json"]);
        }
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = spawn(&mut command, directory.path());
        let mut program = Program { child, command, address, front, admin, between, directory };
        program.await_ready();
        program
    }

    /// Stops it in order, so that all pending output is written.
    pub fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + PATIENCE;
        while self.lives() {
            assert!(Instant::now() < end, "it does not stop; it said:\n{}", self.said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it and starts it again, with an empty memory.
    pub fn restart(&mut self) {
        self.stop();
        self.child = spawn(&mut self.command, self.directory.path());
        self.await_ready();
    }

    /// Returns the address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of `{FRONT}`.
    pub fn front(&self) -> SocketAddr {
        self.front
    }

    /// Returns the texts that differ between programs, such as addresses, with their substitutes.
    pub fn names(&self) -> Vec<(String, &'static str)> {
        let names = [
            (self.address, "<larder>"),
            (self.front, "<front>"),
            (self.admin, "<admin>"),
            (self.between, "<between>"),
        ];
        let names = names.map(|(address, name)| (address.to_string(), name));
        let directory = (self.directory.path().display().to_string(), "<directory>");
        [directory].into_iter().chain(names).collect()
    }

    /// Returns the lines of the access log from number `from` on.
    pub fn log(&self, from: usize) -> Vec<String> {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        whole.lines().skip(from).map(str::to_owned).collect()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("access.log")
    }

    /// Returns the response of its admin interface for this path.
    pub fn admin(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    /// Returns whether it runs.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Returns its output so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.directory.path().join("said")).unwrap_or_default()
    }

    /// Returns whether it serves and, in a fleet, has caught up.
    fn is_ready(&self) -> bool {
        let uses_store = |state: String| {
            let state: serde_json::Value = serde_json::from_str(&state).unwrap_or_default();
            state["caught_up"] == true && state["state"] == "serving"
        };
        self.admin("/readyz").is_some()
            && TcpStream::connect(self.address).is_ok()
            && self.admin("/fleet").is_none_or(uses_store)
    }

    fn await_ready(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !self.is_ready() {
            assert!(self.lives() && Instant::now() < end, "it does not start:\n{}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn spawn(command: &mut Command, directory: &Path) -> Child {
    let said = fs::OpenOptions::new().create(true).append(true).open(directory.join("said"));
    command.stderr(said.expect("a file for what it says"));
    command.spawn().expect("the program can be started")
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
