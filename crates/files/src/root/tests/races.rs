//! Tests in which directories and files are swapped for links while they are being opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{RenameFlags, renameat_with};

use super::*;
use crate::options::Symlinks;

const FINDS: usize = 10_000;

/// Tells the other thread to stop, even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps two names repeatedly until told to stop.
fn swap(tree: &Tree, one: &[u8], other: &[u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let (one, other) = (tree.at(one), tree.at(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Looks up `path` while `one` and `other` are swapped; returns the outcomes.
fn course(symlinks: Symlinks, one: &str, other: &str, path: &str) -> Vec<String> {
    let tree = Tree::with(&["d/secret", "file", "in/secret"]);
    tree.link("link", tree.outside());
    tree.link("file-link", tree.outside().join("secret"));
    let mut answers = Vec::new();
    for root in tree.roots(&Options { symlinks, ..Options::default() }) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| swap(&tree, one.as_bytes(), other.as_bytes(), &stop));
            let _stop = Stop(&stop);
            for _ in 0..FINDS {
                // An error after too many retries is not an outcome, and not a wrong one either.
                if let Ok(found) = root.find(&request(path.as_bytes())) {
                    answers.push(told(found.outcome));
                }
            }
        });
    }
    answers.sort();
    answers.dedup();
    answers
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_outside() {
    for symlinks in [Symlinks::Never, Symlinks::Inside] {
        for (one, path, inside) in [("d", "/d/secret", "d/secret"), ("file", "/file", "file")] {
            let other = if one == "d" { "link" } else { "file-link" };
            let answers = course(symlinks, one, other, path);
            let allowed = |answer: &String| answer == inside || answer == "403";
            assert!(answers.iter().all(allowed), "{path}: {answers:?}");
            assert!(answers.iter().any(|answer| answer == inside), "{path}: {answers:?}");
        }
    }
}

#[test]
fn files_that_are_replaced_all_the_time_are_one_or_the_other() {
    let answers = course(Symlinks::Never, "d/secret", "in/secret", "/d/secret");
    let allowed = ["d/secret".to_owned(), "in/secret".to_owned()];
    assert!(answers.iter().all(|answer| allowed.contains(answer)), "{answers:?}");
}
