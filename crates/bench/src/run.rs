//! A run: an origin, a client and a workload, phase by phase.

pub mod cores;
mod phase;
mod search;
mod session;
mod subject;
mod window;

pub use phase::{End, Pace, PhasePlan};
pub use search::Search;
pub use session::{Live, Session, SessionOptions};
pub use subject::Subject;
