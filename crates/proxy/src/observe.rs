//! Observability: outcomes, metrics, the access log, `Cache-Status`, systemd.

pub mod access_log;
pub mod access_logs;
pub mod cache_status;
pub mod event;
pub mod front_kind;
pub mod log_fields;
pub mod log_slot;
pub mod metrics;
pub mod observer;
pub mod outcome;
pub(crate) mod recorder;
pub mod site_slots;
pub mod span_sink;
pub mod systemd;
pub mod tls_facts;
