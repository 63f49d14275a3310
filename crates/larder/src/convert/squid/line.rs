//! Lines of a configuration of Squid.

use crate::convert::source::At;

/// A line of a file.
#[derive(Clone)]
pub struct Line {
    pub at: At,
    pub words: Vec<String>,
}

impl Line {
    /// Returns the word of this number, from 0; empty if there is none.
    pub fn word(&self, number: usize) -> &str {
        self.words.get(number).map_or("", String::as_str)
    }
}
