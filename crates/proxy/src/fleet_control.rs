//! What nodes of a fleet tell each other besides documents: who they are, what was purged, how
//! documents are treated.
//!
//! Each is a POST on a connection between nodes, with a body in JSON. Nobody who waits for a
//! document waits here.

pub(crate) mod answers;
mod audience;
pub(crate) mod classes;
mod departure;
pub(crate) mod following;
pub(crate) mod forgetting;
pub(crate) mod message;
pub(crate) mod offers;
pub(crate) mod own_log;
pub(crate) mod post;
pub(crate) mod saved_positions;
pub mod spreading;
pub mod upkeep;
