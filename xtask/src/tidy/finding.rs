//! Reports of broken rules.

use std::fmt;
use std::path::{Path, PathBuf};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, below the root of the workspace.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// Description of the broken rule.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Returns a finding at a line of a file.
pub fn finding(path: &Path, line: usize, what: impl Into<String>) -> Finding {
    Finding { path: path.to_path_buf(), line, what: what.into() }
}
