//! Tests of roots on real directories; each test runs with both methods of opening paths.

mod codings;
mod looks;
mod model;
mod pages;
mod races;
mod reading;
mod symlinks;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::Coding;
use crate::found::File;

/// A directory `root`, and one outside it.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        fs::create_dir(tree.at(b"")).unwrap();
        fs::create_dir(tree.outside()).unwrap();
        fs::write(tree.outside().join("secret"), "outside").unwrap();
        tree
    }

    /// Creates files and their directories; the content of each file is its path.
    fn with(files: &[&str]) -> Tree {
        let tree = Tree::new();
        for path in files {
            tree.write(path.as_bytes(), path.as_bytes());
        }
        tree
    }

    /// Returns the absolute path of a path below the root.
    fn at(&self, path: &[u8]) -> PathBuf {
        let root = self.0.path().join("root");
        if path.is_empty() { root } else { root.join(std::ffi::OsStr::from_bytes(path)) }
    }

    fn outside(&self) -> PathBuf {
        self.0.path().join("outside")
    }

    fn write(&self, path: &[u8], bytes: &[u8]) {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, bytes).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        symlink(target, self.at(path.as_bytes())).unwrap();
    }

    /// Opens the root once with each available method of opening paths.
    fn roots(&self, options: &Options) -> Vec<Root> {
        let by_kernel = Root::open(self.at(b""), options.clone()).unwrap();
        let mut by_walk = Root::open(self.at(b""), options.clone()).unwrap();
        by_walk.resolver.method = Method::Walk;
        if by_kernel.resolver.method == Method::Walk {
            eprintln!("SKIPPED: openat2: this kernel or sandbox has none");
        }
        vec![by_kernel, by_walk]
    }
}

fn request(path: &[u8]) -> Request<'_> {
    Request { path, accepted: Accepted::NONE }
}

/// Reads a file to its end, even if it is being renamed.
fn content(file: File) -> Vec<u8> {
    let reader = file.into_reader(false);
    let mut bytes = vec![0; usize::try_from(reader.remaining()).unwrap()];
    reader.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Describes an outcome in a few letters; a file by its bytes.
fn told(outcome: Outcome) -> String {
    match outcome {
        Outcome::File(file) => {
            let coding = file.coding.map_or(String::new(), |coding| format!("{} ", coding.name()));
            format!("{coding}{}", content(file).escape_ascii())
        }
        Outcome::Redirect(location) => format!("-> {location}"),
        Outcome::Listing(_) => "(listing)".to_owned(),
        Outcome::Missing => "404".to_owned(),
        Outcome::Forbidden => "403".to_owned(),
        Outcome::NotRegular => "(not regular)".to_owned(),
        Outcome::Malformed => "400".to_owned(),
        Outcome::Status(status) => format!("={status}"),
    }
}

/// Checks the outcome of each path on every root, with `find` and `version_of`.
fn check(roots: &[Root], cases: &[(&str, &str)]) {
    for root in roots {
        for (path, expected) in cases {
            let context = format!("{path} by {:?}", root.resolver.method);
            let found = root.find(&request(path.as_bytes())).unwrap();
            let version = root.version_of(&request(path.as_bytes())).unwrap();
            let same = match (&found.outcome, &version.outcome) {
                (Outcome::File(file), Outcome::File(sent)) => file.representation() == *sent,
                (found, version) => {
                    std::mem::discriminant(&retyped(found)) == std::mem::discriminant(version)
                }
            };
            assert!(same, "{context}: {found:?} {version:?}");
            assert_eq!(found.directories, version.directories, "{context}");
            assert_eq!(found.watchable, version.watchable, "{context}");
            assert_eq!(told(found.outcome), *expected, "{context}");
        }
    }
}

/// Returns an outcome of the same kind without the open file.
fn retyped(outcome: &Outcome) -> Outcome<Representation> {
    match outcome {
        Outcome::File(file) => Outcome::File(file.representation()),
        Outcome::Redirect(location) => Outcome::Redirect(location.clone()),
        Outcome::Listing(listing) => Outcome::Listing(listing.clone()),
        Outcome::Missing => Outcome::Missing,
        Outcome::Forbidden => Outcome::Forbidden,
        Outcome::NotRegular => Outcome::NotRegular,
        Outcome::Malformed => Outcome::Malformed,
        Outcome::Status(status) => Outcome::Status(*status),
    }
}

/// Returns the seed of a randomised test, from `LARDER_SEED` or new, and prints it.
fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    eprintln!("replay with LARDER_SEED={seed}");
    seed
}

