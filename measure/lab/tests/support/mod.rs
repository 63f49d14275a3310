//! Shared by the lab's tests: a runtime, seeds, and directory listings.

#![allow(dead_code, clippy::print_stdout)]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::task::LocalSet;

/// Runs `job` on a runtime of the current thread.
pub fn block_on<T>(job: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, job)
}

/// Returns the seed of a random test, from `LAB_SEED` or new, and prints it.
pub fn seed() -> u64 {
    let given = std::env::var("LAB_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("LAB_SEED={seed}");
    seed
}

/// Returns everything below `root`, directories included, by relative path.
pub fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, root, &mut |path, _| found.push(path));
    found.sort();
    found
}

/// Returns the files below `root`, by relative path.
pub fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, root, &mut |path, is_file| found.extend(is_file.then_some(path)));
    found.sort();
    found
}

fn walk(root: &Path, at: &Path, found: &mut impl FnMut(String, bool)) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        found(relative, path.is_file());
        if path.is_dir() {
            walk(root, &path, found);
        }
    }
}

/// A file system of a few MiB in memory, unmounted on drop.
pub struct SmallFileSystem {
    directory: Option<tempfile::TempDir>,
}

impl SmallFileSystem {
    /// Mounts a file system of `bytes` bytes. Where that is not permitted, prints so and returns
    /// `None`.
    pub fn mount(test: &str, bytes: u64) -> Option<SmallFileSystem> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path());
        match mount.output() {
            Ok(output) if output.status.success() => {
                Some(SmallFileSystem { directory: Some(directory) })
            }
            _ => {
                eprintln!("SKIPPED {test}: a small file system may not be mounted here");
                None
            }
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.as_ref().unwrap().path().to_owned()
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            let _ = Command::new("umount").arg(directory.path()).status();
        }
    }
}
