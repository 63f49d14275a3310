//! What is on a disk for as long as work goes on, and is to be gone when a signal ends it: a
//! directory that a space manager fills, a trace that is not complete.
//!
//! Whoever makes such a thing holds a [`TemporaryPath`] of it; whoever hears the signal calls
//! [`remove_all`] before the process ends. Nothing else is ever removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Attempts to remove a directory into which files still come.
const ATTEMPTS: usize = 10;

/// A path that is removed with [`remove_all`] until this is dropped.
#[derive(Debug)]
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Remembers `path`, a file or a directory with everything in it.
    pub fn new(path: &Path) -> TemporaryPath {
        // The working directory may change meanwhile.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        PATHS.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        TemporaryPath(path)
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = paths.iter().position(|path| *path == self.0) {
            paths.swap_remove(at);
        }
    }
}

/// Removes everything that is remembered, as far as it can be removed: the process ends.
pub fn remove_all() {
    let paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for path in paths {
        if path.is_dir() {
            let _ = (0..ATTEMPTS).any(|_| fs::remove_dir_all(&path).is_ok());
        } else {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_remembered_goes() {
        let directory = tempfile::tempdir().unwrap();
        let [kept, file, folder] =
            ["kept", "file", "folder"].map(|name| directory.path().join(name));
        fs::create_dir_all(folder.join("deep")).unwrap();
        for path in [&kept, &file, &folder.join("deep/file")] {
            fs::write(path, "x").unwrap();
        }
        drop(TemporaryPath::new(&kept));
        let _held = [TemporaryPath::new(&file), TemporaryPath::new(&folder)];
        remove_all();
        assert!(kept.exists() && !file.exists() && !folder.exists());
    }
}
