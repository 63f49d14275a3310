//! A directory served as a web site: responses are those of a web server, come from the cache at
//! the second request, and never show outdated files.

use std::fs::{self, File, OpenOptions};
use std::io::{IoSliceMut, Read};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{ReadWriteFlags, preadv2};
use tempfile::TempDir;
use testkit::client::{Reply, get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, larder};
use testkit::origin::Origin;

/// A directory and the program that serves it.
struct Site {
    root: TempDir,
    setup: Setup,
}

impl Site {
    /// Creates the files, given by path and content.
    fn new(files: &[(&str, &str)]) -> Site {
        let root = tempfile::tempdir().unwrap();
        let setup = Setup::forward().flag("static", &root.path().display().to_string());
        let site = Site { root, setup };
        files.iter().for_each(|(path, text)| site.write(path, text));
        site
    }

    /// Adds settings of `[files]`.
    fn with(mut self, keys: &str) -> Site {
        self.setup = self.setup.config(&format!("[files]\n{keys}\n"));
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn start(&self) -> Larder {
        self.setup.start()
    }
}

/// Requests a path of the site exactly as written.
fn ask(larder: &Larder, path: &str) -> Reply {
    larder.send(&get(path).header("Host", "www.test"))
}

/// Returns status and text of a response.
fn said(larder: &Larder, path: &str) -> (u16, String) {
    let reply = ask(larder, path);
    (reply.status, reply.text())
}

#[test]
fn the_second_request_is_answered_from_the_cache_as_if_from_the_file() {
    let site = Site::new(&[("page.html", "0123456789")]);
    let larder = site.start();
    let first = ask(&larder, "/page.html");
    let tag = first.header("etag").to_owned();
    assert_eq!((first.outcome().as_str(), first.text().as_str()), ("MISS", "0123456789"));
    let again = ask(&larder, "/page.html?session=1");
    assert_eq!((again.outcome().as_str(), again.header("etag")), ("HIT_RAM", &*tag));
    // As an origin server, it sends responses without an age and without `Via`.
    assert_eq!((again.header("age"), again.header("via")), ("", ""));
    // Clients' cache directives are ignored, since the file is checked in any case.
    let wish = get("/page.html").header("Host", "a").header("Cache-Control", "no-cache, no-store");
    assert_eq!(larder.send(&wish).outcome(), "HIT_RAM");
    let condition = get("/page.html").header("Host", "a").header("If-None-Match", &tag);
    assert_eq!(larder.send(&condition).status, 304);
    let failing = get("/page.html").header("Host", "a").header("If-Match", "\"other\"");
    assert_eq!(larder.send(&failing).status, 412);
    let part = larder.send(&get("/page.html").header("Host", "a").header("Range", "bytes=2-4"));
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    site.write("long", &"0123456789".repeat(1000));
    ask(&larder, "/long");
    let parts = larder.send(&get("/long").header("Host", "a").header("Range", "bytes=0-0,9990-"));
    assert!(parts.header("content-type").starts_with("multipart/byteranges"), "{:?}", parts.head);
    let head = larder.send(&request("HEAD", "/page.html").header("Host", "a"));
    assert_eq!((head.status, head.header("content-length")), (200, "10"));
}

#[test]
fn the_next_request_sees_every_change() {
    let site = Site::new(&[("d/page", "one"), ("d/other", "other"), ("e/page", "elsewhere")]);
    let larder = site.start();
    let page = site.path("d/page");
    let is = |text: &str, what: &str| {
        // The second response comes from the cache, and is the same.
        for _ in 0..2 {
            assert_eq!(said(&larder, "/d/page"), (200, text.to_owned()), "{what}");
        }
    };
    is("one", "at first");
    fs::write(&page, "two").unwrap();
    is("two", "written in place");
    OpenOptions::new().write(true).open(&page).unwrap().write_all_at(b"T", 0).unwrap();
    is("Two", "a byte overwritten");
    fs::write(site.path("d/new"), "three").unwrap();
    fs::rename(site.path("d/new"), &page).unwrap();
    is("three", "replaced");
    OpenOptions::new().write(true).open(&page).unwrap().set_len(2).unwrap();
    is("th", "truncated");
    // The same size and the same modification time.
    let before = fs::metadata(&page).unwrap().modified().unwrap();
    fs::write(&page, "TH").unwrap();
    File::open(&page).unwrap().set_modified(before).unwrap();
    is("TH", "changed behind its time stamp");
    fs::remove_file(&page).unwrap();
    assert_eq!(ask(&larder, "/d/page").status, 404);
    fs::create_dir(&page).unwrap();
    assert_eq!(ask(&larder, "/d/page").status, 301);
    fs::remove_dir(&page).unwrap();
    fs::hard_link(site.path("d/other"), &page).unwrap();
    is("other", "a link to another file");
    fs::remove_file(&page).unwrap();
    fs::write(&page, "four").unwrap();
    is("four", "made anew");
    // Its directory.
    fs::rename(site.path("d"), site.path("old")).unwrap();
    assert_eq!(ask(&larder, "/d/page").status, 404);
    assert_eq!(said(&larder, "/old/page"), (200, "four".to_owned()));
    fs::rename(site.path("e"), site.path("d")).unwrap();
    is("elsewhere", "another directory under its name");
}

/// Responses to clients that accept no coding do not hide the sibling from other clients.
#[test]
fn a_compressed_sibling_is_seen_by_all_who_accept_it_whoever_comes_first() {
    for order in [["", "gzip", "br"], ["gzip", "", "br"], ["br", "gzip", ""]] {
        let site = Site::new(&[("app.js", "plain")]);
        let larder = site.start();
        let all = |packed: &[&str]| {
            for (turn, accepted) in order.iter().flat_map(|one| [(0, one), (1, one)]) {
                let mut asked = get("/app.js").header("Host", "a");
                if !accepted.is_empty() {
                    asked = asked.header("Accept-Encoding", accepted);
                }
                let reply = larder.send(&asked);
                let is_packed = packed.contains(accepted);
                let text = if is_packed { *accepted } else { "plain" };
                assert_eq!(reply.text(), text, "{accepted} of {order:?}");
                let varies = reply.header("vary") == "accept-encoding";
                assert!(varies || packed.is_empty(), "{accepted} of {order:?}");
                let is_hit = reply.outcome() == "HIT_RAM";
                assert!(turn == 0 || is_hit, "{accepted} of {order:?}: {:?}", reply.head);
            }
        };
        all(&[]);
        site.write("app.js.gz", "gzip");
        all(&["gzip"]);
        site.write("app.js.br", "br");
        all(&["gzip", "br"]);
        fs::remove_file(site.path("app.js.gz")).unwrap();
        all(&["br"]);
        fs::remove_file(site.path("app.js.br")).unwrap();
        all(&[]);
    }
}

/// Decodes a body with this content coding.
fn unpacked(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "" => plain.extend_from_slice(bytes),
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap()),
        "zstd" => plain = zstd::stream::decode_all(bytes).unwrap(),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap()),
        other => panic!("{other}"),
    }
    plain
}

