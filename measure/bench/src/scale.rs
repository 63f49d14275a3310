//! Measures how Larder scales: with many objects, many connections, more workers, background work,
//! and over hours. Each part runs its own Larder, on a file.

mod background;
mod connections;
mod endurance;
mod node;
mod part;
mod part_report;
mod plan;
mod restart;
mod stores;
mod workers;

pub use node::{Node, NodeOptions};
pub use part::{PARTS, Part};
pub use part_report::{PartReport, Watcher};
pub use plan::{Plan, closed, fill};
