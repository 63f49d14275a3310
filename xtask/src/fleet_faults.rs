//! A destructive run of a fleet: faults of the network, of processes and of disks while clients
//! check every response.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::workspace;

/// The faults to try.
#[derive(Args)]
pub struct Options {
    /// The larder to try; built with the profile of the tests when absent.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Prints the errors that the nodes logged, and what each knew at the end of a fault.
    #[arg(long)]
    pub log: bool,
    /// Seconds that a fault lasts at least.
    #[arg(long, default_value_t = 15)]
    pub seconds: u64,
    /// Only faults whose names contain one of these.
    pub only: Vec<String>,
}

/// Builds the run and starts it; returns its exit code, which is 77 where the machine permits no
/// network namespaces.
///
/// # Errors
///
/// When it cannot be built or started.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let mut command =
        workspace::cargo(&["test", "--quiet", "--package", "larder", "--test", "fleet_faults"]);
    command.arg("--").args(&options.only);
    if let Some(path) = &options.binary {
        let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        command.env("LARDER_PROGRAM", path);
    }
    command.env("LARDER_FLEET_FAULTS_SECONDS", options.seconds.to_string());
    if options.log {
        command.env("LARDER_FLEET_FAULTS_LOG", "1");
    }
    let status = command.status().map_err(|e| format!("cannot start cargo: {e}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
