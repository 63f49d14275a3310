//! The figures of one scrape and their text, in one of the formats that Prometheus reads.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// A format of the scrape text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4, which every tool reads.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a request with these `Accept` lines.
    pub fn accepted<'a>(mut lines: impl Iterator<Item = &'a str>) -> Format {
        match lines.any(|line| line.contains("application/openmetrics-text")) {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }

    /// Returns the media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A figure: an integer or a fractional number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Whole(u64),
    Real(f64),
}

impl Value {
    fn number(self) -> f64 {
        match self {
            Value::Whole(n) => n as f64,
            Value::Real(x) => x,
        }
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Whole(n)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Whole(n as u64)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Whole(u64::from(yes))
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Real(x)
    }
}

impl From<Duration> for Value {
    /// Converts to seconds.
    fn from(time: Duration) -> Value {
        Value::Real(time.as_secs_f64())
    }
}

#[derive(Debug)]
enum Figure {
    Counter(Value),
    Gauge(Value),
    Histogram { sum: f64, buckets: Vec<(f64, u64)> },
}

pub(crate) type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    figures: Vec<(Labels, Figure)>,
}

/// Figures of one scrape, grouped by name in whatever order they are added.
///
/// Names are `larder_…` in lower case, with the unit at the end (`_seconds`, `_bytes`). A counter's
/// name is given without `_total`, which the format adds.
#[derive(Debug, Default)]
pub struct Samples {
    families: Vec<Family>,
    by_name: HashMap<&'static str, usize>,
}

impl Samples {
    /// Adds a value that only grows.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: impl Into<Value>,
    ) {
        debug_assert!(!name.ends_with("_total"), "{name}: the format adds _total");
        self.add(name, help, MetricType::Counter, labels, Figure::Counter(value.into()));
    }

    /// Adds a value that goes up and down.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: impl Into<Value>,
    ) {
        self.add(name, help, MetricType::Gauge, labels, Figure::Gauge(value.into()));
    }

    /// Adds a distribution: the sum of all values, the number of values in each bucket (up to its
    /// bound and above the previous one), and the number above the last bound.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        sum: f64,
        buckets: impl Iterator<Item = (f64, u64)>,
        above: u64,
    ) {
        let buckets = buckets.chain([(f64::INFINITY, above)]).collect();
        let figure = Figure::Histogram { sum, buckets };
        self.add(name, help, MetricType::Histogram, labels, figure);
    }

    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        labels: &[(&'static str, &str)],
        figure: Figure,
    ) {
        let index = *self.by_name.entry(name).or_insert_with(|| {
            self.families.push(Family { name, help, kind, figures: Vec::new() });
            self.families.len() - 1
        });
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels = labels.map(|&(name, value)| (name, value.to_owned())).collect();
        self.families[index].figures.push((labels, figure));
    }

    /// Returns the sum of the figures of this name whose labels are `wanted`. Histograms count 0.
    pub(crate) fn sum(&self, name: &str, wanted: impl Fn(&Labels) -> bool) -> f64 {
        let figures = self.family(name).filter(|(labels, _)| wanted(labels));
        let value = |(_, figure): &(Labels, Figure)| match figure {
            Figure::Counter(value) | Figure::Gauge(value) => value.number(),
            Figure::Histogram { .. } => 0.0,
        };
        figures.map(value).sum()
    }

    /// Returns the values that a label has in the figures of this name, in order.
    pub(crate) fn label_values(&self, name: &str, label: &str) -> Vec<String> {
        let labels = self.family(name).flat_map(|(labels, _)| labels);
        labels.filter(|(known, _)| *known == label).map(|(_, value)| value.clone()).collect()
    }

    fn family(&self, name: &str) -> impl Iterator<Item = &(Labels, Figure)> {
        let family = self.by_name.get(name).map(|index| &self.families[*index]);
        family.into_iter().flat_map(|family| &family.figures)
    }

    pub(super) fn into_text(self, format: Format) -> String {
        let counters =
            self.families.iter().filter(|family| matches!(family.kind, MetricType::Counter));
        let counters: HashSet<&str> = counters.map(|family| family.name).collect();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::with_capacity(32 << 10);
        // Writing to a string does not fail.
        let _infallible = text::encode(&mut out, &registry);
        match format {
            Format::OpenMetrics => out,
            Format::Text => older_text(&out, &counters),
        }
    }
}

/// Returns an OpenMetrics text in the format 0.0.4, in which a counter's help and type have its
/// full name, and nothing marks the end.
fn older_text(text: &str, counters: &HashSet<&str>) -> String {
    let mut out = String::with_capacity(text.len() + 4096);
    for line in text.lines().filter(|line| *line != "# EOF") {
        let described = ["# HELP ", "# TYPE "].iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters.contains(name).then_some((word, name, rest))
        });
        match described {
            Some((word, name, rest)) => out.push_str(&format!("{word}{name}_total {rest}")),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.families {
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, figure) in &family.figures {
                // Without labels the text has no braces.
                match labels.is_empty() {
                    true => figure.encode(&mut metric)?,
                    false => figure.encode(&mut metric.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

impl Figure {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Figure::Counter(Value::Whole(n)) => {
                metric.encode_counter::<NoLabelSet, u64, u64>(n, None)
            }
            Figure::Counter(Value::Real(x)) => {
                metric.encode_counter::<NoLabelSet, f64, u64>(x, None)
            }
            Figure::Gauge(Value::Whole(n)) => {
                metric.encode_gauge(&i64::try_from(*n).unwrap_or(i64::MAX))
            }
            Figure::Gauge(Value::Real(x)) => metric.encode_gauge(x),
            Figure::Histogram { sum, buckets } => {
                let count = buckets.iter().map(|(_, n)| n).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}
