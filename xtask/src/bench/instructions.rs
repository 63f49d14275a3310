//! The instructions that a request costs the server in user space: `cargo xtask instructions`.
//!
//! Times differ from run to run by more than most changes earn. Instructions do not: larder's
//! release build runs under callgrind, one connection sends one request after the other, and what
//! all of the server's threads execute meanwhile is counted. Three windows of requests are
//! counted for each path; the median is compared with the table in
//! `docs/research/instructions.md`, which `--bless` writes. What the kernel does is not in it.
//!
//! A profile of each window stays in `target/instructions`, for `callgrind_annotate`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;
use testbed::address;

use super::exchange::Connection;
use super::system::{Running, larder_program};
use super::{origin, scenario};
use crate::workspace;

/// What is counted, and what is done with it.
#[derive(Args)]
pub struct Options {
    /// Only the paths whose names contain this.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Writes the table anew instead of comparing with it.
    #[arg(long, conflicts_with = "only")]
    pub bless: bool,
    /// Takes the release build that is there, without building.
    #[arg(long)]
    pub as_built: bool,
}

/// A way that requests go.
struct Route {
    /// As in the table.
    name: &'static str,
    /// `store`, `vary` or `pass`: whether the origin lets its answers be stored, and whether they
    /// vary by `Accept-Encoding`.
    word: &'static str,
    /// Bytes of every body.
    size: usize,
    /// Objects that are fetched before anything is counted.
    fill: u64,
    objects: Objects,
    /// Requests in each window.
    requests: u64,
    /// `--memory`, MiB.
    memory_mib: u64,
    /// The outcome in `Cache-Status` of what is counted.
    outcome: &'static str,
}

/// The objects that are asked for.
#[derive(Clone, Copy)]
enum Objects {
    /// The first so many, over and over.
    Again(u64),
    /// Those that were stored neither first nor last, in a scattered order, each once: they have
    /// left memory.
    Scattered,
    /// Such as were never asked for.
    New,
}

const ROUTES: &[Route] = &[
    Route {
        name: "hit from memory, 3 KB",
        word: "store",
        size: 3_000,
        fill: 100,
        objects: Objects::Again(100),
        requests: 1_000,
        memory_mib: 64,
        outcome: "HIT_RAM",
    },
    Route {
        name: "hit from memory under Vary, 3 KB",
        word: "vary",
        size: 3_000,
        fill: 100,
        objects: Objects::Again(100),
        requests: 1_000,
        memory_mib: 64,
        outcome: "HIT_RAM",
    },
    Route {
        name: "hit from disk, 11 KB",
        word: "store",
        size: 11_000,
        fill: 8_000,
        objects: Objects::Scattered,
        requests: 800,
        memory_mib: 16,
        outcome: "HIT_DISK",
    },
    Route {
        name: "hit from memory, 1 MB",
        word: "store",
        size: 1_000_000,
        fill: 4,
        objects: Objects::Again(4),
        requests: 40,
        memory_mib: 64,
        outcome: "HIT_RAM",
    },
    Route {
        name: "hit from disk, 1 MB",
        word: "store",
        size: 1_000_000,
        fill: 200,
        objects: Objects::Scattered,
        requests: 25,
        memory_mib: 16,
        outcome: "HIT_DISK",
    },
    Route {
        name: "proxied, not stored, 3 KB",
        word: "pass",
        size: 3_000,
        fill: 100,
        objects: Objects::Again(100),
        requests: 1_000,
        memory_mib: 64,
        outcome: "MISS",
    },
    Route {
        name: "miss + store, 3 KB",
        word: "store",
        size: 3_000,
        fill: 1_000,
        objects: Objects::New,
        requests: 1_000,
        memory_mib: 64,
        outcome: "MISS",
    },
];

/// Windows of requests that are counted.
const WINDOWS: u64 = 3;

/// What is stored is on the device, and known to be there, after so long.
const WRITTEN: Duration = Duration::from_secs(3);

/// The table.
const TABLE: &str = "docs/research/instructions.md";

