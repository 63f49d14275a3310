//! `larder lab`: runs `larder-lab`, the lab's own program.
//!
//! A server has no use for simulated disks and plots, so the lab is not part of it. The program is
//! looked for beside this one and then in `PATH`, and takes this process's place: its output, its
//! exit code and the signals it gets are its own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::Failure;

/// The name of the lab's program.
const PROGRAM: &str = "larder-lab";

/// The arguments: whatever follows is the lab's to read, `--help` included.
pub fn command() -> Command {
    Command::new("lab")
        .about("Simulated disks, workloads and the experiments of the papers")
        .after_help(
            "Runs larder-lab, which stands beside this program or in PATH: docs/research/lab.md.",
        )
        .disable_help_flag(true)
        .arg(
            Arg::new("arguments")
                .value_name("ARGS")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString))
                .help("Arguments of larder-lab; --help lists its commands."),
        )
}

/// Becomes the lab's program.
///
/// # Errors
/// There is none, or it cannot be run: otherwise this does not return.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let arguments = matches.get_many::<OsString>("arguments").into_iter().flatten();
    // Without a directory in it, a name is looked up in PATH.
    let program = beside_this_one().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = process::Command::new(&program).args(arguments).exec();
    Err(Failure::runtime(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "lab: {PROGRAM} is neither beside this program nor in PATH; in the sources of Larder \
             `cargo build --release -p lab` makes target/release/{PROGRAM}"
        ),
        _ => format!("lab: cannot run {}: {error}", program.display()),
    }))
}

/// The lab's program in the directory of this one, where it is there.
fn beside_this_one() -> Option<PathBuf> {
    let program = env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