#[test]
fn files_are_compressed_once_for_each_version() {
    let text = |word: &str| format!("{word} and again ").repeat(3_000);
    let site = Site::new(&[("page.html", &text("one")), ("small.html", "short")])
        .with("compress = [\"br\", \"zstd\", \"gzip\"]\ncompress-max = \"1M\"");
    site.write("picture.png", &text("one"));
    site.write("large.html", &text("one").repeat(50));
    site.write("ready.html", &text("ready"));
    site.write("ready.html.gz", "packed");
    let larder = site.start();
    let ask = |path: &str, accepted: &str| {
        larder.send(&get(path).header("Host", "a").header("Accept-Encoding", accepted))
    };
    let mut tags = Vec::new();
    for (accepted, coding) in [
        ("gzip", "gzip"),
        ("gzip;q=0.5, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("deflate", ""),
        ("br;q=0", ""),
    ] {
        let first = ask("/page.html", accepted);
        assert_eq!((first.status, first.header("content-encoding")), (200, coding), "{accepted}");
        assert_eq!(first.header("vary"), "accept-encoding", "{accepted}");
        assert_eq!(unpacked(coding, &first.body), text("one").as_bytes(), "{accepted}");
        let again = ask("/page.html", accepted);
        assert_eq!((again.outcome().as_str(), &again.body), ("HIT_RAM", &first.body), "{accepted}");
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"'), "{tag}");
        let condition = get("/page.html").header("Host", "a").header("Accept-Encoding", accepted);
        assert_eq!(larder.send(&condition.header("If-None-Match", &tag)).status, 304);
        tags.push(tag);
    }
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
    // An equivalent spelling of the same preference gets the same response.
    assert_eq!(ask("/page.html", "x, BR, y;q=0.3, gzip").outcome(), "HIT_RAM");
    for path in ["/small.html", "/picture.png", "/large.html"] {
        assert_eq!(ask(path, "gzip, br").header("content-encoding"), "", "{path}");
    }
    let ready = ask("/ready.html", "gzip, br");
    assert_eq!((ready.header("content-encoding"), ready.text().as_str()), ("gzip", "packed"));
    assert_eq!(ask("/ready.html", "br").header("content-encoding"), "br");
    // When the file changes, so does every encoded form of it.
    site.write("page.html", &text("two"));
    for (accepted, coding) in [("gzip", "gzip"), ("zstd", "zstd"), ("br", "br"), ("x", "")] {
        for _ in 0..2 {
            let reply = ask("/page.html", accepted);
            assert_eq!(reply.header("content-encoding"), coding);
            assert_eq!(unpacked(coding, &reply.body), text("two").as_bytes(), "{coding}");
            assert!(!tags.contains(&reply.header("etag").to_owned()));
        }
    }
}

#[test]
fn heads_and_ranges_of_compressed_files_are_of_what_was_made() {
    let text = "again and again ".repeat(3_000);
    let site = Site::new(&[("a.css", &text), ("b.css", &text), ("c.css", &text)])
        .with("compress = [\"gzip\"]");
    let larder = site.start();
    let ask = |method: &str, path: &str, more: &[(&str, &str)]| {
        let mut asked = request(method, path).header("Host", "a").header("Accept-Encoding", "gzip");
        for (name, value) in more {
            asked = asked.header(name, value);
        }
        larder.send(&asked)
    };
    // A HEAD compresses nothing, and has the fields of a GET except for the length.
    let head = ask("HEAD", "/a.css", &[]);
    let whole = ask("GET", "/a.css", &[]);
    assert_eq!((head.status, head.header("content-encoding")), (200, "gzip"));
    assert_eq!(head.header("etag"), whole.header("etag"));
    assert!(["", whole.header("content-length")].contains(&head.header("content-length")));
    let head = ask("HEAD", "/a.css", &[]);
    assert_eq!(head.header("content-length"), whole.len.to_string());
    let part = ask("GET", "/a.css", &[("Range", "bytes=5-14"), ("If-Range", whole.header("etag"))]);
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[5..15]));
    // Nothing is stored yet: the range is one of the same bytes, or all of them are sent.
    let cold = ask("GET", "/b.css", &[("Range", "bytes=5-14")]);
    let whole = ask("GET", "/b.css", &[]);
    match cold.status {
        206 => assert_eq!(&cold.body[..], &whole.body[5..15]),
        status => assert_eq!((status, &cold.body), (200, &whole.body)),
    }
    assert_eq!(whole.outcome(), "HIT_RAM", "it was compressed once");
    assert_eq!(ask("GET", "/c.css", &[("If-Match", "\"x\"")]).status, 412);
}