/// Counts and prints.
///
/// # Errors
///
/// When valgrind is absent, or larder cannot be built or started, or answers wrongly.
pub fn run(options: &Options) -> Result<(), String> {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        return Err("valgrind counts the instructions and is not installed: on Debian and Ubuntu \
                    `apt-get install valgrind`, on Fedora `dnf install valgrind`"
            .into());
    }
    if !options.as_built {
        workspace::succeed(workspace::cargo(&["build", "--release", "--package", "larder"]))?;
    }
    let profiles = workspace::root().join("target/instructions");
    fs::create_dir_all(&profiles).map_err(|e| format!("{}: {e}", profiles.display()))?;
    let table = workspace::root().join(TABLE);
    let text = fs::read_to_string(&table).unwrap_or_default();
    let origin = origin::start(Duration::ZERO)?;
    let mut counted = Vec::new();
    let head = ("instructions of a request", "count", "table", "change");
    println!("{:<32} {:>12} {:>12} {:>8}   windows", head.0, head.1, head.2, head.3);
    for route in ROUTES.iter().filter(|route| route.name.contains(&options.only)) {
        let windows = count(route, origin.address(), &profiles)?;
        let median = median(&windows);
        let before = in_table(&text, route.name);
        println!("{}", shown(route.name, median, before, &windows));
        counted.push((route.name, median));
    }
    if options.bless {
        let text = with_rows(&text, &counted)?;
        fs::write(&table, text).map_err(|e| format!("{}: {e}", table.display()))?;
    }
    Ok(())
}

/// Returns the line of a route: its count, the one of the table, the difference, and all windows.
fn shown(name: &str, count: u64, before: Option<u64>, windows: &[u64]) -> String {
    let (before, change) = match before {
        Some(before) => {
            let change = 100.0 * (count as f64 - before as f64) / before as f64;
            (before.to_string(), format!("{change:+.1}%"))
        }
        None => ("-".into(), String::new()),
    };
    format!("{name:<32} {count:>12} {before:>12} {change:>8}   {windows:?}")
}

/// Starts larder under callgrind, as a reverse proxy for the origin.
fn start(route: &Route, origin: SocketAddr, profile: &Path) -> Result<Running, String> {
    let base = workspace::root().join("target");
    let directory = TempDir::new_in(&base).map_err(|e| format!("{}: {e}", base.display()))?;
    let (address, admin) = (address::free(), address::free());
    let configuration = directory.path().join("larder.toml");
    // What a read brings along is found in memory, more or less of it by how fast the device is.
    fs::write(&configuration, "[store]\nread-unit = \"object\"\n")
        .map_err(|e| format!("{}: {e}", configuration.display()))?;
    let mut command = Command::new("valgrind");
    // Filled without counting, which is faster.
    command.args(["--quiet", "--tool=callgrind", "--instr-atstart=no"]);
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    command.arg(larder_program()?).arg("serve").arg("--config").arg(configuration);
    command.arg("--cache").arg(directory.path().join("cache"));
    command.args(["--cache-size", "1G", "--workers", "1"]);
    command.args(["--memory", &format!("{}M", route.memory_mib)]);
    command.args(["--reverse", &format!("http://{origin}")]);
    command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
    Running::launch("larder", command, directory, (address, Some(admin)))
}

/// Counts the instructions of a request on this route, in each window.
fn count(route: &Route, origin: SocketAddr, profiles: &Path) -> Result<Vec<u64>, String> {
    let name = route.name.replace([' ', ','], "-");
    let profile = profiles.join(format!("{name}.out"));
    let server = start(route, origin, &profile)?;
    let callgrind = Callgrind { profile, pid: *server.pids().first().ok_or("no process")? };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("the load generator: {e}"))?;
    runtime.block_on(windows(route, &server, &callgrind))
}

async fn windows(
    route: &Route,
    server: &Running,
    callgrind: &Callgrind,
) -> Result<Vec<u64>, String> {
    let mut client = Connection::open(server.address(), route.size).await?;
    for object in 0..route.fill {
        ask(&mut client, route, object, None).await?;
    }
    tokio::time::sleep(WRITTEN).await;
    callgrind.tell(&["instrumentation", "on"])?;
    let mut next = 0..;
    let mut counts = Vec::new();
    for window in 0..=WINDOWS {
        callgrind.tell(&["zero"])?;
        for number in next.by_ref().take(route.requests as usize) {
            ask(&mut client, route, route.object(number), Some(route.outcome)).await?;
        }
        let total = callgrind.dump(window + 1)?;
        // The first one warms up.
        if window > 0 {
            counts.push(total / route.requests);
        }
    }
    Ok(counts)
}

