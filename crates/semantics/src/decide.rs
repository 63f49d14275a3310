//! Decisions about stored responses: reuse, refresh, and combination of parts.

pub mod merge;
pub mod partial;
pub mod portion;
pub mod reuse;
