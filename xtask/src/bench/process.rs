//! Time and system calls of a server's processes, from the kernel.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// Returns `pid` and all its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        let path = format!("/proc/{parent}/task/{parent}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|p| p.parse::<u32>().ok()));
    }
    found
}

/// Returns the user and system time of `pids` together in seconds.
///
/// # Errors
///
/// When a process is gone or its status is not as documented.
pub fn cpu_seconds(pids: &[u32]) -> Result<f64, String> {
    let mut ticks = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        ticks += ticks_in(&text).ok_or_else(|| format!("{path}: no times in {text:?}"))?;
    }
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns utime + stime of a line of `/proc/PID/stat`. The name may hold anything, brackets
/// included.
fn ticks_in(stat: &str) -> Option<u64> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Returns the system calls per request of `work`, which returns its number of requests; `None`
/// where `perf` cannot count them.
///
/// # Errors
///
/// When `work` fails.
pub fn count_system_calls(
    pids: &[u32],
    work: impl FnOnce() -> Result<u64, String>,
) -> Result<Option<f64>, String> {
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let perf = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &list])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut perf) = perf else {
        work()?;
        return Ok(None);
    };
    thread::sleep(Duration::from_millis(300));
    let requests = work();
    let _ = kill_process(Pid::from_child(&perf), Signal::INT);
    let mut said = String::new();
    if let Some(mut stream) = perf.stderr.take() {
        let _ = stream.read_to_string(&mut said);
    }
    let _ = perf.wait();
    let requests = requests?.max(1);
    let line = said.lines().find(|l| l.contains("raw_syscalls:sys_enter"));
    let count = line.and_then(|l| l.split(',').next()?.parse::<f64>().ok());
    Ok(count.map(|count| count / requests as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (odd) name (x) S 1 7 7 0 -1 4194560 1 2 3 4 120 30 5 6 20 0 1 0 99";
        assert_eq!(ticks_in(stat), Some(150));
        assert_eq!(ticks_in("7 (x) S 1"), None);
    }

    #[test]
    fn this_process_has_a_family_and_has_used_time() {
        let own = std::process::id();
        assert_eq!(family(own)[0], own);
        assert!(cpu_seconds(&[own]).is_ok());
        assert!(cpu_seconds(&[u32::MAX]).is_err());
    }
}
