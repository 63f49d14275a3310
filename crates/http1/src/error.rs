//! The error of bytes that are no message, or that two parsers could read differently.

use std::{error, fmt};

/// Why bytes are no message of HTTP/1, as a clause about their sender's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl error::Error for Malformed {}
