//! The server: starts, serves, upgrades and stops. Threads, their connections, and the caches that
//! open while requests already come.

pub(crate) mod cache_opening;
pub(crate) mod handover;
pub(crate) mod health_checks;
pub(crate) mod reclaimer;
pub(crate) mod run;
pub(crate) mod worker;
