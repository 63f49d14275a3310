//! Running servers, and requests to their admin interfaces.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::process;
use crate::workspace;

/// Maximum time for a server's start.
const START: Duration = Duration::from_secs(30);
/// Maximum time for its stop before it is killed.
const STOP: Duration = Duration::from_secs(30);

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
