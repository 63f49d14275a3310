//! Decisions about what is stored: using it, refreshing it, combining parts of it.

pub mod merge;
pub mod partial;
pub mod portion;
pub mod reuse;
