//! Miss ratios found by another simulator, for comparison.
//!
//! The file is CSV with the columns `trace`, `mode` (`bytes` or `objects`), `cache_size`,
//! `algorithm` and `miss_ratio`, the last with four digits. Algorithms that Larder does not have
//! are skipped.

use serde::Deserialize;
use store::policy::{PolicyName, Unit};

use super::CacheConfig;

/// A reference figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the trace: its file name up to the first dot.
    pub trace: String,
    /// The unit of the size.
    pub unit: Unit,
    /// Capacity of the cache.
    pub size: u64,
    /// The corresponding policy of Larder.
    pub policy: PolicyName,
    /// Misses divided by requests, to four digits.
    pub miss_ratio: f64,
}

impl Figure {
    /// Returns the cache that the figure is for.
    pub fn config(&self) -> CacheConfig {
        CacheConfig { policy: self.policy, unit: self.unit, size: self.size }
    }
}

#[derive(Deserialize)]
struct Line {
    trace: String,
    mode: Mode,
    cache_size: u64,
    algorithm: String,
    miss_ratio: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Bytes,
    Objects,
}

/// Returns the policy for an algorithm name in reference files.
fn policy(algorithm: &str) -> Option<PolicyName> {
    match algorithm {
        "LRU" => Some(PolicyName::Lru),
        "FIFO" => Some(PolicyName::Fifo),
        "Clock" => Some(PolicyName::Clock),
        "Sieve" => Some(PolicyName::Sieve),
        "S3FIFO-0.1000-2" => Some(PolicyName::S3Fifo),
        "GDSF" => Some(PolicyName::Gdsf),
        "WTinyLFU-w0.01-SLRU" => Some(PolicyName::WTinyLfu),
        _ => None,
    }
}

/// Returns the maximum deviation from the reference: policies without room for interpretation agree
/// in all four digits.
pub fn tolerance(policy: PolicyName) -> f64 {
    match policy {
        PolicyName::Lru | PolicyName::Fifo | PolicyName::Clock => 0.000_05,
        _ => 0.005,
    }
}

/// Reads a file of figures.
///
/// # Errors
/// The first line that cannot be parsed, and why.
pub fn parse(text: &str) -> Result<Vec<Figure>, csv::Error> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let figures = reader.deserialize().filter_map(|line| match line {
        Ok(line) => figure(line).map(Ok),
        Err(error) => Some(Err(error)),
    });
    figures.collect()
}

/// Returns the figure of a line; `None` for an algorithm that Larder does not have.
fn figure(line: Line) -> Option<Figure> {
    let Line { trace, mode, cache_size: size, algorithm, miss_ratio } = line;
    let unit = match mode {
        Mode::Bytes => Unit::Bytes,
        Mode::Objects => Unit::Objects,
    };
    Some(Figure { trace, unit, size, policy: policy(&algorithm)?, miss_ratio })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "mode,trace,x,cache_size,algorithm,miss_ratio\n\
                    bytes,a,,10,Sieve,0.1250\nobjects,a,,3,ARC,0.5\n\nobjects,b,,3,LRU,1.0\n";
        let figures = parse(text).unwrap();
        assert_eq!(figures.len(), 2);
        let first = Figure {
            trace: "a".into(),
            unit: Unit::Bytes,
            size: 10,
            policy: PolicyName::Sieve,
            miss_ratio: 0.125,
        };
        assert_eq!(figures[0], first);
        assert_eq!((figures[1].unit, figures[1].policy), (Unit::Objects, PolicyName::Lru));
    }

    #[test]
    fn malformed_lines_are_reported() {
        let told = |text: &str| parse(text).unwrap_err().to_string();
        let header = "trace,mode,cache_size,algorithm,miss_ratio";
        let line = |line: &str| told(&format!("{header}\n{line}\n"));
        assert!(told("mode\nbytes\n").contains("missing field `trace`"));
        assert!(line("a,lines,3,LRU,0.5").contains("line: 2"));
        assert!(line("a,lines,3,LRU,0.5").contains("unknown variant `lines`"));
        assert!(line("a,bytes,3,LRU").contains("line: 2"));
        assert!(line("a,bytes,-3,LRU,0.5").contains("invalid digit"));
    }
}
