//! Detects which files may have changed since they were looked up.

pub mod verified;
pub mod watcher;

mod directories;
mod mounts;
