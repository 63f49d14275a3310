//! The figures of one scrape and their text in the OpenMetrics format.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The media type of the scrape text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A figure: an integer or a fractional number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Whole(u64),
    Real(f64),
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

type Labels = Vec<(&'static str, String)>;

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

    pub(super) fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::with_capacity(32 << 10);
        // Writing to a string does not fail.
        let _infallible = text::encode(&mut out, &registry);
        out
    }
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