#[test]
fn a_rule_says_how_long_clients_keep_files_and_the_cache_keeps_them_anyway() {
    let site = Site::new(&[("assets/app.js", "one"), ("index.html", "home")]).with(
        "\n[[rule]]\nname = \"assets\"\npaths = [\"/assets/*\"]\n\
         answer-set = [\"Cache-Control: public, max-age=31536000, immutable\"]\n\n\
         [[rule]]\nname = \"pages\"\nanswer-set = [\"Cache-Control: no-cache\"]",
    );
    let larder = site.start();
    let lifetime = "public, max-age=31536000, immutable";
    for (path, expected) in [("/assets/app.js", lifetime), ("/", "no-cache")] {
        for outcome in ["MISS", "HIT_RAM"] {
            let reply = ask(&larder, path);
            assert_eq!(reply.header("cache-control"), expected, "{path}");
            assert_eq!(reply.outcome(), outcome, "{path}");
        }
    }
    site.write("assets/app.js", "two");
    assert_eq!(said(&larder, "/assets/app.js"), (200, "two".to_owned()));
}

#[test]
fn an_explanation_says_whether_a_stored_file_is_current() {
    let site = Site::new(&[("page", "one")]);
    let running = site.start();
    let explained = || {
        let admin = running.admin().to_string();
        larder(&["explain", "--ask", "--admin", &admin, "http://www.test/page?x"]).1
    };
    let said = explained();
    assert!(said.contains("would    ask the origin\n"), "{said}");
    let judged = "answer   200 of the origin server: stored, used as long as the origin says it is";
    assert!(said.contains(judged), "{said}");
    ask(&running, "/page");
    let said = explained();
    assert!(said.contains("origin   the files in "), "{said}");
    assert!(said.contains(" s old, current\n"), "{said}");
    let would = "would    answer from the cache: the origin says it is current\n";
    assert!(said.contains(would), "{said}");
    site.write("page", "two");
    let said = explained();
    assert!(said.contains(" s old, not current\n"), "{said}");
    let would = "would    ask the origin: it says that the stored response is not current\n";
    assert!(said.contains(would), "{said}");
}

