//! Larder's repository, for measurements of its current source.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that only this repository has.
const MARK: &str = "docs/research/instructions.md";

/// The repository that contains the current directory.
pub struct Repository(PathBuf);

impl Repository {
    /// Finds the repository.
    ///
    /// # Errors
    /// Fails if the current directory is not in it.
    pub fn find() -> Result<Repository, String> {
        let here = std::env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
        let root = here.ancestors().find(|folder| folder.join(MARK).exists());
        let root = root.ok_or("this measures Larder's source: run it in the repository")?;
        Ok(Repository(root.to_path_buf()))
    }

    /// Returns a path in it.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Builds Larder with optimisation, unless the existing build is to be taken `as_built`.
    /// Returns the program.
    ///
    /// # Errors
    /// Fails if it cannot be built, or there is none.
    pub fn larder(&self, as_built: bool) -> Result<PathBuf, String> {
        if !as_built {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args(["build", "--release", "--package", "larder"]).current_dir(&self.0);
            let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
            if !status.success() {
                return Err(format!("{command:?} failed ({status})"));
            }
        }
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| self.join("target"), PathBuf::from);
        let program = target.join("release/larder");
        match program.exists() {
            true => Ok(program),
            false => Err(format!("there is no {}: leave out --as-built", program.display())),
        }
    }
}

#[test]
fn the_repository_is_found_from_its_folders() {
    assert!(Repository::find().unwrap().join("Cargo.toml").exists());
}
