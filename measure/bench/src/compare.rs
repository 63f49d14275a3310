//! Compares systems in turn, with the same load, memory, disk and core for each.

mod comparison;
mod report;
mod scenario;
mod under_load;

pub use comparison::{Plan, compare};
pub use report::{Comparison, Round, Rounds, Row, comparison_page, comparison_text};
pub use scenario::{Scenario, scenarios};
pub use under_load::{SystemLoad, UnderLoad};
