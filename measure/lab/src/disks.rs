//! Simulated drives on their own: the choice of a drive, streams of block requests, and comparisons
//! with measurements.

pub mod choice;
pub mod compare;
pub mod replay;
