//! The systems that are compared: what each is given, how it is set up, started and stopped.
//!
//! Their configurations are files beside this one, with a reason for each setting. None of the
//! machine's own configurations, services or caches is used: each runs in the foreground, in a
//! directory of its own, on addresses of its own.

mod bed;
mod running;
mod setup;
mod template;

pub use bed::{Bed, Grant};
pub use running::Running;
pub use setup::{Setup, System, Want, installed};
