//! Runs the steps of an engine, each in a process of its own, and damages its files in between.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::task::{Figures, Message, Plan, STEP_COMMAND, Step, Task};

/// Time under load between counting the objects and the kill.
const BEFORE_KILL: Duration = Duration::from_millis(300);

/// One byte in so many is damaged.
const DAMAGE_EVERY: u64 = 1 << 20;

/// Runs one round of one engine in a new directory below `base`, which is removed.
///
/// # Errors
/// A process could not be run, or the engine failed on an undamaged cache.
pub fn run(
    engine: &str,
    plan: &Plan,
    base: &Path,
    interrupted: &AtomicBool,
) -> Result<Figures, String> {
    let directory = tempfile::Builder::new().prefix("larder-engines-").tempdir_in(base);
    let directory = directory.map_err(|error| format!("{}: {error}", base.display()))?;
    let path = directory.path();
    let start = |step, probes| {
        if interrupted.load(Ordering::Relaxed) {
            return Err("interrupted".to_owned());
        }
        let (engine, plan) = (engine.to_owned(), plan.clone());
        Running::start(&Task { engine, step, directory: path.into(), plan, probes })
    };
    let mut figures = start(Step::Load, Vec::new())?.figures()?;

    let mut serving = start(Step::Serve, Vec::new())?;
    let Message::Serving { held, probes } = serving.next()? else {
        return Err(format!("{engine} does not serve"));
    };
    thread::sleep(BEFORE_KILL);
    if let Some(ended) = serving.child.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("{engine} ended under load: {ended}"));
    }
    drop(serving);

    let mut reading = start(Step::Read, probes)?;
    let Message::FirstHit = reading.next()? else {
        return Err(format!("{engine} found nothing"));
    };
    let first_hit_seconds = reading.started.elapsed().as_secs_f64();
    let read = reading.figures()?;
    let count = |figures: &Figures, name: &str| figures.get(name).copied().unwrap_or(0.0);
    let found = count(&read, "found");
    let wrong = count(&figures, "wrong") + count(&read, "wrong");
    let more = [
        ("first_hit_seconds", Some(first_hit_seconds)),
        ("kept_percent", Some(100.0 * found / held as f64)),
        ("wrong", Some(wrong)),
        ("memory_per_object_restarted", read.get("memory_per_object").copied()),
        ("disk_hit_rate", read.get("disk_hit_rate").copied()),
    ];
    figures.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));

    let damaged = damage(path, plan.seed).map_err(|error| format!("damage: {error}"))?;
    match start(Step::Read, Vec::new())?.figures() {
        Ok(read) => {
            let lost = (found - count(&read, "found")) / damaged as f64;
            figures.insert("lost_per_damaged_byte".to_owned(), lost);
            figures.insert("wrong_after_damage".to_owned(), count(&read, "wrong"));
        }
        Err(error) => cli::outcome::warn(&format!("engines: after the damage: {error}")),
    }
    Ok(figures)
}

/// The process of one step. It is killed when dropped.
struct Running {
    child: Child,
    messages: BufReader<ChildStdout>,
    started: Instant,
    name: String,
}

impl Running {
    fn start(task: &Task) -> Result<Running, String> {
        let name = format!("{}: {:?}", task.engine, task.step);
        if io::stderr().is_terminal() {
            // Progress only: a closed standard error is no failure.
            let _ = writeln!(io::stderr(), "{name}");
        }
        let failed = |error: io::Error| format!("{name}: {error}");
        let text = serde_json::to_string(task).map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg(STEP_COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().map_err(failed)?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name}: no pipes"));
        };
        let written = writeln!(stdin, "{text}").map_err(failed);
        let running = Running { child, messages: BufReader::new(stdout), started, name };
        written.map(|()| running)
    }

    /// Returns the next message.
    fn next(&mut self) -> Result<Message, String> {
        let mut line = String::new();
        match self.messages.read_line(&mut line) {
            Ok(0) => Err(format!("{}: the process ended early", self.name)),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the figures of the step and waits for the end of its process.
    fn figures(mut self) -> Result<Figures, String> {
        let message = self.next();
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        match message {
            Ok(Message::Done(figures)) if ended.success() => Ok(figures),
            other => Err(format!("{}: {ended}, {other:?}", self.name)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Changes bytes at random places of all files below `directory`; returns their number.
fn damage(directory: &Path, seed: u64) -> io::Result<u64> {
    let mut paths = Vec::new();
    find_files(directory, &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let file = File::options().read(true).write(true).open(path)?;
        files.push((file.metadata()?.len(), file));
    }
    let total: u64 = files.iter().map(|(len, _)| len).sum();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..total / DAMAGE_EVERY {
        let mut at = random.u64(0..total);
        for (len, file) in &files {
            if at < *len {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ random.u8(1..)], at)?;
                break;
            }
            at -= len;
        }
    }
    Ok(total / DAMAGE_EVERY)
}

fn find_files(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => find_files(&path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}
