//! A run: an origin, a client and a workload, phase by phase.

pub mod cores;
mod criterion;
mod pages;
mod phase;
mod search;
mod session;
mod subject;
mod window;

pub use criterion::Criterion;
pub use phase::{End, Pace, PhasePlan};
pub use search::Search;
pub use session::{Live, Session, SessionOptions};
pub use subject::Subject;
