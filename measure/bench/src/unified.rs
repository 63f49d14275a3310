//! The evaluation of UNIFIED (Chang and Lai, "Improve Web Proxy Performance by Alleviating Disk I/O
//! Overhead", section 5), repeated with current programs: Larder, with the paper's layout and with
//! its own, beside Squid, under a load like PolyMix-3 on a disk that does few operations per
//! second.

mod evaluation;
mod paper;
mod report;

pub use evaluation::{Plan, Trial, evaluate};
pub use paper::Test;
pub use report::{
    Evaluation, SystemFigures, evaluation_markdown, evaluation_page, evaluation_text,
};
