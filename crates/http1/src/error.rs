//! Errors for bytes that are not a valid message, or that two parsers could read differently.

use std::{error, fmt};

/// Why bytes are not a valid HTTP/1 message, as a clause about the sender's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Why bytes are not a valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The head exceeds the size limit.
    TooLarge,
    /// The request line alone exceeds it.
    TargetTooLong,
    /// The bytes are not a head, or could be read in two ways.
    Malformed(Malformed),
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::TooLarge => f.write_str("the head is too long"),
            HeadError::TargetTooLong => f.write_str("the request line is too long"),
            HeadError::Malformed(why) => why.fmt(f),
        }
    }
}

impl From<Malformed> for HeadError {
    fn from(malformed: Malformed) -> HeadError {
        HeadError::Malformed(malformed)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl error::Error for Malformed {}
