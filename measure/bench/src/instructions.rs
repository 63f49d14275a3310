//! Counts the instructions per request that the server executes in user space.
//!
//! Times vary between runs by more than most changes gain; instruction counts do not. Larder's
//! release build runs under callgrind, one connection sends one request after the other, and the
//! instructions of all of the server's threads are counted. Three windows of requests are counted
//! for each route (`routes`). The median is compared with the table in
//! `docs/research/instructions.md`, which `--bless` writes. Instructions of the kernel are not
//! included.
//!
//! Routes are counted in parallel, one per core. `--check` fails if a count has grown.
//!
//! A profile of each window stays in `target/instructions`, for `callgrind_annotate`.

mod client;
mod origin;
mod routes;
mod server;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use self::client::Client;
use self::routes::{Objects, ROUTES, Route, WINDOWS};
use self::server::{Counting, Server};
use crate::repository::Repository;
use crate::run::cores;

/// Routes to count, and what to do with the counts.
pub struct Options {
    /// Only the routes whose names contain this.
    pub only: String,
    /// True to write the table anew instead of comparing with it.
    pub bless: bool,
    /// True to fail where a count is greater than that of the table by more than its tolerance.
    pub check: bool,
    /// True to take the existing release build, without building.
    pub as_built: bool,
}

/// Time after which stored objects are on the device and known to be there.
const WRITTEN: Duration = Duration::from_secs(3);

/// Maximum number of times that all objects are requested, until the other node serves the same
/// ones as the time before.
const GATHERINGS: usize = 30;

/// Path of the table.
const TABLE: &str = "docs/research/instructions.md";

/// Returns whether counts can be compared with those of the table.
///
/// # Errors
///
/// When valgrind is absent, or the table's counts are from another compiler; says which.
fn can_check(repository: &Repository) -> Result<(), String> {
    find_valgrind()?;
    let text = fs::read_to_string(repository.join(TABLE)).unwrap_or_default();
    let (of_table, own) =
        (table::compiler(&text).unwrap_or("an unknown compiler"), compiler(repository)?);
    match of_table == own {
        true => Ok(()),
        false => Err(format!("{TABLE} is of {of_table}, and this is {own}")),
    }
}

fn find_valgrind() -> Result<(), String> {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    match valgrind.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => {
            Err("valgrind counts the instructions and is not installed: on Debian and Ubuntu \
                      `apt-get install valgrind`, on Fedora `dnf install valgrind`"
                .into())
        }
    }
}

/// Counts, and passes each line of the result to `print`.
///
/// # Errors
///
/// When valgrind is absent, or larder cannot be built or started, or responds wrongly; with `check`
/// also when a count has grown, or cannot be compared.
pub fn run(
    options: &Options,
    interrupted: &AtomicBool,
    print: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let repository = Repository::find()?;
    if options.check { can_check(&repository) } else { find_valgrind() }?;
    let program = repository.larder(options.as_built)?;
    let base = repository.join("target");
    let profiles = base.join("instructions");
    fs::create_dir_all(&profiles).map_err(|e| format!("{}: {e}", profiles.display()))?;
    let table = repository.join(TABLE);
    let text = fs::read_to_string(&table).unwrap_or_default();
    let origin = origin::start()?;
    let counting = Counting { program: &program, origin, base: &base, interrupted };
    let (mut rows, mut grown) = (Vec::new(), Vec::new());
    let head = ("instructions of a request", "count", "table", "change");
    print(&format!("{:<40} {:>10} {:>10} {:>8}   windows", head.0, head.1, head.2, head.3));
    let routes: Vec<&Route> =
        ROUTES.iter().filter(|route| route.name.contains(&options.only)).collect();
    let count = |route: &Route| count(&counting, route, &profiles);
    in_order(&routes, count, |route, windows| {
        let median = median(&windows);
        let before = table::count(&text, route.name);
        print(&shown(route.name, median, before, &windows));
        rows.push((route.name, median, route.tolerance));
        if before.is_none_or(|before| median * 100 > before * (100 + route.tolerance)) {
            grown.push(route.name);
        }
    })?;
    if options.bless {
        let text = table::with_rows(&text, &rows, &compiler(&repository)?)?;
        fs::write(&table, text).map_err(|e| format!("{}: {e}", table.display()))?;
    }
    match options.check && !grown.is_empty() {
        true => Err(format!("more instructions than {TABLE} tolerates: {}", grown.join("; "))),
        false => Ok(()),
    }
}

