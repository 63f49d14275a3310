//! The report: what has been run, as one page to look at, with plots and every number.

mod number;

pub use number::{stated, with_unit};
