//! System calls of the program under test, counted by `perf` during a phase.
//!
//! Counting costs the program a little time for each call, so it is optional.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A running count. Ends when dropped.
pub struct SystemCalls(Child);

/// Time that perf needs before it counts.
const START: Duration = Duration::from_millis(300);

impl SystemCalls {
    /// Starts to count.
    ///
    /// # Errors
    /// Fails if perf is not installed or not permitted.
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
    /// Fails if perf reports no count.
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

/// Returns everything that the program writes until it ends, on one line.
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
