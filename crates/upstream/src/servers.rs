//! The servers of a site: which of them gets a request, and how they are.

pub mod balance;
pub mod group;
pub mod health;
pub mod health_check;
pub(crate) mod queue;
pub mod status;
