//! The drawing surface of charts.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::prelude::SVGBackend;

/// A drawing area.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The result of drawing.
pub type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A position on the drawing, in pixels.
pub type Position = (i32, i32);
