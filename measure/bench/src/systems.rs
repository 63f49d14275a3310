//! The compared systems: their resources, and how they are set up, started and stopped.
//!
//! Their configurations are files beside this one, with a reason for each setting. The machine's
//! own configurations, services and caches are not used: each system runs in the foreground, in its
//! own directory, on its own addresses.

pub mod admin;
mod bed;
mod nodes;
mod running;
mod settings;
mod setup;
mod template;
mod web_servers;

pub use bed::{Bed, Grant};
pub use nodes::{Addresses, Node};
pub use running::Running;
pub use setup::{Found, Role, Setup, System, Want, WebRoot, installed, sharing, web_servers};
