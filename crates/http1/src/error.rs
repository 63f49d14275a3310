//! The error of bytes that are no message, or that two parsers could read differently.

use std::{error, fmt};

/// Why bytes are no message of HTTP/1, as a clause about their sender's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It has more bytes than a head may have.
    TooLarge,
    /// It is no head, or could be read in two ways.
    Malformed(Malformed),
}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Malformed {
        Malformed(match error {
            httparse::Error::HeaderName => "a field has no valid name",
            httparse::Error::HeaderValue => "a field has no valid value",
            httparse::Error::NewLine => "a line ends wrongly",
            httparse::Error::Status => "its status is no number from 100 on",
            httparse::Error::Token => "its first line has a byte that is not allowed",
            httparse::Error::TooManyHeaders => "its head has too many fields",
            httparse::Error::Version => "it names no version of HTTP/1",
        })
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::TooLarge => f.write_str("the head is too long"),
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
