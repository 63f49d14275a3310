//! Plots as data: axes as in the paper, and the paper's points beside ours. [`super::chart`] draws
//! them.

use serde::{Deserialize, Serialize};

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisScale {
    /// Linear.
    Linear,
    /// Logarithmic with base 10. Points at 0 or below are left out.
    Log,
}

impl AxisScale {
    /// Returns whether the scale is linear.
    pub fn is_linear(self) -> bool {
        self == AxisScale::Linear
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The label, with its unit.
    pub label: String,
    /// The scale.
    pub scale: AxisScale,
    /// The lowest and the highest value; `None` derives them from the points.
    pub range: Option<[f64; 2]>,
}

impl Axis {
    /// Creates a linear axis, wide enough for all points.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: AxisScale::Linear, range: None }
    }

    /// Creates a logarithmic axis, wide enough for all points.
    pub fn log(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: AxisScale::Log, range: None }
    }

    /// Sets the range from `low` to `high`.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Axis {
        self.range = Some([low, high]);
        self
    }
}

/// The kind of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points, joined in the order of x.
    Lines,
    /// Groups of bars with these names: x is the index of the group, from 0.
    Bars(Vec<String>),
    /// Adjacent bars without gaps: x is the index of the bin. The bins have these names.
    Histogram(Vec<String>),
}

/// The origin of a series' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The paper.
    Paper,
    /// Our measurement.
    Ours,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The system. The paper's series and ours with the same label share a colour.
    pub label: String,
    /// The origin of the numbers.
    pub source: Source,
    /// Pairs of x and y. Points that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The name in file names and CSV: short, lower case, hyphens.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The kind of the plot.
    pub kind: Kind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
    /// A note below the plot, such as that the trace was sampled. May be empty.
    pub note: String,
}

impl Plot {
    /// Creates a plot of lines with points.
    pub fn lines(id: &str, title: &str, x: Axis, y: Axis) -> Plot {
        Plot::new(id, title, Kind::Lines, x, y)
    }

    /// Creates a plot of bars in groups; `groups` are the labels below them.
    pub fn bars<S: Into<String>>(
        id: &str,
        title: &str,
        groups: impl IntoIterator<Item = S>,
        y: Axis,
    ) -> Plot {
        let groups = groups.into_iter().map(Into::into).collect();
        Plot::new(id, title, Kind::Bars(groups), Axis::linear(""), y)
    }

    /// Creates a histogram of shares or counts; `bins` are the labels of the bins.
    pub fn histogram<S: Into<String>>(
        id: &str,
        title: &str,
        bins: impl IntoIterator<Item = S>,
        x: &str,
        y: Axis,
    ) -> Plot {
        let bins = bins.into_iter().map(Into::into).collect();
        Plot::new(id, title, Kind::Histogram(bins), Axis::linear(x), y)
    }

    fn new(id: &str, title: &str, kind: Kind, x: Axis, y: Axis) -> Plot {
        let (id, title) = (id.to_owned(), title.to_owned());
        Plot { id, title, kind, x, y, series: Vec::new(), note: String::new() }
    }

    /// Adds a series of the paper, as points.
    #[must_use]
    pub fn paper(self, label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Plot {
        self.series(label, Source::Paper, points)
    }

    /// Adds a series of ours, as points.
    #[must_use]
    pub fn ours(self, label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Plot {
        self.series(label, Source::Ours, points)
    }

    /// Adds a series of the paper, with one number for each group or bin in turn; NaN where there
    /// is none.
    #[must_use]
    pub fn paper_bars(self, label: &str, heights: impl IntoIterator<Item = f64>) -> Plot {
        self.series(label, Source::Paper, numbered(heights))
    }

    /// Adds a series of ours, with one number for each group or bin in turn; NaN where there is
    /// none.
    #[must_use]
    pub fn ours_bars(self, label: &str, heights: impl IntoIterator<Item = f64>) -> Plot {
        self.series(label, Source::Ours, numbered(heights))
    }

    /// Sets the note below the plot.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Plot {
        self.note = text.into();
        self
    }

    fn series(
        mut self,
        label: &str,
        source: Source,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Plot {
        // JSON cannot represent numbers that are not finite.
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let points = points.into_iter().filter(finite).collect();
        self.series.push(Series { label: label.to_owned(), source, points });
        self
    }

    /// Returns the name of the group or bin with index `x`.
    pub fn group(&self, x: f64) -> Option<&str> {
        match &self.kind {
            Kind::Lines => None,
            Kind::Bars(names) | Kind::Histogram(names) => names.get(x as usize).map(String::as_str),
        }
    }
}

fn numbered(heights: impl IntoIterator<Item = f64>) -> impl Iterator<Item = (f64, f64)> {
    heights.into_iter().enumerate().map(|(index, height)| (index as f64, height))
}
