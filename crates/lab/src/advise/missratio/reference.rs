//! Miss ratios that another simulator found, to be compared with ours.
//!
//! The file is CSV with the columns `trace`, `mode` (`bytes` or `objects`), `cache_size`,
//! `algorithm` and `miss_ratio`, the last with four digits. Algorithms that Larder does not have
//! are passed over.

use std::fmt;

use store::policy::{PolicyName, Unit};

use super::Arm;

/// A figure to compare with.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the trace: its file's name up to the first dot.
    pub trace: String,
    /// What the size counts.
    pub unit: Unit,
    /// Capacity of the cache.
    pub size: u64,
    /// Our policy.
    pub policy: PolicyName,
    /// Misses by requests, to four digits.
    pub miss_ratio: f64,
}

impl Figure {
    /// The cache that it is the figure of.
    pub fn arm(&self) -> Arm {
        Arm { policy: self.policy, unit: self.unit, size: self.size }
    }
}

/// A line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadReference {
    line: usize,
    what: String,
}

impl fmt::Display for BadReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BadReference {}

const COLUMNS: [&str; 5] = ["trace", "mode", "cache_size", "algorithm", "miss_ratio"];

/// How the policy is called in reference files.
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

/// How far ours may be from the figure: policies without room for interpretation agree in all four
/// digits.
pub fn tolerance(policy: PolicyName) -> f64 {
    match policy {
        PolicyName::Lru | PolicyName::Fifo | PolicyName::Clock => 0.000_05,
        _ => 0.005,
    }
}

/// Reads a file of figures.
pub fn parse(text: &str) -> Result<Vec<Figure>, BadReference> {
    let mut lines = (1..).zip(text.lines());
    let header: Vec<&str> = lines.next().map_or("", |(_, header)| header).split(',').collect();
    let mut columns = [0; COLUMNS.len()];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        *column = header.iter().position(|title| *title == name).ok_or_else(|| BadReference {
            line: 1,
            what: format!("no column is called {name}; needed are {}", COLUMNS.join(", ")),
        })?;
    }
    let figures = lines.filter(|(_, text)| !text.is_empty()).filter_map(|(line, text)| {
        let fields: Vec<&str> = text.split(',').collect();
        figure(&columns.map(|column| fields.get(column).copied().unwrap_or_default()))
            .map_err(|what| BadReference { line, what })
            .transpose()
    });
    figures.collect()
}

fn figure(fields: &[&str; COLUMNS.len()]) -> Result<Option<Figure>, String> {
    let [trace, mode, size, algorithm, miss_ratio] = *fields;
    let Some(policy) = policy(algorithm) else { return Ok(None) };
    let unit = match mode {
        "bytes" => Unit::Bytes,
        "objects" => Unit::Objects,
        _ => return Err(format!("the mode is {mode:?}, not bytes or objects")),
    };
    let size = size.parse().map_err(|_| format!("the cache size {size:?} is not a number"))?;
    let miss_ratio =
        miss_ratio.parse().map_err(|_| format!("the miss ratio {miss_ratio:?} is not a number"))?;
    Ok(Some(Figure { trace: trace.to_owned(), unit, size, policy, miss_ratio }))
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
    fn what_is_wrong_is_named() {
        let told = |text: &str| parse(text).unwrap_err().to_string();
        assert!(told("").starts_with("line 1: no column is called trace"));
        let header = COLUMNS.join(",");
        assert_eq!(
            told(&format!("{header}\na,lines,3,LRU,0.5\n")),
            "line 2: the mode is \"lines\", not bytes or objects"
        );
        assert!(told(&format!("{header}\na,bytes,3,LRU\n")).contains("miss ratio \"\""));
        assert!(told(&format!("{header}\na,bytes,-3,LRU,0.5\n")).contains("\"-3\""));
    }
}