#[test]
fn what_was_changed_while_it_was_down_is_seen_at_the_first_request() {
    let site = Site::new(&[("same", "same"), ("changed", "old"), ("deleted", "old")]);
    let larder = site.start();
    for path in ["/same", "/changed", "/deleted"] {
        assert_eq!(ask(&larder, path).outcome(), "MISS");
    }
    larder.stop();
    site.write("changed", "new");
    fs::remove_file(site.path("deleted")).unwrap();
    let larder = site.start();
    assert_eq!(ask(&larder, "/same").outcome(), "HIT_DISK");
    assert_eq!(said(&larder, "/changed"), (200, "new".to_owned()));
    assert_eq!(ask(&larder, "/deleted").status, 404);
}

#[test]
fn a_root_that_is_a_link_may_be_set_anew() {
    let releases = tempfile::tempdir().unwrap();
    let current = releases.path().join("current");
    for release in ["one", "two"] {
        fs::create_dir(releases.path().join(release)).unwrap();
        fs::write(releases.path().join(release).join("page"), release).unwrap();
    }
    symlink(releases.path().join("one"), &current).unwrap();
    let setup = Setup::forward().flag("static", &current.display().to_string());
    let setup = setup.config("[files]\nlook-interval = \"50ms\"\n");
    let larder = setup.start();
    assert_eq!(said(&larder, "/page").1, "one");
    symlink(releases.path().join("two"), releases.path().join("next")).unwrap();
    fs::rename(releases.path().join("next"), &current).unwrap();
    assert!(eventually(|| said(&larder, "/page").1 == "two"), "{}", larder.said());
    fs::write(releases.path().join("two/page"), "three").unwrap();
    assert_eq!(said(&larder, "/page").1, "three");
}

#[test]
fn without_watches_a_change_is_seen_within_the_interval() {
    let site = Site::new(&[("page", "old")]).with("watches = 0\nlook-interval = \"100ms\"");
    let larder = site.start();
    assert_eq!((said(&larder, "/page").1, said(&larder, "/page").1), ("old".into(), "old".into()));
    site.write("page", "new");
    assert!(eventually(|| said(&larder, "/page").1 == "new"));
}

#[test]
fn a_large_file_that_changes_on_its_way_is_cut() {
    let site = Site::new(&[]);
    let size = 64 << 20;
    let file = File::create(site.path("large")).unwrap();
    file.set_len(size).unwrap();
    thread::sleep(Duration::from_millis(50));
    let larder = site.start();
    let mut client = larder.connect();
    client.send(get("/large").header("Host", "a").bytes());
    let head = client.read_head().unwrap();
    // More than the sockets hold is still to come.
    file.write_all_at(b"changed", size - 10).unwrap();
    let reply = client.rest(head, "GET");
    assert!(!reply.whole, "{} bytes of two versions", reply.len);
    let again = ask(&larder, "/large");
    assert_eq!((again.whole, again.len), (true, size));
    assert!(again.body.ends_with(b"changed\0\0\0"));
}

#[test]
fn several_roots_by_host_and_settings_of_their_own() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(a.path().join("index.html"), "of a").unwrap();
    fs::write(b.path().join("start.html"), "of b").unwrap();
    let setup = Setup::forward().config(&format!(
        "[[site]]\nhosts = [\"a.test\"]\nroot = {:?}\n\n\
         [[site]]\nhosts = [\"b.test\"]\nroot = {:?}\n\
         index = [\"start.html\"]\ntry-files = [\"$uri\", \"/start.html\"]\n",
        a.path(),
        b.path()
    ));
    let larder = setup.start();
    let ask = |host: &str, path: &str| larder.send(&get(path).header("Host", host));
    assert_eq!(ask("a.test", "/").text(), "of a");
    assert_eq!(ask("a.test", "/deep/link").status, 404);
    let single = ask("b.test", "/deep/link");
    assert_eq!((single.status, single.text().as_str()), (200, "of b"));
    assert_eq!(ask("b.test", "/other/link").text(), "of b");
}

