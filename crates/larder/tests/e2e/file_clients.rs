//! A directory served to ordinary programs: apt, npm, zsync, rsync mirrors, pip and download
//! managers.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use testkit::client::{Reply, get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};

/// Starts the program over a directory with these files, with these keys of `[files]`.
fn serve(files: &[(&str, &str)], keys: &str) -> (TempDir, Larder) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let setup = Setup::forward().flag("static", &root.path().display().to_string());
    let larder = setup.config(&format!("[files]\n{keys}\n")).start();
    (root, larder)
}

fn ask(larder: &Larder, path: &str, fields: &[(&str, &str)]) -> Reply {
    let asked = get(path).header("Host", "www.test");
    larder.send(&fields.iter().fold(asked, |asked, (name, value)| asked.header(name, value)))
}

#[test]
fn every_spelling_of_a_path_is_one_object_and_none_leads_out() {
    let (root, larder) = serve(&[("d/a.txt", "text"), ("@s/n/index.html", "npm")], "");
    fs::write(root.path().join("ü"), "umlaut").unwrap();
    assert_eq!(ask(&larder, "/d/a.txt", &[]).outcome(), "MISS");
    for path in [
        "/./d/a.txt",
        "/x/../d/a.txt",
        "/d%2fa.txt",
        "/d/%2E%2E/d/%2e/a%2Etxt",
        "//d/..%2fd//a.txt?query",
    ] {
        let reply = ask(&larder, path, &[]);
        assert_eq!(
            (reply.outcome().as_str(), reply.text().as_str()),
            ("HIT_RAM", "text"),
            "{path}"
        );
    }
    for host in ["www.test:1", "other.test:65535", "[::1]:99"] {
        let reply = larder.send(&get("/d/a.txt").header("Host", host));
        assert_eq!(reply.outcome(), "HIT_RAM", "{host}");
    }
    // A purge by any spelling reaches it.
    assert!(larder.purge("http://www.test/y/../d/a%2etxt"));
    assert_eq!(ask(&larder, "/d/a.txt", &[]).outcome(), "MISS");
    let moved = ask(&larder, "/@s%2fn?x", &[]);
    assert_eq!((moved.status, moved.header("location")), (301, "/@s/n/?x"));
    assert_eq!(ask(&larder, "/ü", &[]).text(), "umlaut");
    assert_eq!(ask(&larder, "/%C3%BC", &[]).outcome(), "HIT_RAM");
    // Spellings that name nothing are refused, and whatever is decoded is decoded once.
    for (path, status) in [("/d/..%2f..%2fetc/passwd", 400), ("/%252e%252e/etc/passwd", 404)] {
        assert_eq!(ask(&larder, path, &[]).status, status, "{path}");
    }
}

#[test]
fn a_rule_for_a_path_holds_for_every_spelling_of_it() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("private")).unwrap();
    fs::write(root.path().join("private/a"), "text").unwrap();
    let setup = Setup::forward().flag("static", &root.path().display().to_string());
    let rule = "[[rule]]\npaths = [\"/private/*\"]\nanswer-set = [\"X-Robots-Tag: none\"]\n";
    let larder = setup.config(rule).start();
    for path in ["/private/a", "/x/../private/a", "/private%2fa", "//%70rivate/./a"] {
        let reply = ask(&larder, path, &[]);
        assert_eq!((reply.status, reply.header("x-robots-tag")), (200, "none"), "{path}");
    }
}

