//! Analysis of access logs: miss ratios for all sizes and policies, replays on the engine, advice.

pub mod access_log;
pub mod advice;
pub mod curve;
pub mod log_replay;
pub mod missratio;
