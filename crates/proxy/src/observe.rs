//! What is seen from outside: outcomes, metrics, the access log, `Cache-Status`, systemd.

pub mod access_log;
pub mod cache_status;
pub mod metrics;
pub mod outcome;
pub(crate) mod recorder;
pub mod systemd;
