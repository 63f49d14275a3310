//! Finds and reads the files that `include` names.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cli::units;
use glob::{MatchOptions, Pattern, glob_with};

use crate::config::sources::Stamp;

/// Upper bound on the size of one file.
const BYTES_MAX: u64 = 64 << 20;

/// The rules of a shell: `*` matches neither a slash nor the dot that hides a file.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Returns the files that one element of `include` in the file `from` names: a file, those that
/// match a pattern, or the `*.toml` files of a directory, sorted by name.
///
/// # Errors
///
/// A sentence, if a directory cannot be read or the pattern is invalid.
pub fn named(element: &str, from: &Path) -> Result<Vec<PathBuf>, String> {
    let base = from.parent().unwrap_or(Path::new(""));
    if !element.contains(['*', '?', '[']) {
        return in_directory(base.join(element));
    }
    // The directory itself is no pattern.
    let base = base.to_str().ok_or_else(|| format!("{}: expected UTF-8", base.display()))?;
    let base = Path::new(&Pattern::escape(base)).join(element);
    let pattern = base.to_string_lossy();
    let found = glob_with(&pattern, MATCHING)
        .map_err(|error| format!("expected a pattern such as sites/*.toml: {error}"))?;
    let mut all = Vec::new();
    for path in found {
        all.extend(in_directory(path.map_err(|error| error.to_string())?)?);
    }
    Ok(all)
}

/// Returns the `*.toml` files of a directory, sorted by name; of anything else, the path itself.
fn in_directory(path: PathBuf) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path]);
    }
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name_bytes = name.as_encoded_bytes();
        if name_bytes.ends_with(b".toml") && !name_bytes.starts_with(b".") {
            all.push(path.join(name));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Reads an included file. Only a regular file ends, so others are refused.
///
/// # Errors
///
/// A sentence without the path.
pub fn read_regular(path: &Path) -> Result<Vec<u8>, String> {
    read_stamped(path).map(|(bytes, _)| bytes)
}

/// Like [`read_regular`]; also returns the state of the file before it was read.
pub fn read_stamped(path: &Path) -> Result<(Vec<u8>, Stamp), String> {
    // The open of a FIFO would wait for a writer.
    let flags = nix::libc::O_NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let facts = file.metadata().map_err(|error| error.to_string())?;
    match facts.is_file() {
        true => Ok((read_bounded(file)?, Stamp::of_read(&facts))),
        false => Err("expected a regular file".to_owned()),
    }
}

/// Reads a file that may also be a pipe.
///
/// # Errors
///
/// A sentence without the path.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(fs::File::open(path).map_err(|error| error.to_string())?)
}

fn read_bounded(file: fs::File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(format!("expected at most {}", units::size(BYTES_MAX))),
        false => Ok(bytes),
    }
}
