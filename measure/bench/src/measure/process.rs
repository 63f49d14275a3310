//! Resource usage of a program's processes, from `/proc`: time, switches, bytes.

use std::fs;
use std::ops::Sub;

/// Counts of several processes with all their threads, since they started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounts {
    /// User CPU time in seconds.
    pub user: f64,
    /// System CPU time in seconds.
    pub system: f64,
    /// Voluntary context switches: a thread waited for something.
    pub voluntary_switches: u64,
    /// Involuntary context switches: a thread was preempted.
    pub involuntary_switches: u64,
    /// Calls that read or wrote files and sockets, as far as the kernel counts them (`read`,
    /// `write` and similar, but not `recv`, `send` or operations of a ring).
    pub read_write_calls: Option<u64>,
    /// Bytes read from storage.
    pub storage_read: Option<u64>,
    /// Bytes written to storage.
    pub storage_written: Option<u64>,
}

impl Sub for ProcessCounts {
    type Output = ProcessCounts;

    fn sub(self, before: ProcessCounts) -> ProcessCounts {
        let both = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        ProcessCounts {
            user: self.user - before.user,
            system: self.system - before.system,
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
            read_write_calls: both(self.read_write_calls, before.read_write_calls),
            storage_read: both(self.storage_read, before.storage_read),
            storage_written: both(self.storage_written, before.storage_written),
        }
    }
}

/// Returns a process and all its descendants.
pub fn family(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        for thread in threads(parent) {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let text = fs::read_to_string(path).unwrap_or_default();
            found.extend(text.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

fn threads(process: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the sum of the counts of these processes. A process that has ended no longer counts.
///
/// # Errors
/// Fails if none of them exists.
pub fn process_counts(processes: &[u32]) -> Result<ProcessCounts, String> {
    let mut all = ProcessCounts {
        read_write_calls: Some(0),
        storage_read: Some(0),
        storage_written: Some(0),
        ..ProcessCounts::default()
    };
    let mut any = false;
    for process in processes {
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        let Some([user, system]) = times(&stat) else { continue };
        any = true;
        all.user += user;
        all.system += system;
        for thread in threads(*process) {
            let path = format!("/proc/{process}/task/{thread}/status");
            let text = fs::read_to_string(path).unwrap_or_default();
            all.voluntary_switches += line(&text, "voluntary_ctxt_switches:").unwrap_or(0);
            all.involuntary_switches += line(&text, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let add = |sum: &mut Option<u64>, value: Option<u64>| {
            *sum = sum.zip(value).map(|(sum, value)| sum + value);
        };
        let calls = line(&io, "syscr:").zip(line(&io, "syscw:"));
        add(&mut all.read_write_calls, calls.map(|(reads, writes)| reads + writes));
        add(&mut all.storage_read, line(&io, "read_bytes:"));
        add(&mut all.storage_written, line(&io, "write_bytes:"));
    }
    if any { Ok(all) } else { Err(format!("no process {processes:?} is there")) }
}

/// Returns user and system time in seconds from `/proc/PID/stat`. The process name in it may
/// contain anything, including brackets.
fn times(stat: &str) -> Option<[f64; 2]> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let seconds = |at: usize| {
        let ticks: u64 = fields.get(at)?.parse().ok()?;
        Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    Some([seconds(11)?, seconds(12)?])
}

/// Returns the number on the line that begins with `name`.
fn line(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (odd) name (x) S 1 7 7 0 -1 4194560 1 2 3 4 120 30 5 6 20 0 1 0 99";
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(times(stat), Some([120.0 / ticks, 30.0 / ticks]));
        assert_eq!(times("7 (x) S 1"), None);
        assert_eq!(
            line("Name: x\nvoluntary_ctxt_switches:\t17\n", "voluntary_ctxt_switches:"),
            Some(17)
        );
    }

    #[test]
    fn this_process_has_a_family_and_counts() {
        let own = std::process::id();
        assert_eq!(family(own)[0], own);
        let before = process_counts(&[own]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let since = process_counts(&[own]).unwrap() - before;
        assert!(since.voluntary_switches > 0, "{since:?}");
        assert!(process_counts(&[u32::MAX]).is_err());
    }
}