#[test]
fn downloads_go_on_by_ranges_from_the_file_and_from_the_cache() {
    let text = "0123456789".repeat(100);
    let (root, larder) = serve(&[("old", &text), ("parts", &text)], "");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for name in ["old", "parts"] {
        let file = OpenOptions::new().append(true).open(root.path().join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    for _ in 0..2 {
        let fields = [("Range", "bytes=990-"), ("If-Range", "Tue, 14 Nov 2023 22:13:20 GMT")];
        let reply = ask(&larder, "/old", &fields);
        assert_eq!((reply.status, reply.text().as_str()), (206, "0123456789"));
        let fields = [fields[0], ("If-Range", "Tue, 14 Nov 2023 22:13:21 GMT")];
        assert_eq!(ask(&larder, "/old", &fields).status, 200);
    }
    // At first nothing of it is stored, then all of it is.
    let several = [("Range", "bytes=0-1,500-501,-1")];
    let first = ask(&larder, "/parts", &several);
    assert_eq!(ask(&larder, "/parts", &[]).outcome(), "MISS");
    let second = ask(&larder, "/parts", &several);
    assert_eq!(second.outcome(), "HIT_RAM");
    for reply in [first, second] {
        let kind = reply.header("content-type").to_owned();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |range: &str, bytes: &str| {
            let kind = "application/octet-stream";
            format!(
                "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {range}/1000\r\n\
                 \r\n{bytes}"
            )
        };
        let parts = [part("0-1", "01"), part("500-501", "01"), part("999-999", "9")].concat();
        let expected = format!("{parts}\r\n--{boundary}--\r\n");
        assert_eq!((reply.status, reply.text()), (206, expected));
        assert_eq!(reply.header("larder-version"), "");
    }
}

#[test]
fn a_tag_belongs_to_size_and_time_and_what_is_sent_to_the_file() {
    let (root, larder) = serve(&[("a", "first"), ("node/a", "first")], "");
    let (path, copy) = (root.path().join("a"), root.path().join("node/a"));
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let date = |path| File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    date(&path);
    date(&copy);
    let tag = |path: &str| ask(&larder, path, &[]).header("etag").to_owned();
    let first = tag("/a");
    assert_eq!(tag("/node/a"), first, "a copy by rsync, or on another node");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(tag("/a"), first);
    fs::hard_link(&path, root.path().join("b")).unwrap();
    assert_eq!((tag("/a"), tag("/b")), (first.clone(), first.clone()));
    // A file with the same size and time as the previous one is still recognised as a different
    // one.
    fs::write(root.path().join("next"), "other").unwrap();
    date(&root.path().join("next"));
    fs::rename(root.path().join("next"), &path).unwrap();
    assert_eq!(ask(&larder, "/a", &[]).text(), "other");
    assert_eq!(ask(&larder, "/a", &[]).outcome(), "HIT_RAM");
    let asked = [("Larder-Version", "x"), ("If-None-Match", &*first)];
    assert_eq!(ask(&larder, "/a", &asked).status, 304);
}

#[test]
fn a_write_by_a_later_hard_link_elsewhere_is_seen() {
    let (root, larder) = serve(&[("a", "first")], "recheck-interval = \"200ms\"");
    assert_eq!(ask(&larder, "/a", &[]).text(), "first");
    assert_eq!(ask(&larder, "/a", &[]).text(), "first");
    let elsewhere = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
    let link = elsewhere.path().join("link");
    fs::hard_link(root.path().join("a"), &link).unwrap();
    fs::write(&link, "second").unwrap();
    assert!(eventually(|| ask(&larder, "/a", &[]).text() == "second"));
}

#[test]
fn a_download_of_a_large_file_survives_what_leaves_its_bytes() {
    let (root, larder) = serve(&[], "");
    let (path, size) = (root.path().join("large"), 64 << 20);
    File::create(&path).unwrap().set_len(size).unwrap();
    let mut client = larder.connect();
    client.send(get("/large").header("Host", "a").bytes());
    let head = client.read_head().unwrap();
    // More than the sockets hold is still to come.
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&path, root.path().join("link")).unwrap();
    fs::rename(&path, root.path().join("moved")).unwrap();
    let mut log = OpenOptions::new().append(true).open(root.path().join("moved")).unwrap();
    log.write_all(b"more").unwrap();
    let reply = client.rest(head, "GET");
    assert_eq!((reply.whole, reply.len), (true, size));
    assert_eq!(ask(&larder, "/moved", &[]).len, size + 4);
}

/// Bytes of a file that exceeds a quarter of the cache of [`serve`], so that it is not stored.
const LARGE: usize = (40 << 20) + 17;

/// Starts the program over a directory with such a file; also returns its bytes.
fn serve_large() -> (TempDir, Larder, Vec<u8>) {
    let (root, larder) = serve(&[], "");
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect();
    fs::write(root.path().join("large"), &bytes).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = OpenOptions::new().append(true).open(root.path().join("large")).unwrap();
    file.set_modified(old).unwrap();
    (root, larder, bytes)
}

#[test]
fn a_large_file_is_sent_to_each_client_whole_and_by_ranges() {
    let (_root, larder, bytes) = serve_large();
    let download = || {
        let mut client = larder.connect();
        for range in [None, Some((3_000_000, LARGE - 1)), Some((5, 5_000_000)), None] {
            let asked = get("/large").header("Host", "a");
            let (asked, part) = match range {
                None => (asked, &bytes[..]),
                Some((first, last)) => {
                    let range = format!("bytes={first}-{last}");
                    (asked.header("Range", &range), &bytes[first..=last])
                }
            };
            let reply = asked.send_on(&mut client).unwrap();
            assert_eq!(reply.status, if range.is_some() { 206 } else { 200 });
            assert_eq!((reply.whole, reply.outcome().as_str()), (true, "MISS"));
            assert!(reply.body == part, "{range:?}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(download);
        }
    });
    let size = LARGE as u64;
    let sent = 3 * (2 * size + (size - 3_000_000) + (5_000_000 - 5 + 1));
    let metrics = larder.metrics();
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("larder_client_sent_bytes_total "));
    assert!(counted.unwrap().parse::<u64>().unwrap() > sent);
}

