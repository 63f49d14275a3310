//! The resources of this machine for comparing systems: cores, the installed systems, a directory
//! for devices.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use testkit::mounts;

use super::arguments::{get, option};
use super::run::measured_timer;
use crate::measure::TimerAccuracy;
use crate::run::cores;
use crate::systems::{Found, System};

/// The resources of this machine.
pub struct Machine {
    /// The core for the systems.
    pub core: usize,
    /// Number of cores for the generator.
    pub generator_cores: usize,
    /// How accurately the generator is woken.
    pub timer: TimerAccuracy,
    /// The directory for the files of devices.
    pub base: PathBuf,
    /// The installed systems, Larder first.
    pub systems: Vec<System>,
    /// Notes that accompany the figures.
    pub notes: Vec<String>,
}

/// Adds the arguments that select the resources, and the report.
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

/// Adds the argument for a page with plots.
pub fn page_argument(command: Command) -> Command {
    command.arg(option("html", "FILE", "Writes a page.").value_parser(value_parser!(PathBuf)))
}

/// Returns Larder's program: the given one, or the one beside this program.
pub fn larder(matches: &ArgMatches) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("larder"));
    get(matches, "larder").or(beside).unwrap_or_default()
}

/// Returns the directory for files.
///
/// # Errors
/// Fails if it does not exist.
pub fn base(matches: &ArgMatches) -> Result<PathBuf, String> {
    let base: PathBuf = get(matches, "dir").unwrap_or_else(|| ".".into());
    base.canonicalize().map_err(|error| format!("{}: {error}", base.display()))
}

/// Checks the privileges, and ensures that mounts stay private. It restarts the program, so call it
/// before anything else.
///
/// # Errors
/// Fails if privileges are missing.
pub fn enter() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it makes loop devices and control groups: it wants root".to_owned());
    }
    mounts::make_private()
}

/// Returns the cores of the machine, the last of which is for the systems. Restricts this thread to
/// the others, if there are any, and raises the limit on open files.
///
/// # Errors
/// Fails if there is no core.
pub fn divide_cores() -> Result<Vec<usize>, String> {
    let all = cores::allowed();
    let (_, others) = all.split_last().ok_or("no cores")?;
    if !others.is_empty() {
        cores::keep_to(others)?;
    }
    cores::raise_open_files();
    Ok(all)
}

impl Machine {
    /// Determines all resources, of which `find` returns the systems. Restricts this thread to the
    /// generator's cores.
    ///
    /// # Errors
    /// Fails if there is no core, or the directory does not exist.
    pub fn of(matches: &ArgMatches, find: fn(&Path) -> Found) -> Result<Machine, String> {
        let all = divide_cores()?;
        let (core, others) = all.split_last().ok_or("no cores")?;
        let mut notes = Vec::new();
        if others.is_empty() {
            notes.push("note: there is one core: the generator shares it".to_owned());
        }
        let larder = larder(matches);
        let (systems, absent) = find(&larder);
        notes.extend(absent.iter().map(|name| match *name {
            name if name.starts_with("Larder") => {
                format!("SKIPPED: {name}: no program at {}", larder.display())
            }
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
