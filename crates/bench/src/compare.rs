//! Systems beside each other: the same load, memory, disk and core for each, in turn.

mod bed;
mod comparison;
mod report;
mod scenario;

pub use comparison::{Plan, compare};
pub use report::{Comparison, Row, comparison_page, comparison_text};
pub use scenario::{Scenario, scenarios};
