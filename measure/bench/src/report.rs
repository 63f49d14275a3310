//! Reports: progress during the run, a table at the end, JSON, and a page with plots.

mod html;
mod number;
mod progress;
mod run_report;
mod table;

pub use html::{document, figure, page};
pub use number::{bytes, count, rate, share, time};
pub use progress::{Moment, Progress};
pub use run_report::RunReport;
pub use table::{Table, run_text};
