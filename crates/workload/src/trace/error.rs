//! What is wrong with a trace, or with one of its lines.

use std::fmt;
use std::io;

use super::format::Format;

/// Why a trace cannot be read (any further).
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be opened or read, or its compressed data is damaged.
    Io(io::Error),
    /// Neither the name nor the first lines say how it is written.
    FormatUnknown,
    /// The first line does not name the columns that are needed.
    Header(String),
    /// It has 2^32 objects, or clients, or sites.
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

/// A place that was skipped: its line or record number, from 1, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Line, or record of a binary trace.
    pub number: u64,
    /// What was found, and what was expected.
    pub what: String,
}
