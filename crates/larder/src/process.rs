//! The process: its limits and user, its log, signals and sockets, and its replacement by a new
//! process.

pub mod accounts;
pub mod fleet;
pub mod limits;
pub mod listen_sockets;
pub mod logging;
pub mod machine;
pub mod open_listeners;
pub mod pid_file;
pub mod shutdown;
pub mod signals;
pub mod spans;
pub mod upgrade;
pub mod upgrade_protocol;
