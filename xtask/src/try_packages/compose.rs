//! Validates the compose file, where docker-compose is installed. No daemon is needed.

use std::process::Command;

use crate::workspace;
use crate::workspace::{is_installed, output};

/// Validates the compose file. Returns why it was skipped, if so.
///
/// # Errors
///
/// The mistake in the file, as docker-compose names it.
pub fn check() -> Result<Option<&'static str>, String> {
    if !is_installed("docker-compose") {
        return Ok(Some("SKIPPED: compose file: docker-compose is not installed"));
    }
    let mut command = Command::new("docker-compose");
    command.arg("--file").arg(workspace::root().join("packaging/compose.yaml"));
    command.args(["config", "--quiet"]);
    output(command)?;
    println!("compose file: valid");
    Ok(None)
}
