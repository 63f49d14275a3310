//! The root of the server's workspace, the folder of the measuring one, and calls of cargo in them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

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

/// Runs `command` and returns its standard output.
///
/// # Errors
///
/// When it cannot be started or exits without success; the text has its standard error.
pub fn output(mut command: Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| format!("cannot start {shown}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shown} failed ({}): {}", output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{shown} printed text that is not UTF-8"))
}

/// Names the path of an error.
pub fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Returns whether a program of this name is in `PATH`.
pub fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(program).is_file()))
}
