//! Mounts that no other process sees.
//!
//! A process that makes mounts of its own from ours, such as a container that starts meanwhile,
//! would keep a file system when we unmount it: its files would stay in the kernel's memory, and
//! its device would stay behind.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Says to the program that is started again that its mounts are its own.
const MARK: &str = "LARDER_BENCH_OWN_MOUNTS";

/// Starts this program again with mounts of its own, unless it was.
///
/// # Errors
///
/// When that is not possible.
pub fn make_private() -> Result<(), String> {
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]);
    command.arg(program).args(std::env::args_os().skip(1)).env(MARK, "1");
    Err(format!("cannot start {command:?}: {}", command.exec()))
}
