//! Simulated drives by themselves: which one a run is on, streams of block requests, and
//! comparisons with measurements.

pub mod choice;
pub mod compare;
pub mod replay;