#[test]
fn sites_of_one_host_by_path() {
    let (whole, stripped, origin) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Origin::start());
    fs::create_dir_all(whole.path().join("static/d")).unwrap();
    fs::write(whole.path().join("static/a.txt"), "whole").unwrap();
    fs::create_dir_all(stripped.path().join("d")).unwrap();
    fs::write(stripped.path().join("a.txt"), "stripped").unwrap();
    fs::write(stripped.path().join("index.html"), "index").unwrap();
    fs::write(stripped.path().join(".secret"), "secret").unwrap();
    let setup = Setup::forward().config(&format!(
        "[[site]]\nhosts = [\"a.test\"]\nupstream = [{:?}]\n\n\
         [[site]]\nname = \"whole\"\nhosts = [\"a.test\", \"b.test\"]\n\
         paths = [\"/static/\"]\nroot = {:?}\n\n\
         [[site]]\nname = \"stripped\"\nhosts = [\"a.test\"]\n\
         paths = [\"/static/media/\", \"/m\"]\nstrip-prefix = true\nroot = {:?}\n",
        origin.url("").trim_end_matches('/'),
        whole.path(),
        stripped.path()
    ));
    let larder = setup.start();
    let ask = |host: &str, path: &str| larder.send(&get(path).header("Host", host));
    for (path, text) in [
        ("/static/a.txt", "whole"),
        ("//%73tatic//a.txt", "whole"),
        ("/static/media/a.txt", "stripped"),
        ("/static/%6dedia/a.txt", "stripped"),
        ("/m/a.txt", "stripped"),
        ("/m/", "index"),
    ] {
        let reply = ask("a.test", path);
        assert_eq!((reply.status, reply.text().as_str()), (200, text), "{path}");
        assert_eq!(ask("a.test", path).outcome(), "HIT_RAM", "{path}");
    }
    assert!(origin.requests_for("/static/a.txt").is_empty());
    for (path, to) in
        [("/m", "/m/"), ("/m/d?q", "/m/d/?q"), ("/static", "/static/"), ("/static/d", "/static/d/")]
    {
        let reply = ask("a.test", path);
        assert_eq!((reply.status, reply.header("location")), (301, to), "{path}");
    }
    // Paths of another site are not those of a root, and spellings do not change that.
    for path in ["/m/.secret", "/m/nothing", "/static/../m/.secret", "/m%2f.secret"] {
        assert!([400, 404].contains(&ask("a.test", path).status), "{path}");
    }
    for path in ["/static/../m/a.txt", "/m%2fa.txt"] {
        let reply = ask("a.test", path);
        let expected = ("HIT_RAM".to_owned(), "stripped".to_owned());
        assert_eq!((reply.outcome(), reply.text()), expected, "{path}");
    }
    for path in ["/page", "/statics", "/static/../page", "/m%2f..%2fpage", "/m/%2e%2e%2fa.txt"] {
        assert_eq!(ask("a.test", path).status, 200, "{path}");
        assert_eq!(origin.requests_for(path).len(), 1, "{path}: as it was sent");
    }
    assert_eq!(ask("b.test", "/static/a.txt").text(), "whole");
    assert_eq!((ask("b.test", "/page").status, ask("c.test", "/static/a.txt").status), (404, 421));
    // A purge finds the stored objects of each site, and a response can invalidate those of another
    // site.
    assert!(larder.purge("http://a.test/static/a.txt"));
    assert_eq!(ask("a.test", "/static/a.txt").outcome(), "MISS");
    assert_eq!(ask("a.test", "/static/a.txt").outcome(), "HIT_RAM");
    assert!(larder.purge("http://a.test/page") && larder.purge("http://a.test/m/a.txt"));
    let posted = request("POST", "/form?h=Location:/static/a.txt").header("Host", "a.test");
    assert_eq!(larder.send(&posted.body(b"x")).status, 200);
    assert_eq!(ask("a.test", "/static/a.txt").outcome(), "MISS");
}

#[test]
fn a_site_of_files_by_path_alone_is_for_every_host() {
    let (shared, own, origin) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Origin::start());
    fs::write(shared.path().join("a.txt"), "shared").unwrap();
    fs::create_dir(shared.path().join("d")).unwrap();
    fs::write(own.path().join("a.txt"), "own").unwrap();
    let text = |reload: &str| {
        format!(
            "{reload}\n[[site]]\nhosts = [\"a.test\"]\nupstream = [{:?}]\n\n\
             [[site]]\npaths = [\"/static/\"]\nroot = {:?}\nstrip-prefix = true\nlisting = true\n\n\
             [[site]]\nname = \"own\"\nhosts = [\"b.test\"]\npaths = [\"/static/\"]\n\
             root = {:?}\nstrip-prefix = true\n",
            origin.url("").trim_end_matches('/'),
            shared.path(),
            own.path()
        )
    };
    let setup = Setup::forward().config(&text(""));
    let larder = setup.start();
    let ask = |host: &str, path: &str| larder.send(&get(path).header("Host", host));
    assert_eq!(ask("a.test", "/static/a.txt").text(), "shared");
    // The same file for all hosts, stored once.
    let again = ask("never.heard.of.test", "/static/a.txt");
    assert_eq!((again.text().as_str(), again.outcome().as_str()), ("shared", "HIT_RAM"));
    assert_eq!(ask("b.test", "/static/a.txt").text(), "own");
    assert_eq!(ask("a.test", "/page").status, 200);
    assert_eq!(origin.requests_for("/page").len(), 1);
    assert_eq!(ask("c.test", "/page").status, 404);
    assert!(larder.purge("http://c.test/static/a.txt"));
    assert_eq!(ask("a.test", "/static/a.txt").outcome(), "MISS");
    // The root of the site is the top level: paths above it belong to another site.
    assert!(!ask("a.test", "/static/").text().contains("../"));
    assert!(ask("a.test", "/static/d/").text().contains("../"));
    let metrics = larder.metrics();
    assert!(metrics.contains("larder_files_watches{site=\"/static\"}"), "{metrics}");
}

