//! The tree of files: a directory for each page, with the page and what it embeds.

use std::fs;
use std::path::Path;

use testbed::pages;

use crate::bench::scenario::body;

/// Directories of pages in one directory.
const FAN: u64 = 1_000;

/// Returns the path of an object in URLs.
pub fn path(object: u64) -> String {
    let page = pages::page_of(object);
    format!(
        "/{}/{page}/{object}.{}",
        page / FAN,
        if pages::is_page(object) { "html" } else { "gif" }
    )
}

/// Returns a size of a device on which the tree has room.
pub fn device_len(pages: u32) -> u64 {
    let bytes: u64 = objects(pages).map(|object| pages::body_len(object) as u64 + 8192).sum();
    (bytes * 5 / 4 + (256 << 20)).next_multiple_of(1 << 20)
}

/// Makes the tree. Returns what it is.
///
/// # Errors
///
/// When a file cannot be written.
pub fn make(root: &Path, pages: u32) -> Result<String, String> {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    for object in objects(pages) {
        let path = root.join(&path(object)[1..]);
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(directory) = path.parent().filter(|_| pages::is_page(object)) {
            fs::create_dir_all(directory).map_err(fail)?;
        }
        let body = body(object, pages::body_len(object));
        fs::write(&path, &body).map_err(fail)?;
        files += 1;
        bytes += body.len() as u64;
    }
    Ok(format!("{files} files of {} MB in {pages} directories", bytes / 1_000_000))
}

fn objects(pages: u32) -> impl Iterator<Item = u64> {
    (0..pages).flat_map(pages::objects)
}
