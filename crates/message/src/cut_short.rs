//! The error of a body that has to be cut.

use std::fmt;

/// The error of a transfer that has to be cut: its connection or stream is ended without a clean
/// end.
#[derive(Debug)]
pub struct Truncated(pub &'static str);

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Truncated {}