/// Open roots stay open, and need no new check.
#[test]
fn a_reload_keeps_the_roots_that_did_not_change() {
    let site = Site::new(&[("page", "one"), ("d/index.html", "two"), ("d/start.html", "three")]);
    let text = |more: &str| format!("[files]\nlisting = true\n{more}\n");
    let setup = site.setup.config(&text(""));
    let larder = setup.start();
    let inotify = || {
        let directory = format!("/proc/{}/fd", larder.pid().as_raw_nonzero());
        let mut links: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let is_it =
                    fs::read_link(entry.path()).is_ok_and(|to| to.ends_with("anon_inode:inotify"));
                is_it.then(|| entry.file_name())
            })
            .collect();
        links.sort();
        links
    };
    let ask = |path: &str| larder.send(&get(path).header("Host", "www.test"));
    assert_eq!((ask("/page").text(), ask("/d/").text()), ("one".into(), "two".into()));
    ask("/page");
    let watches = || {
        let (text, begin) = (larder.metrics(), "larder_files_watches{site=\"default\"} ");
        let value = text.lines().find_map(|line| line.strip_prefix(begin).map(str::to_owned));
        value.unwrap().parse::<u64>().unwrap()
    };
    let (before, watched) = (inotify(), watches());
    assert!(before.len() == 1 && watched > 0, "{before:?}, {watched}");
    let reload = || larder.admin_send(request("POST", "/reload").body(b"")).status;
    assert_eq!(reload(), 200);
    assert_eq!((inotify(), watches()), (before, watched));
    fs::write(site.root.path().join("page"), "changed").unwrap();
    assert_eq!(ask("/page").text(), "changed");
    // A changed choice opens the root anew, and closes the old one.
    fs::write(setup.path("larder.toml"), text("index = [\"start.html\"]")).unwrap();
    assert_eq!(reload(), 200);
    assert_eq!(ask("/d/").text(), "three");
    assert!(eventually(|| inotify().len() == 1));
    // A missing root does not prevent the other changes of a reload.
    fs::rename(site.root.path(), setup.path("elsewhere")).unwrap();
    assert_eq!(reload(), 200);
    assert_eq!(ask("/page").text(), "changed");
    fs::rename(setup.path("elsewhere"), site.root.path()).unwrap();
}

#[test]
fn a_root_that_cannot_be_served_is_refused() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    let refused = |root: &Path| {
        let setup = Setup::forward().flag("static", &root.display().to_string());
        let (status, said) = setup.refused();
        assert!(!status.success(), "{said}");
        said
    };
    assert!(refused(&place.path().join("none")).contains("does not exist"));
    assert!(refused(&place.path().join("file")).contains("is not a directory"));
    let inside = Setup::forward().flag("static", &place.path().display().to_string());
    let (_, said) = inside.cache_at(&place.path().join("larder.cache")).refused();
    assert!(said.contains("lies in the root"), "{said}");
    let both = Setup::reverse("http://127.0.0.1:9").flag("static", "/");
    assert!(both.refused().1.contains("expected one of reverse and static"));
}

#[test]
fn operators_see_what_is_watched() {
    let site = Site::new(&[("page", "one"), ("d/page", "two")]);
    let larder = site.start();
    for path in ["/page", "/page", "/d/page", "/d/page"] {
        assert_eq!(ask(&larder, path).status, 200);
    }
    let sample = |name: &str| {
        let (text, begin) = (larder.metrics(), format!("larder_files_{name}{{site=\"default\"}} "));
        let value = text.lines().find_map(|line| line.strip_prefix(&begin).map(str::to_owned));
        value.unwrap_or_else(|| panic!("no {begin}")).parse::<u64>().unwrap()
    };
    // The root and a directory in it.
    assert_eq!(sample("watches"), 2);
    assert_eq!((sample("watch_overflows_total"), sample("watch_refusals_total")), (0, 0));
    assert_eq!(sample("known_bytes"), 16 << 20);
    let before = sample("events_total");
    site.write("d/page", "three");
    assert_eq!(said(&larder, "/d/page").1, "three");
    assert!(sample("events_total") > before);
    let view = larder.admin_send(get("/upstreams")).text();
    let origin = format!("the files in {}", site.root.path().display());
    assert!(view.contains(&origin) && view.contains("\"larder_files_watches\":2"), "{view}");
}

