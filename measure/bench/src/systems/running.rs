//! A running system. Stopped when dropped.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::measure::family;

/// Timeout for a start, and for a stop before the system is killed.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(20);

/// A running system.
pub struct Running {
    child: Child,
    /// Contains its configuration and its output.
    directory: TempDir,
}

impl Running {
    /// Starts a command, and waits until it serves at `address`.
    ///
    /// # Errors
    /// Fails if the command cannot be started or does not serve in time; the error contains its
    /// output.
    pub fn launch(
        mut command: Command,
        directory: TempDir,
        address: SocketAddr,
        interrupted: &AtomicBool,
    ) -> Result<Running, String> {
        let fail = |error: std::io::Error| format!("{command:?}: {error}");
        let log = fs::File::create(directory.path().join("said")).map_err(fail)?;
        let errors = log.try_clone().map_err(fail)?;
        let spawned = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let child = spawned.map_err(|error| format!("{command:?}: {error}"))?;
        let mut running = Running { child, directory };
        let end = Instant::now() + START;
        while Instant::now() < end && !interrupted.load(Ordering::Relaxed) {
            if TcpStream::connect(address).is_ok() {
                return Ok(running);
            }
            if running.has_ended() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("it did not start: {}", running.said()))
    }

    /// Returns the first of its processes.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the first of its processes has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns the last lines of its output so far.
    pub fn said(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.directory.path().join(name));
        let texts = ["said", "cache.log", "error.log", "diags.log"].map(read);
        let lines: Vec<String> =
            texts.into_iter().flatten().flat_map(|text| last_lines(&text)).collect();
        lines.join("\n")
    }

    /// Kills all its processes, and waits until the first one has ended.
    pub fn kill(&mut self) {
        self.kill_all();
        let _ = self.child.wait();
    }

    fn kill_all(&self) {
        let processes = family(self.child.id());
        for process in processes.iter().filter_map(|process| Pid::from_raw(*process as i32)) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].iter().map(ToString::to_string).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        // The ID of a reaped process may already belong to another one.
        if self.has_ended() {
            return;
        }
        // Child processes that a parent may leave behind when it ends.
        let children = family(self.child.id());
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + STOP;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                self.kill_all();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let own = self.directory.path();
        children.iter().filter(|child| is_still(**child, own)).for_each(|child| {
            Pid::from_raw(*child as i32).map(|pid| kill_process(pid, Signal::KILL));
        });
    }
}

/// Returns whether a process that was started with files of this directory still exists.
fn is_still(process: u32, directory: &Path) -> bool {
    let path = PathBuf::from(format!("/proc/{process}/cmdline"));
    let line = fs::read(path).unwrap_or_default();
    let name = directory.as_os_str().as_encoded_bytes();
    line.windows(name.len()).any(|part| part == name)
}