#[test]
fn a_large_file_that_is_emptied_is_cut() {
    let (root, larder, bytes) = serve_large();
    let mut client = larder.connect();
    client.send(get("/large").header("Host", "a").bytes());
    let head = client.read_head().unwrap();
    fs::write(root.path().join("large"), "").unwrap();
    let reply = client.rest(head, "GET");
    assert!(!reply.whole && bytes.starts_with(&reply.body), "{} bytes", reply.len);
}

#[test]
fn a_client_that_leaves_a_large_file_frees_it() {
    let (root, larder, _) = serve_large();
    let path = fs::canonicalize(root.path().join("large")).unwrap();
    let is_open = || {
        let files = fs::read_dir(format!("/proc/{}/fd", larder.pid().as_raw_nonzero())).unwrap();
        let names = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        names.into_iter().any(|name| name == path)
    };
    let mut client = larder.connect();
    client.send(get("/large").header("Host", "a").bytes());
    client.read_head().unwrap();
    assert!(eventually(is_open));
    drop(client);
    assert!(eventually(|| !is_open()));
    assert_eq!(ask(&larder, "/large", &[]).len, LARGE as u64);
}

#[test]
fn every_status_that_may_have_a_page_gets_it() {
    let statuses = [400, 403, 404, 405, 412, 416];
    let pages = statuses.map(|status| format!("\"{status}=/page.html\"")).join(", ");
    let files = [("page.html", "page"), ("a", "text"), ("d/x", "")];
    let (_root, larder) = serve(&files, &format!("error-pages = [{pages}]"));
    let failing = [("If-Match", "\"none\"")];
    let behind = [("Range", "bytes=9-")];
    for (reply, status) in [
        (ask(&larder, "/..", &[]), 400),
        (ask(&larder, "/d/", &[]), 403),
        (ask(&larder, "/none", &[]), 404),
        (larder.send(&request("POST", "/a").header("Host", "a").body(b"x")), 405),
        (ask(&larder, "/a", &failing), 412),
        (ask(&larder, "/a", &behind), 416),
    ] {
        assert_eq!((reply.status, reply.text().as_str()), (status, "page"));
        assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
        let explained = [(405, "allow"), (416, "content-range")];
        let field = explained.into_iter().find(|(known, _)| *known == status);
        assert!(field.is_none_or(|(_, name)| !reply.header(name).is_empty()), "{:?}", reply.head);
    }
    let refused = Setup::forward().config("static = \"/tmp\"\n[files]\nerror-pages = [\"401=/x\"]");
    let (_, said) = refused.refused();
    assert!(said.contains("error-pages") && said.contains("401"), "{said}");
}

#[test]
fn a_listing_is_json_for_clients_that_want_it() {
    let (_root, larder) =
        serve(&[("d/x", "text")], "listing = true\ndefault-type = \"text/plain\"");
    assert_eq!(ask(&larder, "/d/", &[]).header("vary"), "accept");
    let json = ask(&larder, "/d/", &[("Accept", "application/json")]);
    assert_eq!(
        (json.outcome().as_str(), json.header("content-type")),
        ("MISS", "application/json")
    );
    assert_eq!(ask(&larder, "/d/x", &[]).header("content-type"), "text/plain");
}
