//! Parts that the command lines of Larder's programs share: quantities, and the end of a command.

pub mod outcome;
pub mod units;
