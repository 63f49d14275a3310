//! Servers of a site: balancing, health, and the queue for them.

pub mod balance;
pub mod group;
pub mod health;
pub mod health_check;
pub(crate) mod queue;
pub mod status;