impl Route {
    /// Returns the object that request `number` is for.
    fn object(&self, number: u64) -> u64 {
        match self.objects {
            Objects::Again(objects) => number % objects,
            // A prime that divides no `fill`, so that none comes twice.
            Objects::Scattered => self.fill / 4 + (number * 1_009) % (self.fill / 2),
            Objects::New => self.fill + number,
        }
    }
}

/// Asks for an object, and checks its answer.
async fn ask(
    client: &mut Connection,
    route: &Route,
    object: u64,
    outcome: Option<&str>,
) -> Result<(), String> {
    let path = format!("/{}/{}/{object}", route.word, route.size);
    // As browsers ask.
    let fields = match route.word {
        "vary" => "Accept-Encoding: gzip, deflate, br, zstd\r\n",
        _ => "",
    };
    let (head, body) = client.get_all_with(&path, fields).await?;
    if !scenario::is_body(object, route.size, body) {
        return Err(format!("{path}: a wrong body of {} bytes", body.len()));
    }
    let head = String::from_utf8_lossy(head);
    match outcome {
        Some(outcome) if !head.contains(&format!("detail={outcome}\r\n")) => {
            Err(format!("{path}: this is no {outcome}: {head}"))
        }
        _ => Ok(()),
    }
}

/// A program that runs under callgrind.
struct Callgrind {
    /// Where it writes profiles: a dump has its number behind this name.
    profile: PathBuf,
    pid: u32,
}

impl Callgrind {
    fn tell(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("vgdb");
        command.arg(format!("--pid={}", self.pid)).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        workspace::succeed(command)
    }

    /// Writes what was counted since the last time, and returns the sum.
    fn dump(&self, number: u64) -> Result<u64, String> {
        self.tell(&["dump"])?;
        let path = format!("{}.{number}", self.profile.display());
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        total(&text).ok_or(format!("{path}: no sum in it"))
    }
}

/// Returns the sum of a profile.
fn total(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

fn median(windows: &[u64]) -> u64 {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// Returns the count of a route in the table: a line `| name | count |`.
fn in_table(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let found = cells.next() == Some(name);
        found.then(|| cells.next()?.replace(',', "").parse().ok())?
    })
}

/// Returns the text with these rows in its table, in place of those that it has.
fn with_rows(text: &str, rows: &[(&str, u64)]) -> Result<String, String> {
    let is_row = |line: &&str| line.starts_with('|');
    let head: Vec<&str> = text.lines().take_while(|line| !is_row(line)).collect();
    let table: Vec<&str> = text.lines().filter(is_row).take(2).collect();
    let tail = text.lines().skip(head.len()).skip_while(is_row);
    if table.len() < 2 {
        return Err(format!("{TABLE} has no table to write to"));
    }
    let rows = rows.iter().map(|(name, count)| format!("| {name} | {count} |"));
    let lines = head.iter().chain(&table).map(ToString::to_string);
    let all: Vec<String> = lines.chain(rows).chain(tail.map(ToString::to_string)).collect();
    Ok(all.join("\n") + "\n")
}

#[test]
fn a_table_is_read_and_written_in_its_place() {
    let text =
        "words\n\n| path | instructions |\n|---|---:|\n| a | 1 |\n| b, c | 2,000 |\n\nmore\n";
    assert_eq!((in_table(text, "b, c"), in_table(text, "d")), (Some(2_000), None));
    let written = with_rows(text, &[("a", 3), ("d", 4)]).unwrap();
    let expected = "words\n\n| path | instructions |\n|---|---:|\n| a | 3 |\n| d | 4 |\n\nmore\n";
    assert_eq!(written, expected);
    assert!(with_rows("words", &[]).is_err());
}

#[test]
fn the_sum_of_a_profile_is_found() {
    assert_eq!(total("events: Ir\nsummary: 5\n\ntotals: 6\n"), Some(6));
    assert_eq!(total("events: Ir\n"), None);
}

#[test]
fn scattered_objects_come_once_and_are_enough() {
    for route in ROUTES.iter().filter(|route| matches!(route.objects, Objects::Scattered)) {
        let asked = (1 + WINDOWS) * route.requests;
        let objects: std::collections::BTreeSet<u64> =
            (0..asked).map(|n| route.object(n)).collect();
        assert_eq!(objects.len() as u64, asked, "{}", route.name);
        assert!(objects.iter().all(|object| *object < route.fill * 3 / 4), "{}", route.name);
    }
}
