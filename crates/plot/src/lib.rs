//! Plots: what they show as data, and their drawing as SVG that needs no font, no script and no
//! network.
//!
//! The lab's report and the load generator's share it.

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
