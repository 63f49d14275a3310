//! Runs every experiment at the quick scale and compares its numbers with the golden ones.
//!
//! `tests/golden/NAME.csv` holds every number of an experiment's tables, with six digits. `cargo
//! xtask goldens` builds and calls this; see its help.

#![allow(clippy::print_stdout)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use lab::experiment::{Experiment, Meter, Record, Scale};
use lab::experiments;

fn main() -> ExitCode {
    let (options, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    match run(options.iter().any(|option| option == "--bless"), &names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("goldens: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the experiments called `names`, or all if there are none.
fn run(bless: bool, names: &[String]) -> Result<(), String> {
    let all = || experiments::all().collect::<Vec<_>>();
    let chosen: Result<Vec<&Experiment>, String> = names
        .iter()
        .map(|name| experiments::named(name).ok_or_else(|| format!("no experiment {name}")))
        .collect();
    let chosen = if names.is_empty() { all() } else { chosen? };
    let mut wrong = 0;
    for experiment in &chosen {
        match check(experiment, bless) {
            Ok(()) => println!("{}: unchanged", experiment.name),
            Err(why) => {
                wrong += 1;
                println!("{}: {why}", experiment.name);
            }
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} of {} differ from tests/golden", chosen.len())),
    }
}

/// Runs one experiment and compares its numbers with the golden file, or rewrites that file.
fn check(experiment: &'static Experiment, bless: bool) -> Result<(), String> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let record = Record::of(experiment, Scale::Quick, jobs, &Meter::default())
        .map_err(|why| why.to_string())?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (ours, path) = (record.golden(), folder.join(format!("{}.csv", experiment.name)));
    let golden = fs::read_to_string(&path).unwrap_or_default();
    if ours == golden {
        return Ok(());
    }
    if bless {
        fs::write(&path, &ours).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let verdict = if bless { "blessed" } else { "changed" };
    let what = format!("{verdict} (seed {}):\n{}", record.seed, difference(&golden, &ours));
    if bless {
        println!("{}: {what}", experiment.name);
        return Ok(());
    }
    Err(what)
}

/// Returns the lines that only one of the two texts has.
fn difference(golden: &str, ours: &str) -> String {
    let lacks = |text: &str, line: &str| !text.lines().any(|known| known == line);
    let gone = golden.lines().filter(|line| lacks(ours, line)).map(|line| format!("  - {line}"));
    let new = ours.lines().filter(|line| lacks(golden, line)).map(|line| format!("  + {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}
