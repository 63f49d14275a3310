//! Continuous integration as one command.
//!
//! Steps that are cheap to fail run first. The command that the README gives runs the tests. Their
//! result lines are added up, and tests skipped because of missing programs are listed again at the
//! end, so that a green run cannot hide them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::try_packages::{chart, compose};
use crate::{tidy, workspace};

/// Arguments of cargo for all tests, as in the README.
const TESTS: &[&str] = &["test", "--workspace"];

/// The steps to leave out.
#[derive(Args)]
pub struct Options {
    /// Seconds that the randomised tests go on beside their turn in the suite, where each draws a
    /// seed of its own; 0 leaves it out.
    #[arg(long, default_value_t = 0)]
    pub fuzz_seconds: u64,
}

/// Runs all steps.
///
/// # Errors
///
/// The name of the first step that fails.
pub fn run(options: &Options) -> Result<(), String> {
    let begin = Instant::now();
    step("format", || cargo(&["fmt", "--all", "--check"], None))?;
    step("source rules", tidy::run)?;
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], None)
    })?;
    step("clippy with all features", || {
        let words = ["clippy", "--workspace", "--features", "larder/otlp", "--", "-D", "warnings"];
        workspace::succeed(workspace::cargo_in(&workspace::root(), &words))
    })?;
    step("docs", || {
        let words = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        cargo(&words, Some(("RUSTDOCFLAGS", "-D warnings")))
    })?;
    if options.fuzz_seconds > 0 {
        step("fuzzing, short", || {
            crate::fuzz::run(&crate::fuzz::Options {
                seconds: options.fuzz_seconds,
                seed: None,
                packages: Vec::new(),
                only: String::new(),
            })
        })?;
    }
    let mut tally = Tally::default();
    step("chart", || {
        tally.skips.extend(chart::check()?.map(str::to_owned));
        Ok(())
    })?;
    step("compose file", || {
        tally.skips.extend(compose::check()?.map(str::to_owned));
        Ok(())
    })?;
    // Built first, so that the seconds of the steps below are those of the tests.
    step("building the tests", || cargo(&[TESTS, &["--no-run"]].concat(), None))?;
    // The tests of the measuring workspace run the program that those of the server leave.
    step("tests", || tests(&workspace::root(), &mut tally))?;
    step("tests of what measures", || tests(&workspace::measure(), &mut tally))?;
    for line in &tally.skips {
        println!("{line}");
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} passed, {} failed, {} skipped in {seconds:.0} s",
        tally.passed,
        tally.failed,
        tally.skips.len()
    );
    if tally.passed == 0 { Err("no test was run".into()) } else { Ok(()) }
}

/// Runs cargo in both workspaces.
fn cargo(words: &[&str], variable: Option<(&str, &str)>) -> Result<(), String> {
    for folder in workspace::folders() {
        let mut command = workspace::cargo_in(&folder, words);
        command.envs(variable);
        workspace::succeed(command)?;
    }
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    let begin = Instant::now();
    work().map_err(|why| format!("step \"{name}\": {why}"))?;
    println!("== {name}: ok ({:.0} s)", begin.elapsed().as_secs_f64());
    Ok(())
}

/// The total of all test results.
#[derive(Default, Debug, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    skips: Vec<String>,
}

impl Tally {
    /// Parses one line of the output of `cargo test`.
    fn take(&mut self, line: &str) {
        if let Some(at) = line.find("SKIPPED: ") {
            self.skips.push(line[at..].to_owned());
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        self.passed += number_before(counts, " passed");
        self.failed += number_before(counts, " failed");
    }

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
    }
}

/// Returns the number right before `word` in `text`; 0 if there is none.
fn number_before(text: &str, word: &str) -> u64 {
    let Some(at) = text.find(word) else { return 0 };
    let digits = text[..at].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

fn tests(folder: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut command: Command = workspace::cargo_in(folder, TESTS);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start cargo: {e}"))?;
    let out = child.stdout.take().ok_or("no standard output of cargo")?;
    let err = child.stderr.take().ok_or("no standard error of cargo")?;
    let errors = thread::spawn(move || read(err, |line| eprintln!("{line}")));
    tally.add(read(out, |line| println!("{line}")));
    tally.add(errors.join().map_err(|_| "the reader of standard error failed")?);
    let status = child.wait().map_err(|e| format!("waiting for cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("the tests failed ({status})")) }
}

fn read(from: impl std::io::Read, show: impl Fn(&str)) -> Tally {
    let mut tally = Tally::default();
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        show(&line);
        tally.take(&line);
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.take("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out");
        tally.take("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured");
        tally.take("test ipv6 ... SKIPPED: no IPv6 loopback address");
        assert_eq!((tally.passed, tally.failed), (14, 1));
        assert_eq!(tally.skips, ["SKIPPED: no IPv6 loopback address"]);
    }

    #[test]
    fn other_lines_change_nothing() {
        let mut tally = Tally::default();
        tally.take("running 3 tests");
        tally.take("test tests::passed ... ok");
        assert_eq!(tally, Tally::default());
    }
}
