//! Errors of traces and of their lines.

use std::fmt;
use std::io;

use super::format::Format;

/// Why a trace cannot be read (any further).
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be opened or read, or its compressed data is damaged.
    Io(io::Error),
    /// Neither the name nor the first lines determine the format.
    FormatUnknown,
    /// The first line lacks the names of required columns.
    Header(String),
    /// The trace has 2^32 objects, or clients, or sites.
    TooManyNames,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => write!(f, "cannot be read: {error}"),
            TraceError::FormatUnknown => write!(
                f,
                "neither its name nor its first lines tell how it is written: say it with \
                 --format (one of {}), or name the columns of a table with --columns",
                Format::names()
            ),
            TraceError::TooManyNames => f.write_str("more than four billion objects or clients"),
            TraceError::Header(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// A damaged place that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the line, or of the record in a binary trace, from 1.
    pub number: u64,
    /// The text that was found, and what was expected.
    pub what: String,
}
