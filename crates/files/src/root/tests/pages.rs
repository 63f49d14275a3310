//! Listings.

use std::time::{Duration, SystemTime};

use super::*;
use crate::listing::LISTED_MAX;

fn page(root: &Root, path: &[u8]) -> ListingPage {
    let found = root.find(&request(path)).unwrap();
    let Outcome::Listing(listing) = found.outcome else { panic!("{found:?}") };
    root.list(&listing).unwrap()
}

fn listed() -> Options {
    Options { listing: true, ..Options::default() }
}

/// The page that is expected, in a file beside: `LARDER_BLESS=1` writes it anew.
#[test]
fn a_listing_is_the_page_that_was_approved() {
    let tree = Tree::new();
    let name = "<b>&\"q' a:b?#% é".as_bytes();
    for name in [name, b"b.txt", b"a.txt", b"B", b"\xff\xfe.bin", b".hidden", b"sub dir/x", b"zz/x"]
    {
        tree.write(&[b"d/", name].concat(), &vec![b'x'; name.len() * 300]);
    }
    tree.link("d/inside", "a.txt");
    tree.link("d/outside", tree.outside().join("secret"));
    tree.link("d/dangling", "none");
    let mode = Mode::from_bits_retain(0o600);
    rustix::fs::mknodat(CWD, tree.at(b"d/fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for entry in fs::read_dir(tree.at(b"d")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() || path.is_dir() {
            fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/listing.html");
    for root in tree.roots(&listed()) {
        // One tag a line, to be read by people.
        let html = page(&root, b"/d/").html.replace('>', ">\n");
        if std::env::var_os("LARDER_BLESS").is_some() {
            fs::write(&golden, &html).unwrap();
        }
        assert_eq!(html, fs::read_to_string(&golden).unwrap());
    }
}

#[test]
fn every_link_of_a_listing_leads_to_its_entry() {
    let tree = Tree::new();
    let names = (1..=255_u8).filter(|byte| !b"./".contains(byte));
    let mut expected = Vec::new();
    for byte in names {
        tree.write(&[byte], &[byte]);
        expected.push(byte);
    }
    let options = Options { precompressed: Vec::new(), ..listed() };
    for root in tree.roots(&options) {
        let html = page(&root, b"/").html;
        let mut got = Vec::new();
        for link in html.split("href=\"").skip(1) {
            let link = link.split('"').next().unwrap().replace("&amp;", "&");
            assert!(!link.contains([':', '?', '#', '<', '>', '\\', ' ']), "{link}");
            let path = format!("/{link}");
            let found = root.find(&request(path.as_bytes())).unwrap();
            let Outcome::File(file) = found.outcome else { panic!("{link}: {found:?}") };
            got.extend(content(file));
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn a_page_changes_its_tag_with_its_text_and_says_when_it_is_cut() {
    let tree = Tree::new();
    for number in 0..LISTED_MAX {
        tree.write(format!("{number:05}").as_bytes(), b"");
    }
    for root in tree.roots(&listed()) {
        let before = page(&root, b"/");
        assert_eq!(before.html.matches("<td><a ").count(), LISTED_MAX);
        assert!(!before.html.contains("there are more"));
        assert_eq!(page(&root, b"/"), before);
        // Directories come first, so the last file goes.
        fs::create_dir(tree.at(b"zzz")).unwrap();
        let after = page(&root, b"/");
        assert_ne!(after.etag, before.etag);
        assert_eq!(after.html.matches("<td><a ").count(), LISTED_MAX);
        assert!(after.html.contains("Only 2000 entries are shown, there are more."));
        assert!(after.html.contains("zzz/") && !after.html.contains("01999"));
        fs::remove_dir(tree.at(b"zzz")).unwrap();
    }
}

#[test]
fn a_directory_that_is_gone_has_no_page() {
    let tree = Tree::with(&["d/x"]);
    for root in tree.roots(&listed()) {
        let Outcome::Listing(listing) = root.find(&request(b"/d/")).unwrap().outcome else {
            panic!("no listing")
        };
        fs::rename(tree.at(b"d"), tree.at(b"e")).unwrap();
        let why = root.list(&listing).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
        tree.link("d", tree.outside());
        assert!(root.list(&listing).is_err());
        fs::remove_file(tree.at(b"d")).unwrap();
        fs::rename(tree.at(b"e"), tree.at(b"d")).unwrap();
    }
}
