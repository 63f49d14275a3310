//! The lab: the product's engine, and models of everyone else's systems, driven in virtual time.
//!
//! It exists so that a reader of the papers sees their figures again, that an operator tries his
//! own log before he chooses, and that the engine meets every fault before a user does.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// What is asked for.
pub mod access_log;
pub mod contents;
pub mod generator;
pub mod request;
pub mod trace;
pub mod two_level;
pub mod workload;

// Ways of keeping objects on a disk.
pub mod baselines;
pub mod engine_space;
pub mod file_caches;
pub mod file_system;
pub mod modelled_files;
pub mod real_directory;
pub mod real_engine;
pub mod space_manager;

// Runs.
pub mod advice;
pub mod cache_run;
pub mod curve;
pub mod disk_compare;
pub mod disk_replay;
pub mod drive_choice;
pub mod experiment;
pub mod experiments;
pub mod file_costs;
pub mod layouts;
pub mod leftovers;
pub mod log_replay;
pub mod missratio;
pub mod replay;
pub mod report;
pub mod simulation;
pub mod space_run;
pub mod trial;
pub mod validation;
