//! Plots as data: axes as in the paper, and the paper's points beside ours. Drawing them is
//! [`super::chart`]'s.

use serde::{Deserialize, Serialize};

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisScale {
    /// Evenly.
    Linear,
    /// By powers of ten. Points at 0 or below are left out.
    Log,
}

impl AxisScale {
    /// Whether equal distances are equal differences.
    pub fn is_linear(self) -> bool {
        self == AxisScale::Linear
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How it is divided.
    pub scale: AxisScale,
    /// From where to where; by the points when none.
    pub range: Option<[f64; 2]>,
}

impl Axis {
    /// Evenly divided, wide enough for all points.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: AxisScale::Linear, range: None }
    }

    /// Divided by powers of ten, wide enough for all points.
    pub fn log(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: AxisScale::Log, range: None }
    }

    /// From `low` to `high`.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Axis {
        self.range = Some([low, high]);
        self
    }
}

/// What a plot looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points, joined in the order of x.
    Lines,
    /// Groups of bars: x counts these groups from 0.
    Bars(Vec<String>),
    /// As bars, side by side without gaps between the groups: x counts the bins, which are named.
    Histogram(Vec<String>),
}

/// Whose numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The paper's.
    Paper,
    /// Ours.
    Ours,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The system. The paper's series and ours of one label have one colour.
    pub label: String,
    /// Whose.
    pub source: Source,
    /// x and y. Points that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Its name in file names and CSV: short, lower case, hyphens.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it looks like.
    pub kind: Kind,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<Series>,
    /// What must be said below, such as that the trace was sampled. May be empty.
    pub note: String,
}

impl Plot {
    /// Lines with points.
    pub fn lines(id: &str, title: &str, x: Axis, y: Axis) -> Plot {
        Plot::new(id, title, Kind::Lines, x, y)
    }

    /// Bars in groups, named by what stands below them.
    pub fn bars<S: Into<String>>(
        id: &str,
        title: &str,
        groups: impl IntoIterator<Item = S>,
        y: Axis,
    ) -> Plot {
        let groups = groups.into_iter().map(Into::into).collect();
        Plot::new(id, title, Kind::Bars(groups), Axis::linear(""), y)
    }

    /// Shares or counts by bins, named by their bounds.
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

    /// Adds what the paper has, as points.
    #[must_use]
    pub fn paper(self, label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Plot {
        self.series(label, Source::Paper, points)
    }

    /// Adds what we have, as points.
    #[must_use]
    pub fn ours(self, label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Plot {
        self.series(label, Source::Ours, points)
    }

    /// Adds what the paper has, a number for each group or bin in turn; NaN where it has none.
    #[must_use]
    pub fn paper_bars(self, label: &str, heights: impl IntoIterator<Item = f64>) -> Plot {
        self.series(label, Source::Paper, numbered(heights))
    }

    /// Adds what we have, a number for each group or bin in turn; NaN where we have none.
    #[must_use]
    pub fn ours_bars(self, label: &str, heights: impl IntoIterator<Item = f64>) -> Plot {
        self.series(label, Source::Ours, numbered(heights))
    }

    /// Says something below.
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
        // JSON has no word for what is not finite.
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let points = points.into_iter().filter(finite).collect();
        self.series.push(Series { label: label.to_owned(), source, points });
        self
    }

    /// The name of x where it counts groups or bins.
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
