//! Reading of files to convert.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest file that is read.
const MAX: u64 = 32 << 20;

/// Place of a directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    pub file: std::sync::Arc<str>,
    /// Counted from 1.
    pub line: usize,
}

/// Reads a file as text. Bytes that are not UTF-8 are replaced.
///
/// # Errors
///
/// A sentence: it cannot be read, is too large, or is not text.
pub fn read(path: &Path) -> Result<String, String> {
    let name = path.display();
    let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
    let kind = file.metadata().map_err(|error| format!("{name}: {error}"))?;
    if kind.is_dir() {
        return Err(format!("{name}: expected a file, got a directory"));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > MAX {
        return Err(format!("{name}: expected at most 32M"));
    }
    if bytes.contains(&0) {
        return Err(format!("{name}: expected text, got NUL bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
