//! What this machine has for measuring systems beside each other: cores, the systems, a place for
//! devices.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use testbed::mounts;

use super::arguments::{get, option};
use super::run::measured_timer;
use crate::measure::TimerAccuracy;
use crate::run::cores;
use crate::systems::{System, installed};

/// See the module.
pub struct Machine {
    /// The core of the systems.
    pub core: usize,
    /// How many cores the generator has.
    pub generator_cores: usize,
    /// How exactly it is woken.
    pub timer: TimerAccuracy,
    /// Where the devices' files are made.
    pub base: PathBuf,
    /// The systems that are here, Larder first.
    pub systems: Vec<System>,
    /// What is to be known beside the figures.
    pub notes: Vec<String>,
}

/// Adds the arguments that say what is to be used, and the report.
pub fn arguments(command: Command) -> Command {
    command
        .arg(
            option("dir", "DIR", "Where the caches' files are made: on a disk, not in memory.")
                .default_value(".")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("larder", "PROGRAM", "Larder's program; beside this one if not given.")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("seed", "NUMBER", "All chance follows from it.")
                .value_parser(value_parser!(u64)),
        )
        .arg(option("json", "FILE", "Writes all figures.").value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .action(ArgAction::SetTrue)
                .help("Says nothing meanwhile."),
        )
}

/// Adds the argument of a page with plots.
pub fn page_argument(command: Command) -> Command {
    command.arg(option("html", "FILE", "Writes a page.").value_parser(value_parser!(PathBuf)))
}

/// Returns Larder's program: the one that is named, or the one beside this.
pub fn larder(matches: &ArgMatches) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("larder"));
    get(matches, "larder").or(beside).unwrap_or_default()
}

/// Returns where files are made.
///
/// # Errors
/// It is not there.
pub fn base(matches: &ArgMatches) -> Result<PathBuf, String> {
    let base: PathBuf = get(matches, "dir").unwrap_or_else(|| ".".into());
    base.canonicalize().map_err(|error| format!("{}: {error}", base.display()))
}

/// Makes sure of the rights, and that what will be mounted is nobody else's. The program starts
/// again in it: before anything else is done.
///
/// # Errors
/// The rights are missing.
pub fn enter() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it makes loop devices and control groups: it wants root".to_owned());
    }
    mounts::make_private()
}

impl Machine {
    /// Looks for all of it; keeps this thread to its cores.
    ///
    /// # Errors
    /// There is no core, or not the directory.
    pub fn of(matches: &ArgMatches) -> Result<Machine, String> {
        let all = cores::allowed();
        let (core, others) = all.split_last().ok_or("no cores")?;
        let mut notes = Vec::new();
        match others {
            [] => notes.push("note: there is one core: the generator shares it".to_owned()),
            others => cores::keep_to(others)?,
        }
        cores::raise_open_files();
        let larder = larder(matches);
        let (systems, absent) = installed(&larder);
        notes.extend(absent.iter().map(|name| match *name {
            "Larder" => format!("SKIPPED: Larder: no program at {}", larder.display()),
            name => format!("SKIPPED: {name} is not installed"),
        }));
        let base = base(matches)?;
        let timer = measured_timer()?;
        Ok(Machine {
            core: *core,
            generator_cores: others.len().max(1),
            timer,
            base,
            systems,
            notes,
        })
    }
}
