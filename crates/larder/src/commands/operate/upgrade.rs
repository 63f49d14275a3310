//! `larder upgrade`: lets a new process take over, and waits until it serves.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};
use cli::outcome::{Failure, answer};
use serde_json::Value;

use crate::commands::admin_client::AdminClient;
use crate::commands::asking::understood;

/// Interval at which the state is asked for.
const LOOK: Duration = Duration::from_millis(100);

/// Time for the new process to take over, in addition to the drain of the old one.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn command() -> Command {
    Command::new("upgrade")
        .about("Let a new process with the program's present file take over from a running one")
        .after_help(
            "Waits until the new process has the cache. Exit codes: 0 when it serves; 1 if the old \
             process goes on, or there is no response; 2 for a wrong command line.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let client = AdminClient::of(matches)?;
    let told = understood(&client.post("/upgrade", "{}")?)?;
    let pid = &told["pid"];
    let (began, mut most) = (Instant::now(), PATIENCE);
    loop {
        // Nothing answers for a moment while one process ends and the other begins.
        let status = client.get("/status").and_then(|told| understood(&told));
        let status = status.unwrap_or_default();
        let is_new = status["pid"] == *pid;
        if is_new && matches!(status["state"].as_str(), Some("ready" | "degraded")) {
            let version = status["version"].as_str().unwrap_or_default();
            return answer(&format!("process {pid} serves, larder {version}"));
        }
        if let Some(drain) = status["drain_seconds"].as_u64() {
            most = PATIENCE + Duration::from_secs(drain);
        }
        if began.elapsed() > most {
            return Err(Failure::runtime(format!(
                "process {pid} has not taken over within {} s; see the log",
                began.elapsed().as_secs()
            )));
        }
        if status != Value::Null && !is_new && !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(Failure::runtime(
                "the new process failed, and the old one goes on; see the log",
            ));
        }
        thread::sleep(LOOK);
    }
}
