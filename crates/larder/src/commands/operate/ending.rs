//! `larder drain` and `larder stop`: end a running proxy in order, and wait for the end.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};

use crate::commands::admin_client::AdminClient;
use crate::commands::asking::understood;

/// Interval at which the process is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Time for the process to end, in addition to the drain: a device may take long to save.
const PATIENCE: Duration = Duration::from_secs(60);

const EXIT_CODES: &str = "Exit codes: 0 when the process has ended; 1 if it has not, or there is \
                          no response; 2 for a wrong command line.";

pub fn drain_command() -> Command {
    Command::new("drain")
        .about("End a running proxy in order, as SIGTERM does, and wait for its end")
        .after_help(format!(
            "/readyz fails at once, the listeners close after `drain-delay`, and running requests \
             have the time `drain` to finish. {EXIT_CODES}"
        ))
}

pub fn stop_command() -> Command {
    Command::new("stop")
        .about("End a running proxy without waiting for clients; the cache is saved")
        .after_help(EXIT_CODES)
}

pub fn run(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let client = AdminClient::of(matches)?;
    let told = understood(&client.post(&format!("/{name}"), "{}")?)?;
    let pid = told["pid"].as_u64().unwrap_or_default();
    let most = PATIENCE + Duration::from_secs(told["seconds"].as_u64().unwrap_or_default());
    let (began, is_here) = (Instant::now(), is_larder(pid));
    while if is_here { is_larder(pid) } else { client.get("/healthz").is_ok() } {
        if began.elapsed() > most {
            let waited = began.elapsed().as_secs();
            let why = format!("process {pid} has not ended within {waited} s; see its log");
            return Err(Failure::runtime(why));
        }
        thread::sleep(LOOK);
    }
    answer(&format!("process {pid} has ended"))
}

/// Returns whether a process of this machine with this number is a larder that has not ended. The
/// proxy may run on another machine or in a container, where its number means another process.
fn is_larder(pid: u64) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let name_and_rest = text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    name_and_rest.is_some_and(|(name, rest)| {
        name.starts_with("larder") && !rest.trim_start().starts_with(['Z', 'X'])
    })
}
