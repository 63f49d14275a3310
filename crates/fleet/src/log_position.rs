//! A place in one node's log of purges.
//!
//! A log has a number of its own, and a node begins another one when it cannot promise any more
//! that nothing is missing in it. A later log of a node has a greater number, and who follows it
//! has carried out, or need not, what stood in those before: so all places in the logs of one node
//! are in one order, and old news of a former log is never taken for news.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// A place in one node's log of purges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The number of the log.
    pub log: u64,
    /// Purges before this place.
    pub number: u64,
}

impl LogPosition {
    /// Returns whether who is here has carried out all that stands before `other`, in that log or
    /// in one before it.
    pub fn covers(self, other: LogPosition) -> bool {
        self >= other
    }
}

impl fmt::Display for LogPosition {
    /// Writes `log.number`, both in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.log, self.number)
    }
}

/// A text that names no positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPositions(Box<str>);

impl InvalidPositions {
    /// Makes the error about `text`, of which it keeps the begin.
    pub(crate) fn of(text: &str) -> InvalidPositions {
        InvalidPositions(text.chars().take(100).collect::<String>().into())
    }
}

impl fmt::Display for InvalidPositions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} are no positions in logs of purges: write NAME=LOG.NUMBER;...", self.0)
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
