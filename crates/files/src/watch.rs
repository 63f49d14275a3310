//! Which of the files that were looked up may have changed since.

pub mod verified;
pub mod watcher;

mod directories;
mod mounts;
