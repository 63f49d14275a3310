//! What Larder's programs have in common on the command line: how quantities are written, and how
//! a command answers and ends.

pub mod outcome;
pub mod units;
