//! Tests of listings.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use super::*;
use crate::listing::LISTED_MAX;

fn page(root: &Root, path: &[u8]) -> ListingPage {
    part(root, path, "", false)
}

/// Returns the page of a directory that `query` selects.
fn part(root: &Root, path: &[u8], query: &str, is_json: bool) -> ListingPage {
    let found = root.find(&request(path)).unwrap();
    let Outcome::Listing(listing) = found.outcome else { panic!("{found:?}") };
    root.list(&listing, &ListingQuery::of(Some(query), is_json)).unwrap()
}

/// Returns the links to entries, unmodified.
fn links(page: &ListingPage) -> Vec<String> {
    let links = page.text.split("<td><a href=\"").skip(1);
    links.map(|link| link.split('"').next().unwrap().replace("&amp;", "&")).collect()
}

fn listed() -> Options {
    Options { listing: true, ..Options::default() }
}

/// Compares with the expected page in a file; `LARDER_BLESS=1` rewrites that file.
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
        // One tag per line, to keep the file readable.
        let html = page(&root, b"/d/").text.replace('>', ">\n");
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
        let mut got = Vec::new();
        for link in links(&page(&root, b"/")) {
            assert!(!link.contains(['?', '#', '<', '>', '\\', ' ']), "{link}");
            assert!(link.starts_with("./") || !link.contains(':'), "{link}");
            let path = format!("/{link}");
            let found = root.find(&request(path.as_bytes())).unwrap();
            let Outcome::File(file) = found.outcome else { panic!("{link}: {found:?}") };
            got.extend(content(file));
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn a_page_changes_its_tag_with_its_text_and_links_to_the_next_one() {
    let tree = Tree::new();
    for number in 0..LISTED_MAX {
        tree.write(format!("{number:05}").as_bytes(), b"");
    }
    for root in tree.roots(&listed()) {
        let before = page(&root, b"/");
        assert_eq!((links(&before).len(), &before.next), (LISTED_MAX, &None));
        assert_eq!(page(&root, b"/"), before);
        // Directories come first, so the last file moves to the next page.
        fs::create_dir(tree.at(b"zzz")).unwrap();
        let after = page(&root, b"/");
        assert_ne!(after.etag, before.etag);
        assert_eq!(links(&after).len(), LISTED_MAX);
        assert_eq!(links(&after)[0], "zzz/");
        let next = after.next.unwrap();
        assert!(after.text.contains(&next.replace('&', "&amp;")));
        let last = part(&root, b"/", &next[1..], false);
        assert_eq!((links(&last), last.next), (vec!["01999".to_owned()], None));
        assert!(last.text.contains("1 of 2001 entries, 2000 before them."));
        fs::remove_dir(tree.at(b"zzz")).unwrap();
    }
}

#[test]
fn entries_are_sorted_as_the_query_says() {
    let tree = Tree::with(&["B/x", "z/x"]);
    for (name, size, seconds) in [("a", 30, 5), ("C", 10, 9), ("b", 20, 1)] {
        tree.write(name.as_bytes(), &vec![b'x'; size]);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::open(tree.at(name.as_bytes())).unwrap().set_modified(time).unwrap();
    }
    let sorted = |query: &str, expected: &[&str]| {
        for root in tree.roots(&listed()) {
            let links = links(&part(&root, b"/", query, false));
            assert_eq!(links[..expected.len()], *expected, "{query}");
        }
    };
    sorted("", &["B/", "z/", "C", "a", "b"]);
    sorted("sort=namedirfirst&order=desc", &["b", "a", "C", "z/", "B/"]);
    sorted("sort=name", &["B/", "C", "a", "b", "z/"]);
    sorted("sort=size", &["B/", "z/", "C", "b", "a"]);
    sorted("order=desc&sort=size", &["a", "b", "C", "z/", "B/"]);
    sorted("sort=time", &["b", "a", "C"]);
    sorted("sort=name&limit=2&offset=3", &["b", "z/"]);
    sorted("sort=name&limit=18446744073709551615&offset=4", &["z/"]);
    for root in tree.roots(&listed()) {
        let beyond = part(&root, b"/", "offset=18446744073709551615", false);
        assert_eq!((links(&beyond).len(), beyond.next), (0, None));
        assert!(beyond.text.contains("Previous page"));
    }
}

#[test]
fn a_listing_in_json_is_like_that_of_caddy() {
    let tree = Tree::new();
    tree.write(b"a:\"b", b"123");
    tree.write(b"d/x", b"");
    tree.link("l", "a:\"b");
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500);
    for name in [&b"a:\"b"[..], b"d"] {
        fs::set_permissions(tree.at(name), fs::Permissions::from_mode(0o755)).unwrap();
        fs::File::open(tree.at(name)).unwrap().set_modified(time).unwrap();
    }
    let size = fs::metadata(tree.at(b"d")).unwrap().len();
    let (time, url) = ("1994-11-06T08:49:37.5Z", "./a:%22b");
    let expected = format!(
        "[{{\"name\":\"d/\",\"size\":{size},\"url\":\"./d/\",\"mod_time\":\"{time}\",\
         \"mode\":2147484141,\"is_dir\":true,\"is_symlink\":false}},\
         {{\"name\":\"a:\\\"b\",\"size\":3,\"url\":\"{url}\",\"mod_time\":\"{time}\",\
         \"mode\":493,\"is_dir\":false,\"is_symlink\":false}},\
         {{\"name\":\"l\",\"size\":3,\"url\":\"./l\",\"mod_time\":\"{time}\",\
         \"mode\":134218221,\"is_dir\":false,\"is_symlink\":true}}]\n"
    );
    for root in tree.roots(&listed()) {
        let page = part(&root, b"/", "", true);
        assert_eq!((page.text, page.media_type), (expected.clone(), "application/json"));
        let next = part(&root, b"/", "limit=1", true).next;
        assert_eq!(next.as_deref(), Some("?sort=namedirfirst&order=asc&limit=1&offset=1"));
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
        let why = root.list(&listing, &ListingQuery::default()).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
        tree.link("d", tree.outside());
        assert!(root.list(&listing, &ListingQuery::default()).is_err());
        fs::remove_file(tree.at(b"d")).unwrap();
        fs::rename(tree.at(b"e"), tree.at(b"d")).unwrap();
    }
}