#[test]
fn roots_that_are_none_are_refused_with_words() {
    let tree = Tree::with(&["file"]);
    let open = |path: PathBuf, options| Root::open(path, options).unwrap_err();
    let missing = open(tree.at(b"none"), Options::default());
    assert!(matches!(missing, OpenError::Missing(_)), "{missing:?}");
    assert!(missing.to_string().ends_with("root/none does not exist"), "{missing}");
    let file = open(tree.at(b"file"), Options::default());
    assert!(matches!(file, OpenError::NotDirectory(_)), "{file:?}");
    let options = Options { index: vec![String::new()], ..Options::default() };
    let bad = open(tree.at(b""), options);
    assert!(matches!(bad, OpenError::Options(_)), "{bad:?}");
}

#[test]
fn a_root_behind_a_link_is_current_until_the_link_leads_elsewhere() {
    let tree = Tree::with(&["v1/a", "v2/a"]);
    tree.link("current", "v1");
    let root = Root::open(tree.at(b"current"), Options::default()).unwrap();
    assert!(root.is_current().unwrap());
    tree.link("next", "v2");
    fs::rename(tree.at(b"next"), tree.at(b"current")).unwrap();
    assert!(!root.is_current().unwrap());
    assert_eq!(told(root.find(&request(b"/a")).unwrap().outcome), "v1/a");
    fs::remove_file(tree.at(b"current")).unwrap();
    assert!(!root.is_current().unwrap());
}

/// Runs `act` on a thread without capabilities, because root may otherwise read everything.
fn without_privileges<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            let reading = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            sets.effective.remove(reading);
            set_capabilities(None, sets).unwrap();
            act()
        });
        run.join().unwrap()
    })
}

#[test]
fn permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::with(&["a", "shut/a", "blind/a", "c", "c.gz", "d", "d.gz"]);
    let mode = |path: &str, mode| {
        fs::set_permissions(tree.at(path.as_bytes()), fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in ["a", "c", "d.gz", "shut"] {
        mode(path, 0o000);
    }
    mode("blind", 0o111);
    let accepted = Accepted::new([Coding::Gzip]);
    without_privileges(|| {
        for root in tree.roots(&Options::default()) {
            for (path, expected) in [
                ("/a", "403"),
                ("/shut/a", "403"),
                ("/shut/", "403"),
                ("/shut", "-> /shut/"),
                ("/blind/a", "blind/a"),
                // The sibling may be read, but the file may not.
                ("/c", "403"),
                ("/d", "d"),
            ] {
                let request = Request { path: path.as_bytes(), accepted };
                let found = root.find(&request).unwrap();
                assert_eq!(told(found.outcome), expected, "{path}");
            }
        }
        let no_search = Root::open(tree.at(b"shut"), Options::default()).unwrap_err();
        assert!(matches!(no_search, OpenError::Forbidden(_)), "{no_search:?}");
        let listed = Options { listing: true, ..Options::default() };
        let no_list = Root::open(tree.at(b"blind"), listed.clone()).unwrap_err();
        assert!(matches!(no_list, OpenError::NotListable(_)), "{no_list:?}");
        let root = Root::open(tree.at(b""), listed).unwrap();
        let found = root.find(&request(b"/blind/")).unwrap();
        let Outcome::Listing(listing) = found.outcome else { panic!("{found:?}") };
        let why = root.list(&listing, &ListingQuery::default()).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
    });
    mode("shut", 0o700);
}
