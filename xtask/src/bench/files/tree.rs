//! The tree of files: a directory for each page, with the page and its embedded objects.

use std::fs;
use std::path::Path;
use std::thread;

use testkit::pages;

use crate::bench::scenario::body;
use crate::bench::{interruption, process};

/// Maximum number of page directories in one directory.
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

/// Returns a device size in bytes that is large enough for the tree.
pub fn device_len(pages: u32) -> u64 {
    let (files, bytes) = size(pages);
    ((bytes + files * 8192) * 5 / 4 + (256 << 20)).next_multiple_of(1 << 20)
}

/// Returns the number of files and their bytes.
pub fn size(pages: u32) -> (u64, u64) {
    objects(pages)
        .fold((0, 0), |(files, bytes), object| (files + 1, bytes + pages::body_len(object) as u64))
}

/// Creates the tree with several threads. The upper directories are divided among them, so that
/// they do not contend. Returns a description.
///
/// # Errors
///
/// When a file cannot be written, or the program is interrupted.
pub fn make(root: &Path, pages: u32) -> Result<String, String> {
    let threads = process::cores() as u64;
    let part = |number: u64| {
        let mut own = (0..pages).filter(|page| u64::from(*page) / FAN % threads == number);
        own.try_for_each(|page| make_page(root, page))
    };
    let made: Vec<Result<(), String>> = thread::scope(|scope| {
        let part = &part;
        let parts: Vec<_> = (0..threads).map(|number| scope.spawn(move || part(number))).collect();
        let failed = |_| Err("a thread that made the tree failed".to_owned());
        parts.into_iter().map(|part| part.join().unwrap_or_else(failed)).collect()
    });
    made.into_iter().collect::<Result<(), String>>()?;
    let (files, bytes) = size(pages);
    Ok(format!("{files} files of {} MB in {pages} directories", bytes / 1_000_000))
}

/// Creates the directory of a page and its files.
fn make_page(root: &Path, page: u32) -> Result<(), String> {
    interruption::check()?;
    for object in pages::objects(page) {
        let path = root.join(&path(object)[1..]);
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(directory) = path.parent().filter(|_| pages::is_page(object)) {
            fs::create_dir_all(directory).map_err(fail)?;
        }
        fs::write(&path, body(object, pages::body_len(object))).map_err(fail)?;
    }
    Ok(())
}

fn objects(pages: u32) -> impl Iterator<Item = u64> {
    (0..pages).flat_map(pages::objects)
}
