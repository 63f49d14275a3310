//! Processor time of a server's processes, from the kernel.

use std::fs;

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

/// Returns utime + stime of a line of `/proc/PID/stat`. The name may contain any characters,
/// including brackets.
fn ticks_in(stat: &str) -> Option<u64> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
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
