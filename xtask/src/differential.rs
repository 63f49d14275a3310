//! Compares an older program with the current one: `cargo xtask differential`.
//!
//! The older one is built from a commit, in a git worktree of its own, or given. The cases and the
//! comparison are in `crates/larder/tests/differential`.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::workspace;

/// The programs and cases that are compared.
#[derive(Args)]
pub struct Options {
    /// The commit that the older program is built from.
    #[arg(long, default_value = "HEAD", conflicts_with = "old")]
    against: String,
    /// The older program; nothing is built for it.
    #[arg(long)]
    old: Option<PathBuf>,
    /// The newer program, in place of the one of this tree.
    #[arg(long)]
    new: Option<PathBuf>,
    /// Plays the course of this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Goes on with further seeds for so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Only the configurations whose names contain this; `scripts` are the HTTP scripts.
    #[arg(long)]
    only: Option<String>,
}

/// Builds the programs and compares them.
///
/// # Errors
///
/// When a program cannot be built, or they differ in a way that is not intended.
pub fn run(options: &Options) -> Result<(), String> {
    let absolute =
        |path: &PathBuf| std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()));
    let old = match &options.old {
        Some(old) => absolute(old)?,
        None => built(&options.against)?,
    };
    let mut command = workspace::cargo(&["test", "--workspace", "--test", "differential"]);
    command.args(["--", "--nocapture", "both_programs_do_the_same"]);
    command.env("LARDER_OLD", old);
    if let Some(new) = &options.new {
        command.env("LARDER_NEW", absolute(new)?);
    }
    let numbers = [("LARDER_SEED", options.seed), ("LARDER_SECONDS", options.seconds)];
    for (name, value) in numbers {
        if let Some(value) = value {
            command.env(name, value.to_string());
        }
    }
    if let Some(only) = &options.only {
        command.env("LARDER_ONLY", only);
    }
    workspace::succeed(command)
}

/// Builds the program of a commit, in a worktree that is kept for the next run.
fn built(commit: &str) -> Result<PathBuf, String> {
    let root = workspace::root();
    let tree = root.join("target/differential");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&root).args(words);
        command
    };
    let shown = tree.display().to_string();
    // Git still lists a worktree that was removed by hand.
    workspace::succeed(git(&["worktree", "prune"]))?;
    let commit = format!("{commit}^{{commit}}");
    if tree.join(".git").exists() {
        let number = git(&["rev-parse", "--verify", &commit]).output();
        let number = number.map_err(|e| format!("git: {e}"))?;
        let number = String::from_utf8_lossy(&number.stdout).trim().to_owned();
        let mut command = Command::new("git");
        command.args(["-C", &shown, "checkout", "--quiet", "--force", "--detach", &number]);
        workspace::succeed(command)?;
    } else {
        workspace::succeed(git(&["worktree", "add", "--detach", &shown, &commit]))?;
    }
    let mut command = workspace::cargo(&["build", "--workspace", "--bin", "larder"]);
    command.current_dir(&tree).env_remove("CARGO_TARGET_DIR");
    workspace::succeed(command)?;
    Ok(tree.join("target/debug/larder"))
}
