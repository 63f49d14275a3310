//! Messages between fleet nodes other than requests for documents: membership, purges, and the
//! table of document classes.
//!
//! Each is a POST on a connection between nodes, with a body in JSON. No client request waits for
//! one.

pub(crate) mod answers;
mod applying;
pub(crate) mod classes;
pub(crate) mod copies;
mod departure;
pub(crate) mod forgetting;
pub(crate) mod invalidating;
mod meeting;
pub(crate) mod message;
mod numbered_purge;
pub(crate) mod offers;
mod own_log;
pub(crate) mod post;
pub(crate) mod purging;
pub(crate) mod pushing;
mod saved_purges;
pub(crate) mod stream;
pub mod upkeep;
