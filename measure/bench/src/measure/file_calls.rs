//! System calls on a cache's files or device, by kind, counted with `strace` during a phase; and
//! reads and writes through rings (io_uring), counted with `perf`.
//!
//! Each traced call stops the program for a while, so calls are counted at a low rate, in a
//! separate phase.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tempfile::TempDir;

/// Calls by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileCallCounts {
    /// `open`, `openat`, `creat`.
    pub opens: u64,
    /// `close`.
    pub closes: u64,
    /// `unlink`, `unlinkat`.
    pub unlinks: u64,
    /// `read` and similar.
    pub reads: u64,
    /// `write` and similar.
    pub writes: u64,
    /// Reads through a ring; `None`: unknown.
    pub ring_reads: Option<u64>,
    /// Writes through a ring; `None`: unknown.
    pub ring_writes: Option<u64>,
}

/// A running count. Ends when dropped.
pub struct FileCalls {
    strace: Counter,
    perf: Option<Counter>,
    /// The directory for the output of strace and perf.
    directory: TempDir,
    under: PathBuf,
}

/// A program that counts until it is told to end.
struct Counter(Child);

/// Time that strace and perf need before they count.
const START: Duration = Duration::from_secs(1);

const CALLS: &str = "trace=open,openat,creat,close,unlink,unlinkat,read,pread64,readv,preadv,\
                     preadv2,write,pwrite64,writev,pwritev,pwritev2";

/// `IORING_OP_READV`, `READ_FIXED` and `READ`; `WRITEV`, `WRITE_FIXED` and `WRITE`.
const RING_CODES: [[u8; 3]; 2] = [[1, 4, 22], [2, 5, 23]];
const RING_EVENT: &str = "io_uring:io_uring_submit_req";

impl FileCalls {
    /// Starts to count the calls of these processes on files below a path, or on this device.
    ///
    /// # Errors
    /// Fails if strace is not installed or not permitted.
    pub fn start(processes: &[u32], under: &Path) -> Result<FileCalls, String> {
        let directory = TempDir::new().map_err(|error| format!("a directory: {error}"))?;
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-y", "-s", "0", "-e", "signal=none", "-e", CALLS, "-o"]);
        strace.arg(directory.path().join("strace"));
        for process in processes {
            strace.args(["-p", &process.to_string()]);
        }
        let strace = Counter::start(strace, &directory.path().join("strace-said"))?;
        let perf = Counter::start(rings(processes), &directory.path().join("perf"));
        std::thread::sleep(START);
        let mut calls =
            FileCalls { strace, perf: perf.ok(), directory, under: under.to_path_buf() };
        if calls.strace.has_ended() {
            let said = fs::read_to_string(calls.directory.path().join("strace-said"));
            return Err(format!("strace may not count: {}", said.unwrap_or_default().trim()));
        }
        if calls.perf.as_mut().is_some_and(Counter::has_ended) {
            calls.perf = None;
        }
        Ok(calls)
    }

    /// Ends the count and returns it.
    ///
    /// # Errors
    /// Fails if the counts cannot be read.
    pub fn stop(self) -> Result<FileCallCounts, String> {
        let FileCalls { strace, perf, directory, under } = self;
        strace.end();
        let path = directory.path().join("strace");
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut counts = FileCallCounts::default();
        let under = under.display().to_string();
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            counts.note(&line, &under);
        }
        if let Some(perf) = perf {
            perf.end();
            let text = fs::read_to_string(directory.path().join("perf")).unwrap_or_default();
            let mut rings = text.lines().filter_map(ring_count);
            (counts.ring_reads, counts.ring_writes) = (rings.next(), rings.next());
        }
        Ok(counts)
    }
}

/// Returns the command of perf, which counts reads and then writes.
fn rings(processes: &[u32]) -> Command {
    let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-p", &list]);
    for codes in RING_CODES {
        let filter = codes.map(|code| format!("opcode=={code}")).join("||");
        perf.args(["-e", RING_EVENT, "--filter", &filter]);
    }
    perf
}

/// Parses a line of perf's output.
fn ring_count(line: &str) -> Option<u64> {
    line.contains(RING_EVENT).then(|| line.split(',').next()?.parse().ok())?
}

impl FileCallCounts {
    /// Counts a line of strace's output, such as `12 read(7</cache/00/01>, ""..., 4096) = 4096`.
    fn note(&mut self, line: &str, under: &str) {
        let Some((_, call)) = line.split_once(' ') else { return };
        let Some((name, arguments)) = call.trim_start().split_once('(') else { return };
        // The second half of a call that was interrupted by another thread's call does not count.
        if call.contains(" resumed>") {
            return;
        }
        let is_ours = match name {
            "open" | "openat" | "creat" | "unlink" | "unlinkat" => arguments.contains(under),
            // The first argument is a file descriptor with its path.
            _ => arguments
                .split_once('<')
                .is_some_and(|(number, path)| !number.contains(',') && path.starts_with(under)),
        };
        if !is_ours {
            return;
        }
        match name {
            "open" | "openat" | "creat" => self.opens += 1,
            "close" => self.closes += 1,
            "unlink" | "unlinkat" => self.unlinks += 1,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => self.reads += 1,
            _ => self.writes += 1,
        }
    }
}

impl Counter {
    fn start(mut command: Command, errors: &Path) -> Result<Counter, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let errors = File::create(errors).map_err(|error| format!("a file: {error}"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().map_err(|error| format!("{name} cannot be run: {error}"))?;
        Ok(Counter(child))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }

    fn end(self) {}
}

impl Drop for Counter {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
            let _ = self.0.wait();
        }
    }
}

#[test]
fn calls_on_the_caches_files_are_counted_by_kind() {
    let mut counts = FileCallCounts::default();
    for line in [
        "7 openat(AT_FDCWD</>, \"/c/00/01\", O_RDONLY) = 12</c/00/01>",
        "7 read(12</c/00/01>, \"\"..., 4096) = 4096",
        "7 read(12</c/00/01>,  <unfinished ...>",
        "7 <... read resumed>\"\"..., 4096) = 512",
        "7 close(12</c/00/01>)     = 0",
        "8 unlink(\"/c/00/02\") = 0",
        "7 read(9<socket:[812]>, \"\"..., 65535) = 300",
        "7 write(9<TCP:[1->2]>, \"\"..., 30) = 30",
        "7 pwrite64(5</c/rock>, \"\"..., 4096, 8192) = 4096",
        "7 openat(AT_FDCWD</>, \"/etc/hosts\", O_RDONLY) = 12</etc/hosts>",
        "7 +++ exited with 0 +++",
    ] {
        counts.note(line, "/c");
    }
    let expected =
        FileCallCounts { opens: 1, closes: 1, unlinks: 1, reads: 2, writes: 1, ..counts };
    assert_eq!(counts, expected);
    assert_eq!(ring_count("34,,io_uring:io_uring_submit_req,100,100.00,,"), Some(34));
    assert_eq!(ring_count("<not counted>,,io_uring:io_uring_submit_req,0"), None);
}
