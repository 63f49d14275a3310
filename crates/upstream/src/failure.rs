//! Reasons why there is no response, as values, as text, and in a log.

pub(crate) mod cause;
pub mod error;
pub mod failure_log;
