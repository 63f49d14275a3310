//! The process: its limits and user, its messages, signals and sockets, and how another one takes
//! over.

pub mod limits;
pub mod listen_sockets;
pub mod logging;
pub mod machine;
pub mod signals;
pub mod upgrade;
pub mod upgrade_protocol;
