//! Errors of traces and of their lines.

use std::io;

use super::format::Format;

/// Why a trace cannot be read (any further).
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read, or its compressed data is damaged.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Neither the name nor the first lines determine the format.
    #[error(
        "cannot detect its format from its name or its first lines: give --format (one of {}), or \
         name the columns of a table with --columns",
        Format::names()
    )]
    FormatUnknown,
    /// The first line lacks the names of required columns.
    #[error("{0}")]
    Header(String),
    /// The trace has 2^32 objects, or clients, or sites.
    #[error("more than four billion objects or clients")]
    TooManyNames,
}

/// A damaged place that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the line, or of the record in a binary trace, from 1.
    pub number: u64,
    /// The text that was found, and what was expected.
    pub what: String,
}
