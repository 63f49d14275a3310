//! The tree of files: a directory for each page, with the page and its embedded objects.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::scenario::Scenario;
use crate::load::site_files;
use crate::object::{Object, fill};
use crate::run::cores;

/// The directory of the tree, which is the first segment of all paths.
pub const NAME: &str = "site";

/// Returns a device size in bytes that is large enough for the tree.
pub fn device_len(scenario: &Scenario) -> u64 {
    ((scenario.bytes + scenario.files * 8_192) * 5 / 4 + (256 << 20)).next_multiple_of(1 << 20)
}

/// Creates the tree of a site below `root`, with several threads.
///
/// # Errors
/// Fails if a file cannot be written, or `interrupted` is set.
pub fn make(root: &Path, pages: u32, seed: u64, interrupted: &AtomicBool) -> Result<(), String> {
    let files = site_files(pages, seed);
    let pages: Vec<&[Object]> = files.chunk_by(|a, b| a.group == b.group).collect();
    let threads = cores::allowed().len().max(1);
    let make = |pages: &[&[Object]]| {
        pages.iter().try_for_each(|page| match interrupted.load(Ordering::Relaxed) {
            true => Err("interrupted".to_owned()),
            false => make_page(root, page),
        })
    };
    thread::scope(|scope| {
        let parts = pages.chunks(pages.len().div_ceil(threads).max(1));
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || make(part))).collect();
        let failed = |_| Err("a thread that made the tree failed".to_owned());
        parts.into_iter().try_for_each(|part| part.join().unwrap_or_else(failed))
    })
}

/// Creates the directory of a page and its files.
fn make_page(root: &Path, page: &[Object]) -> Result<(), String> {
    let mut name = String::new();
    for (number, file) in page.iter().enumerate() {
        name.clear();
        file.write_path(NAME, &mut name);
        let path = root.join(&name[1..]);
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(directory) = path.parent().filter(|_| number == 0) {
            fs::create_dir_all(directory).map_err(fail)?;
        }
        let mut bytes = vec![0; file.size as usize];
        fill(file.content(0), 0, &mut bytes);
        fs::write(&path, bytes).map_err(fail)?;
    }
    Ok(())
}

#[test]
fn each_file_is_where_its_path_says() {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), 20, 3, &AtomicBool::new(false)).unwrap();
    for file in site_files(20, 3) {
        let mut path = String::new();
        file.write_path(NAME, &mut path);
        let bytes = fs::read(root.path().join(&path[1..])).unwrap();
        assert_eq!(bytes.len() as u64, file.size, "{path}");
        assert_eq!(crate::object::first_wrong(file.content(0), 0, &bytes), None, "{path}");
    }
    assert!(make(root.path(), 20, 3, &AtomicBool::new(true)).is_err());
}
