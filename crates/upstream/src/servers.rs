//! Servers of a site: the choice among them, and their health.

pub mod balance;
pub mod group;
pub mod health;
pub mod health_check;
pub(crate) mod queue;
pub mod status;
