//! The commands of `larder`, one file each.

pub mod admin_client;
mod asking;
pub mod check_config;
mod columns;
pub mod command_line;
pub mod completions;
pub mod convert;
pub mod demo;
pub mod explain;
pub mod first_steps;
pub mod fleet;
pub mod format;
pub mod inspect;
pub mod last_reload;
pub mod lists;
pub mod operate;
mod pid_of_proxy;
pub mod print_config;
pub mod program;
pub mod purge;
pub mod reload;
pub mod serve;
