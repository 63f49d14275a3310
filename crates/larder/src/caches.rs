//! The caches of a configuration: opens, creates, grows, describes and counts them.

pub mod cache_metrics;
pub mod executor;
pub mod open_caches;
pub mod progress;
pub mod store_options;
pub mod watch;
