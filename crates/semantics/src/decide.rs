//! What may be done with what is stored: use it, refresh it, put parts together.

pub mod merge;
pub mod partial;
pub mod portion;
pub mod reuse;