#[test]
fn a_site_of_files_is_not_warned_of_for_cookies() {
    let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let remarks = |more: &str| {
        let file = place.path().join("larder.toml");
        let stores = "[caching]\nstore-set-cookie = true\n";
        let site = format!("[[site]]\nhosts = [\"a\"]\nroot = {:?}\n{more}", root.path());
        fs::write(&file, format!("{stores}{site}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let checked = command.arg("check-config").arg(&file).current_dir(place.path()).output();
        String::from_utf8_lossy(&checked.unwrap().stderr).into_owned()
    };
    assert!(!remarks("").contains("Set-Cookie"));
    let other = "[[site]]\nhosts = [\"b\"]\nupstream = \"http://127.0.0.1:9\"\n";
    assert!(remarks(other).contains("site b: a response with Set-Cookie"));
}

/// Returns how many of 64 places of a file are in the kernel's page cache.
fn places_in_memory(path: &Path) -> usize {
    let file = File::open(path).unwrap();
    let step = file.metadata().unwrap().len() / 64;
    let is_there = |place: &u64| {
        let mut byte = [0];
        let mut buffers = [IoSliceMut::new(&mut byte)];
        preadv2(&file, &mut buffers, place * step, ReadWriteFlags::NOWAIT).is_ok()
    };
    (0..64).filter(is_there).count()
}

#[test]
fn what_was_read_for_the_cache_is_not_kept_twice() {
    const TMPFS: i64 = 0x0102_1994;
    let small = "0123456789abcdef".repeat(10_000);
    let site = Site::new(&[("small", &small), ("large", &small.repeat(100))]);
    for name in ["small", "large"] {
        File::open(site.path(name)).unwrap().sync_all().unwrap();
    }
    if rustix::fs::statfs(site.path("small")).unwrap().f_type == TMPFS {
        eprintln!("SKIPPED: what the kernel keeps: the tests' directory is in memory");
        return;
    }
    let larder = site.start();
    for name in ["small", "large"] {
        assert_eq!(ask(&larder, &format!("/{name}")).status, 200);
        // They are dropped when everything has been read, which may be after the client has the
        // end.
        let places = || places_in_memory(&site.path(name));
        assert!(eventually(|| places() < 8), "{} of 64 places of {name} are kept", places());
    }
    let part = larder.send(&get("/large").header("Host", "b").header("Range", "bytes=9-99999"));
    assert_eq!(part.len, 99_991);
}

#[test]
fn a_directory_with_many_files_is_listed_for_many_at_a_time() {
    let site = Site::new(&[("index.html", "home")]).with("listing = true");
    fs::create_dir(site.path("many")).unwrap();
    for number in 0..3_000 {
        File::create(site.path(&format!("many/{number:05}"))).unwrap();
    }
    let larder = site.start();
    let threads = |larder: &Larder| {
        fs::read_dir(format!("/proc/{}/task", larder.pid().as_raw_nonzero())).unwrap().count()
    };
    let before = threads(&larder);
    thread::scope(|scope| {
        let ask_many = || {
            let page = ask(&larder, "/many/");
            assert_eq!((page.status, page.whole), (200, true));
            assert!(page.text().contains("2000 of 3000 entries"));
        };
        let asking: Vec<_> = (0..40).map(|_| scope.spawn(ask_many)).collect();
        let mut most = 0;
        while asking.iter().any(|thread| !thread.is_finished()) {
            most = most.max(threads(&larder));
            assert_eq!(said(&larder, "/"), (200, "home".to_owned()));
        }
        assert!(most <= before + 8, "{before} threads became {most}");
    });
}

#[test]
fn without_an_inotify_instance_files_are_looked_at_until_there_is_one() {
    if !Command::new("unshare").args(["-r", "true"]).status().is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: no inotify instance: user namespaces are not permitted here");
        return;
    }
    let site = Site::new(&[("page", "old")]).with("look-interval = \"100ms\"");
    let (script, go) = (site.setup.path("without"), site.setup.path("go"));
    let limit = "/proc/sys/user/max_inotify_instances";
    let text = format!(
        "#!/bin/sh\nexec unshare -r sh -c 'echo 0 > {limit}; \
         (for n in $(seq 600); do [ -e {go} ] && break; sleep 0.05; done; echo 9 > {limit}) & \
         exec \"$@\"' sh {program} \"$@\"\n",
        go = go.display(),
        program = env!("CARGO_BIN_EXE_larder"),
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let Site { root, setup } = site;
    let site = Site { root, setup: setup.program(&script) };
    let larder = site.start();
    assert!(larder.says("the kernel cannot report file changes"), "{}", larder.said());
    assert_eq!(said(&larder, "/page").1, "old");
    site.write("page", "new");
    assert!(eventually(|| said(&larder, "/page").1 == "new"));
    fs::write(go, "").unwrap();
    assert!(larder.says("the kernel now reports file changes"), "{}", larder.said());
    for n in 0..3 {
        site.write("page", &n.to_string());
        assert_eq!(said(&larder, "/page").1, n.to_string());
    }
}

/// Directories are moved back and forth during requests: every response is the file or 404. When
/// they have come to rest elsewhere, nothing is served from their old path.
#[test]
fn directories_that_are_moved_all_the_time_leave_nothing_behind() {
    let site = Site::new(&[("a/b/page", "page")]);
    let larder = site.start();
    let (a, away) = (site.path("a"), site.path("away"));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    let (status, text) = said(&larder, "/a/b/page");
                    assert!(status == 404 || (status, text.as_str()) == (200, "page"), "{status}");
                }
            });
        }
        for _ in 0..300 {
            fs::rename(&a, &away).unwrap();
            fs::rename(&away, &a).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(said(&larder, "/a/b/page").1, "page");
    fs::rename(&a, &away).unwrap();
    assert_eq!(ask(&larder, "/a/b/page").status, 404);
    assert_eq!(said(&larder, "/away/b/page").1, "page");
}