/// Counts routes in parallel, one per core, and passes the results on in the table's order.
fn in_order(
    routes: &[&Route],
    count: impl Fn(&Route) -> Result<Vec<u64>, String> + Sync,
    mut take: impl FnMut(&Route, Vec<u64>),
) -> Result<(), String> {
    let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
    thread::scope(|scope| {
        for sender in vec![sender; cores::allowed().len().max(1)] {
            let (next, count) = (&next, &count);
            scope.spawn(move || {
                while let Some(route) = routes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((route.name, count(route))).is_err() {
                        return;
                    }
                }
            });
        }
        let mut counted = BTreeMap::new();
        for route in routes {
            while !counted.contains_key(route.name) {
                let (name, windows) = receiver.recv().map_err(|_| "a counting thread failed")?;
                counted.insert(name, windows?);
            }
            take(route, counted.remove(route.name).unwrap_or_default());
        }
        Ok(())
    })
}

/// Returns the compiler's name and version.
fn compiler(repository: &Repository) -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").current_dir(repository.join(".")).output();
    let output = output.map_err(|e| format!("rustc: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Formats the line of a route: its count, the one of the table, the difference, and all windows.
fn shown(name: &str, count: u64, before: Option<u64>, windows: &[u64]) -> String {
    let (before, change) = match before {
        Some(before) => {
            let change = 100.0 * (count as f64 - before as f64) / before as f64;
            (before.to_string(), format!("{change:+.1}%"))
        }
        None => ("-".into(), String::new()),
    };
    format!("{name:<40} {count:>10} {before:>10} {change:>8}   {windows:?}")
}

/// Counts the instructions per request on this route, in each window.
fn count(counting: &Counting, route: &Route, profiles: &Path) -> Result<Vec<u64>, String> {
    let name = route.name.replace([' ', ',', '/'], "-");
    let profile: PathBuf = profiles.join(format!("{name}.out"));
    let server = Server::start(counting, route, &profile)?;
    windows(counting, route, &server).map_err(|why| format!("{}: {why}", route.name))
}

fn windows(counting: &Counting, route: &Route, server: &Server) -> Result<Vec<u64>, String> {
    let mut client = Client::open(&server.way)?;
    for object in 0..route.fill {
        counting.check()?;
        client.ask(route, object, false)?;
    }
    thread::sleep(WRITTEN);
    server.callgrind.tell(&["instrumentation", "on"])?;
    let mut next = 0..;
    let mut counts = Vec::new();
    for window in 0..=WINDOWS {
        let mut counted = Err(String::new());
        for _ in 0..route.tries() {
            counting.check()?;
            let at_other_node = match route.objects {
                Objects::AtOtherNode => at_other_node(counting, &mut client, route)?,
                _ => Vec::new(),
            };
            server.callgrind.tell(&["zero"])?;
            let mut numbers = next.by_ref().take(route.requests as usize);
            counted = numbers.try_for_each(|number| {
                counting.check()?;
                client.ask(route, route.object(number, &at_other_node), true).map(drop)
            });
            if counted.is_ok() {
                break;
            }
        }
        counted?;
        let total = server.callgrind.dump(window + 1)?;
        // The first window is a warm-up.
        if window > 0 {
            counts.push(total / route.requests);
        }
    }
    Ok(counts)
}

/// Returns the objects of the fill that only the other node has, once it serves all of them. A node
/// that is slow at first, as any is under callgrind, is skipped for a while.
fn at_other_node(
    counting: &Counting,
    client: &mut Client,
    route: &Route,
) -> Result<Vec<u64>, String> {
    let mut before = Vec::new();
    for _ in 0..GATHERINGS {
        let mut found = Vec::new();
        for object in 0..route.fill {
            counting.check()?;
            if client.ask(route, object, false)? {
                found.push(object);
            }
        }
        if !found.is_empty() && found == before {
            return Ok(found);
        }
        before = found;
        thread::sleep(Duration::from_secs(1));
    }
    Err("the other node does not answer".into())
}

fn median(windows: &[u64]) -> u64 {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}
