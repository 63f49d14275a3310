//! Mounts that no other process sees.
//!
//! A process that copies our mounts, such as a container that starts in the meantime, would keep a
//! file system alive after we unmount it: its files would stay in the kernel's memory, and its
//! device would be left behind.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Tells the restarted program that it already has private mounts.
const MARK: &str = "LARDER_BENCH_OWN_MOUNTS";

/// Restarts this program with private mounts, unless it already has them.
///
/// # Errors
///
/// Fails if the program cannot be restarted.
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
