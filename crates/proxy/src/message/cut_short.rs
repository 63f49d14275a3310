//! The error of a body that must be truncated.

use std::fmt;

/// The error of a transfer that must be truncated: its connection or stream is closed without a
/// clean end.
#[derive(Debug)]
pub struct Truncated(pub &'static str);

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Truncated {}
