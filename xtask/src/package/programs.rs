//! The programs to pack.
//!
//! They are linked statically with glibc. The target with musl would make smaller programs, but
//! jemalloc has no background thread there, so memory that clients left behind would stay
//! (docs/decisions/0013-allocator.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace;
use crate::workspace::at;

/// The target is named so that its flags do not apply to build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The paths of the programs.
pub struct Programs {
    pub larder: PathBuf,
    pub lab: PathBuf,
}

/// Returns a program, and larder-lab beside it.
///
/// # Errors
///
/// When one of them does not exist.
pub fn beside(larder: &Path) -> Result<Programs, String> {
    let larder = larder.canonicalize().map_err(|error| at(larder, &error))?;
    let lab = larder.with_file_name("larder-lab");
    let lab = lab.canonicalize().map_err(|error| at(&lab, &error))?;
    Ok(Programs { larder, lab })
}

/// Builds the programs, statically, without paths of this machine and without symbols, which would
/// take most of the space.
///
/// # Errors
///
/// When cargo fails.
pub fn build() -> Result<Programs, String> {
    Ok(Programs {
        larder: program(&workspace::root(), "larder", "larder")?,
        lab: program(&workspace::measure(), "lab", "larder-lab")?,
    })
}

fn program(folder: &Path, package: &str, name: &str) -> Result<PathBuf, String> {
    let words = ["build", "--release", "--locked", "--target", TARGET, "--package", package];
    let mut cargo = workspace::cargo_in(folder, &words);
    // Both workspaces build there (`measure/.cargo/config.toml`).
    let target = workspace::root().join("target");
    let rust = format!("-C target-feature=+crt-static{}", renamed("--remap-path-prefix="));
    let c = format!("-g0{}", renamed("-ffile-prefix-map="));
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", rust).env("CFLAGS", c);
    workspace::succeed(cargo)?;
    let built = target.join(TARGET).join("release").join(name);
    let stripped = target.join("package").join(name);
    fs::create_dir_all(stripped.with_file_name("")).map_err(|error| at(&stripped, &error))?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(&built);
    workspace::succeed(strip)?;
    Ok(stripped)
}

/// Returns the flags that replace the paths of this machine in a program.
fn renamed(flag: &str) -> String {
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home);
    let folders = [(Some(workspace::root()), "/larder"), (cargo, "/cargo")];
    let flags = folders.iter().filter_map(|(folder, name)| {
        folder.as_ref().map(|folder| format!(" {flag}{}={name}", folder.display()))
    });
    flags.collect()
}
