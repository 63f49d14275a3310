//! This node's part in a fleet: what it knows of the other nodes, and the questions that it asks
//! them. The decisions are in the crate `fleet`; what other nodes ask is answered in
//! [`crate::exchange`].

pub(crate) mod asking;
mod breakers;
pub(crate) mod copy_notices;
mod demand;
pub(crate) mod greeted;
pub(crate) mod last_purges;
pub mod node;
pub(crate) mod offering;
pub(crate) mod origin;
pub(crate) mod purge_state;
pub mod purge_stream;
pub(crate) mod question;
mod roster;
pub(crate) mod status;
pub(crate) mod tally;
