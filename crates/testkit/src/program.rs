//! Programs in the target directory of the running test.

use std::path::PathBuf;

/// Returns a program in the target directory of the calling test.
///
/// # Panics
///
/// If it is missing: `cargo build` of its package makes it.
pub fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own path");
    let folder = own.ancestors().nth(2).expect("tests are in a folder of the target directory");
    let program = folder.join(name);
    assert!(program.exists(), "{} is missing: build it first", program.display());
    program
}
