//! The full read loads: how the engine reads on simulated drives.

use crate::workspace;

/// Runs the tests of `store-oracle/tests/reading.rs` with optimisation and full loads; their
/// figures are those of docs/decisions/0005.
///
/// # Errors
///
/// When the engine reads differently than expected; the output says where.
pub fn run() -> Result<(), String> {
    let mut command =
        workspace::cargo(&["test", "--release", "--package", "store-oracle", "--test", "reading"]);
    command.args(["--", "--nocapture"]).env("LAB_READING_FULL", "1");
    workspace::succeed(command)
}
