//! Workloads: sequences of requests.

mod connections;
mod options;
mod polymix;
mod repeats;
mod replay;
mod sizes;
mod source;
mod synthetic;

pub use connections::RequestsPerConnection;
pub use options::{LoadOptions, Workload};
pub use repeats::Repeats;
pub use sizes::Sizes;
pub use source::{PhaseKind, Source};
