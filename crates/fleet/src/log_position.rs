//! Position in one node's purge log.
//!
//! A log has a number. A node begins a new log, with a greater number, when it can no longer
//! promise that its log is complete.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Position in one node's purge log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// Number of the log.
    pub log: u64,
    /// Number of purges before this position.
    pub number: u64,
}

impl fmt::Display for LogPosition {
    /// Writes `log.number`, both in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.log, self.number)
    }
}

/// Error: a text is not a list of log positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPositions(Box<str>);

impl InvalidPositions {
    /// Makes the error about `text`; keeps only the start of the text.
    pub(crate) fn of(text: &str) -> InvalidPositions {
        InvalidPositions(text.chars().take(100).collect::<String>().into())
    }
}

impl fmt::Display for InvalidPositions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} are not valid purge log positions: write NAME=LOG.NUMBER;...", self.0)
    }
}

impl Error for InvalidPositions {}

impl FromStr for LogPosition {
    type Err = InvalidPositions;

    fn from_str(text: &str) -> Result<LogPosition, InvalidPositions> {
        let digits = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
        };
        let parsed = || {
            let (log, number) = text.split_once('.')?;
            Some(LogPosition { log: digits(log)?, number: digits(number)? })
        };
        parsed().ok_or_else(|| InvalidPositions::of(text))
    }
}
