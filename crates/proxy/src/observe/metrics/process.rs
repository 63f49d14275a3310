//! Process figures from `/proc`, under the names that Prometheus clients agree on. Figures that
//! cannot be read are omitted.

use std::fs;

use super::Samples;

/// Ticks per second in `/proc/self/stat`; the same on every Linux.
const TICKS: f64 = 100.0;

/// Adds the current figures.
pub(super) fn samples(out: &mut Samples) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = kib_of(&status, "VmRSS:") {
        out.gauge("process_resident_memory_bytes", "Resident memory.", &[], bytes);
    }
    if let Some(bytes) = kib_of(&status, "VmSize:") {
        out.gauge("process_virtual_memory_bytes", "Virtual memory.", &[], bytes);
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some((user, system)) = cpu_ticks(&stat) {
        let help = "User and system CPU time.";
        out.counter("process_cpu_seconds", help, &[], (user + system) as f64 / TICKS);
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        // One descriptor belongs to this reading of the directory.
        let open = entries.count().saturating_sub(1);
        out.gauge("process_open_fds", "Open file descriptors.", &[], open);
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(most) = soft_limit(&limits, "Max open files") {
        out.gauge("process_max_fds", "Maximum number of open file descriptors.", &[], most);
    }
}

/// Parses a line such as `VmRSS:     1234 kB` and returns bytes.
fn kib_of(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns user and system time in ticks. The command name precedes them and may contain anything,
/// so fields are counted from its closing parenthesis.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Returns the soft limit from a line such as `Max open files   1024   4096   files`; infinity for
/// `unlimited`.
fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        count => count.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_lines_are_parsed() {
        let status = "Name:\tlarder\nVmSize:\t  999 kB\nVmRSS:\t    1234 kB\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(kib_of(status, "VmSwap:"), None);
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 9 8 7 6 250 50 0 0 20 0 5 0 777 1 2";
        assert_eq!(cpu_ticks(stat), Some((250, 50)));
        assert_eq!(cpu_ticks(""), None);
        let limits =
            "Limit  Soft Limit\nMax open files            1024                 4096  files";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        let unlimited = "Max open files  unlimited  unlimited";
        assert_eq!(soft_limit(unlimited, "Max open files"), Some(f64::INFINITY));
    }
}
