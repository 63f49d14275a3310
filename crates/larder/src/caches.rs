//! The caches of a configuration: opened, created and grown, described, counted.

pub mod cache_metrics;
pub mod executor;
pub mod open_caches;
pub mod progress;
pub mod store_options;
