//! The caches of a configuration: opening, creating, growing, describing and counting them.

#[cfg(test)]
mod advised;
pub mod cache_metrics;
pub mod executor;
pub mod open_caches;
pub mod progress;
pub mod store_options;
pub mod watch;
