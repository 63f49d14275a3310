//! What charts are drawn on.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::prelude::SVGBackend;

/// Where it is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Whether it could be.
pub type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A place on the drawing.
pub type Position = (i32, i32);
