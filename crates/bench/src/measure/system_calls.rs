//! System calls of the tested program, counted by `perf` while a phase runs.
//!
//! Counting costs the program a little time for each call, so it is done only when asked for.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The count under way. Dropped, it ends.
pub struct SystemCalls(Child);

/// The time that perf takes until it counts.
const START: Duration = Duration::from_millis(300);

impl SystemCalls {
    /// Begins to count.
    ///
    /// # Errors
    /// There is no perf, or it may not.
    pub fn start(processes: &[u32]) -> Result<SystemCalls, String> {
        let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &list])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf cannot be run: {error}"))?;
        thread::sleep(START);
        match child.try_wait() {
            Ok(None) => Ok(SystemCalls(child)),
            _ => Err(format!("perf may not count them: {}", said(&mut child))),
        }
    }

    /// Ends the count and returns it.
    ///
    /// # Errors
    /// perf says none.
    pub fn stop(mut self) -> Result<u64, String> {
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let text = said(&mut self.0);
        count(&text).ok_or_else(|| format!("perf says no count: {text}"))
    }
}

impl Drop for SystemCalls {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let _ = self.0.wait();
    }
}

/// What it writes until it ends, on one line.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stream) = child.stderr.take() {
        let _ = stream.read_to_string(&mut text);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn count(text: &str) -> Option<u64> {
    let end = text.find(",,raw_syscalls:sys_enter")?;
    text[..end].rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_count_is_read_or_is_none() {
    assert_eq!(count("12345,,raw_syscalls:sys_enter,100,100.00,,"), Some(12_345));
    assert_eq!(count("event syntax error: x"), None);
    assert_eq!(count("<not supported>,,raw_syscalls:sys_enter,0"), None);
}
