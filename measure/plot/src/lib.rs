//! Plots: their data, and their drawing as SVG that needs no font, no script and no network.
//!
//! The reports of the lab and of the load generator share this crate.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod canvas;
mod chart;
mod legend;
mod marks;
pub mod number;
pub mod palette;
pub mod picture;
mod plot;
mod text_width;
mod ticks;

pub use chart::{NotDrawn, draw};
pub use plot::{Axis, AxisScale, Kind, Plot, Series, Source};