/// Returns the bytes of a version: its number, repeated.
fn version(number: u64, length: usize) -> Vec<u8> {
    number.to_string().into_bytes().iter().chain(b"\n").copied().cycle().take(length).collect()
}

/// Writers change files in every way during requests: a response consists of one version, and never
/// of one that was gone before the request.
#[test]
fn an_answer_is_of_one_version_and_never_of_an_earlier_one() {
    let site = Site::new(&[]);
    let larder = site.start();
    // In place, where only writes of a few bytes can be observed reliably; and replaced, of any
    // size.
    let files = [("in-place", 16), ("small", 3_000), ("medium", 100_000), ("large", 700_000)];
    let done: Vec<AtomicU64> = files.iter().map(|_| AtomicU64::new(0)).collect();
    let write = |at: usize, number: u64| {
        let (name, length) = files[at];
        let bytes = version(10_000_000 + number, length);
        if name == "in-place" {
            let mut file = OpenOptions::new();
            let file = file.create(true).truncate(false).write(true).open(site.path(name)).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
        } else {
            let new = site.path(&format!("{name}.new"));
            fs::write(&new, bytes).unwrap();
            fs::rename(new, site.path(name)).unwrap();
        }
        done[at].store(number, Ordering::SeqCst);
    };
    (0..files.len()).for_each(|at| write(at, 0));
    let ended = AtomicBool::new(false);
    let hits = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..4 {
            let (larder, done, ended, hits) = (&larder, &done, &ended, &hits);
            scope.spawn(move || {
                let mut turn = client;
                while !ended.load(Ordering::SeqCst) {
                    turn += 1;
                    let at = turn % files.len();
                    let (name, length) = files[at];
                    let least = done[at].load(Ordering::SeqCst);
                    let reply = ask(larder, &format!("/{name}"));
                    if reply.status == 503 || !reply.whole {
                        // It changed repeatedly while it was read.
                        continue;
                    }
                    let line = reply.body.split(|byte| *byte == b'\n').next().unwrap();
                    let number: u64 = std::str::from_utf8(line).unwrap().parse().unwrap();
                    let number = number - 10_000_000;
                    let wanted = version(10_000_000 + number, length);
                    assert!(reply.body == wanted, "{name}: bytes of more than version {number}");
                    assert!(number >= least, "{name}: {number} after {least}: {:?}", reply.head);
                    hits.fetch_add(u64::from(reply.outcome().starts_with("HIT")), Ordering::SeqCst);
                }
            });
        }
        scope.spawn(|| {
            let end = Instant::now() + Duration::from_secs(2);
            for number in 1.. {
                write(number as usize % files.len(), number);
                // Occasionally there is time for hits.
                let pause = if number.is_multiple_of(20) { 50 } else { number % 3 };
                thread::sleep(Duration::from_millis(pause));
                if Instant::now() > end {
                    break;
                }
            }
            ended.store(true, Ordering::SeqCst);
        });
    });
    assert!(hits.load(Ordering::SeqCst) > 0, "nothing came from the cache");
}
