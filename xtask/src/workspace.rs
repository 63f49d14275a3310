//! The root of the server's workspace, the folder of the measuring one, and calls of cargo in them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the workspace: the parent of this crate.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Returns the folders of both workspaces.
pub fn folders() -> [PathBuf; 2] {
    [root(), measure()]
}

/// Returns the folder of the workspace of the lab and the load generator.
pub fn measure() -> PathBuf {
    root().join("measure")
}

/// Returns a call of the cargo that runs this process, with `words` as its arguments, in the root
/// of the server's workspace.
pub fn cargo(words: &[&str]) -> Command {
    cargo_in(&root(), words)
}

/// Returns such a call in another folder.
pub fn cargo_in(folder: &Path, words: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words).current_dir(folder);
    // Variables that the outer cargo sets for this crate would make build scripts that read them
    // run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|begin| name.starts_with(begin)) {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs `command` to its end.
///
/// # Errors
///
/// When it cannot be started or exits without success; the text names it.
pub fn succeed(mut command: Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let status = command.status().map_err(|e| format!("cannot start {shown}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown} failed ({status})")) }
}
