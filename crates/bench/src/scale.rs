//! How Larder holds up: with many objects, with many connections, with more workers, with work in
//! the background, over hours. Each is a part of its own with a Larder of its own, on a file.

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

pub use part::{PARTS, Part};
pub use part_report::{PartReport, Watcher};
pub use plan::Plan;
