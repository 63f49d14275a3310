//! The server: starts, serves, hands over and stops. Owns the worker threads and their connections,
//! and opens the caches while requests already arrive.

pub(crate) mod acceptor;
pub(crate) mod cache_opening;
pub(crate) mod handover;
pub(crate) mod health_checks;
pub(crate) mod reclaimer;
pub(crate) mod run;
pub(crate) mod wall_clock;
pub(crate) mod worker;
