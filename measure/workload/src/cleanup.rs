//! Paths that exist only while work goes on and must be removed when a signal ends it: a directory
//! that a space manager fills, an incomplete trace.
//!
//! The creator of such a path holds a [`TemporaryPath`] for it; the signal handler calls
//! [`remove_all`] before the process ends. Nothing else is ever removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Number of attempts to remove a directory that may still be receiving files.
const ATTEMPTS: usize = 10;

/// A path that [`remove_all`] removes, as long as this value lives.
#[derive(Debug)]
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Registers `path`: a file, or a directory with all its contents.
    pub fn new(path: &Path) -> TemporaryPath {
        // The working directory may change before the removal.
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

/// Removes all registered paths on a best-effort basis; the process is about to end.
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
