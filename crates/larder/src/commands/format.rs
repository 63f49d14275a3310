//! `larder format`: creates an empty cache, at a free path or with `--force` over existing
//! contents.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cli::outcome::{Failure, answer};
use cli::units::size as show;
use device::{CacheFile, Contents, FileKind, OpenOptions};
use store::{CREATION_MARK, FormatOptions, OpenError};

use crate::caches::open_caches::{check_room, discard_unfinished, foreign, format, is_new, judge};

/// Creates an empty cache of `size` bytes at `path`.
pub fn run(path: &Path, size: u64, force: bool, options: &FormatOptions) -> Result<(), Failure> {
    let file = open(path, size, force).map_err(Failure::runtime)?;
    let at = path.display();
    format(&file, options).map_err(|why| Failure::runtime(format!("{at}: {why}")))?;
    for fallback in file.fallbacks() {
        answer(&format!("{at}: {fallback}"))?;
    }
    answer(&format!("{at}: an empty cache of {}", show(file.geometry().len)))
}

fn open(path: &Path, size: u64, force: bool) -> Result<Arc<CacheFile>, String> {
    if size < store::CACHE_SIZE_MIN {
        let (at, min) = (path.display(), show(store::CACHE_SIZE_MIN));
        return Err(format!("{at}: {} are too few for a cache, {min} is the least", show(size)));
    }
    let file = open_file(path, size)?;
    if file.was_created() {
        return Ok(file);
    }
    let len = file.geometry().len;
    let is_device = file.kind() == FileKind::BlockDevice;
    if is_device && size > len {
        let at = path.display();
        return Err(format!("{at}: the device has only {}, not {}", show(len), show(size)));
    }
    let is_free = is_device
        && match judge(&file) {
            Some(OpenError::NotOurs) => contents(&file)? == Contents::Blank,
            judgement => judgement == Some(OpenError::Unfinished),
        };
    if !force && !is_free {
        return Err(occupied(&file)?);
    }
    if is_device {
        return Ok(file);
    }
    // The lock was acquired, so the old contents are not in use. They are truncated first, so that
    // their space counts as free for the new cache.
    fs::File::options()
        .write(true)
        .open(path)
        .and_then(|emptied| emptied.set_len(0))
        .map_err(|error| format!("{}: cannot empty it: {error}", path.display()))?;
    drop(file);
    open_file(path, size)
}

fn open_file(path: &Path, size: u64) -> Result<Arc<CacheFile>, String> {
    discard_unfinished(path);
    if is_new(path) {
        check_room(path, size)?;
    }
    let create = Some(size);
    let options = OpenOptions { create, mark: &CREATION_MARK, ..OpenOptions::default() };
    CacheFile::open(path, &options).map_err(|error| error.to_string())
}

fn contents(file: &CacheFile) -> Result<Contents, String> {
    file.contents().map_err(|error| format!("{}: cannot read it: {error}", file.path().display()))
}

/// Returns the message that refuses to overwrite.
fn occupied(file: &CacheFile) -> Result<String, String> {
    match judge(file) {
        Some(OpenError::NotOurs) => Ok(foreign(file.path(), contents(file)?)),
        _ => Ok(format!(
            "{}: there is already a Larder cache; --force overwrites everything in it",
            file.path().display()
        )),
    }
}
