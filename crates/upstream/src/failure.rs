//! The reasons why there is no answer, in words and in a log.

pub(crate) mod cause;
pub mod error;
pub mod failure_log;
