//! Workloads: sequences of requests.

mod connections;
mod options;
mod polymix;
mod repeats;
mod replay;
mod site;
mod sizes;
mod source;
mod synthetic;

pub use connections::RequestsPerConnection;
pub use options::{LoadOptions, PhaseKind, Workload};
pub use repeats::Repeats;
pub use site::site_files;
pub use sizes::Sizes;
pub use source::Source;
