//! The comparisons, as small as they can be, over what is installed here: each measures systems and
//! leaves nothing behind, also when it is interrupted. Without root, loop devices or systems they
//! are skipped, and say so.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use testkit::loop_device::{Blocks, LoopDevice};

/// Why it cannot be tried here; `None`: it can.
fn missing(directory: &Path) -> Option<String> {
    if !geteuid().is_root() {
        return Some("no root".to_owned());
    }
    if !Path::new("/usr/sbin/nginx").exists() {
        return Some("nginx is not installed".to_owned());
    }
    LoopDevice::over(&directory.join("probe"), 1 << 20, Blocks::Sparse).err()
}

/// Starts a comparison. Larder itself is not built by these tests; it is measured where it is.
fn start(directory: &Path, comparison: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args([comparison, "--rounds", "1", "--cache-size", "96M", "--connections", "4"]);
    command.args(["--quiet", "--seed", "1", "--dir"]).arg(directory).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// The arguments of `compare`.
const CACHES: [&str; 4] = ["--scenarios", "memory,pass", "--memory", "160M"];

/// Runs a comparison to its end. Its output must have these parts, and nothing may be left.
fn measure(comparison: &str, arguments: &[&str], parts: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(why) = missing(directory.path()) {
        return eprintln!("SKIPPED: {why}");
    }
    let child = start(directory.path(), comparison, arguments);
    let process = child.id();
    let output = child.wait_with_output().expect("it ends");
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{error}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing: {said}{error}");
    }
    assert!(!said.contains("WRONG") && !said.contains("SKIPPED: nginx"), "{said}");
    assert_eq!(left_behind(process, directory.path()), [""; 0]);
}

/// Returns what a process of this number left: groups, mounts, devices, files.
fn left_behind(process: u32, directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for place in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"] {
        let groups = fs::read_dir(place).into_iter().flatten().flatten();
        let names = groups.filter_map(|group| group.file_name().into_string().ok());
        let own =
            |name: &String| name.starts_with("larder-") && name.contains(&format!("-{process}"));
        found.extend(names.filter(own));
    }
    let at = directory.display().to_string();
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    found.extend(mounts.lines().filter(|line| line.contains(&at)).map(str::to_owned));
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    found.extend(files.filter_map(|file| file.file_name().into_string().ok()));
    let devices = Command::new("losetup").args(["--list", "--noheadings"]).output();
    let devices = devices.map(|output| output.stdout).unwrap_or_default();
    let devices = String::from_utf8_lossy(&devices).into_owned();
    found.extend(devices.lines().filter(|line| line.contains(&at)).map(str::to_owned));
    found
}

#[test]
fn caches_are_measured_and_nothing_is_left() {
    if !Path::new("/usr/sbin/squid").exists() {
        return eprintln!("SKIPPED: Squid is not installed");
    }
    let arguments = [&CACHES[..], &["--systems", "nginx,squid ufs", "--time", "300ms"]].concat();
    let parts = ["hit from memory", "passed, not stored", "\nnginx ", "\nSquid ufs "];
    measure("compare", &arguments, &parts);
}

#[test]
fn web_servers_are_measured_and_nothing_is_left() {
    let arguments = [
        "--systems",
        "nginx",
        "--pages",
        "30",
        "--warm-up",
        "300",
        "--limit",
        "128M",
        "--memory",
        "32M",
        "--first",
        "100ms",
        "--time",
        "200ms",
        "--operations",
        "400",
    ];
    let parts = ["cold, to 0.1 s", "first pass", "warm-up", "measured", "restarted", "\nnginx "];
    measure("files", &arguments, &parts);
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(why) = missing(directory.path()) {
        return eprintln!("SKIPPED: {why}");
    }
    let arguments = [&CACHES[..], &["--systems", "nginx", "--time", "60s"]].concat();
    let child = start(directory.path(), "compare", &arguments);
    let process = child.id();
    // Once the server has its files, it runs or is about to.
    let end = Instant::now() + Duration::from_secs(60);
    while left_behind(process, directory.path()).is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(2));
    let pid = Pid::from_raw(process as i32).expect("a number");
    kill_process(pid, Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(left_behind(process, directory.path()), [""; 0]);
}

#[test]
fn nodes_are_measured_and_nothing_is_left() {
    let arguments = [
        "--systems",
        "nginx",
        "--nodes",
        "2",
        "--limit",
        "256M",
        "--memory",
        "16M",
        "--documents",
        "300",
        "--warm-up",
        "600",
        "--requests",
        "300",
        "--recovery",
        "1s",
        "--time",
        "200ms",
    ];
    let parts =
        ["sharing\n", "recovery\n", "remote: the owner asked\n", "\nnginx, hash ", "own cache"];
    measure("fleet", &arguments, &parts);
}
