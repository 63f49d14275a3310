//! Tests which file answers a path: names, directories, patterns, siblings, and special files.

use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, makedev, mknodat};

use super::*;
use crate::options::Symlinks;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn names_of_every_kind_are_found() {
    let long = "n".repeat(255);
    let too_long = format!("/{}", "n".repeat(256));
    let tree =
        Tree::with(&["a.txt", "a b", "a+b", "100%", "%41", "d/e/f", "back\\slash", "ü", &long]);
    tree.write(b"\xff\xfe", b"bytes");
    let deep = format!("/{}x", "d/".repeat(300));
    let cases = [
        ("/a.txt", "a.txt"),
        ("//a.txt", "a.txt"),
        ("/%61.txt", "a.txt"),
        ("/A.txt", "404"),
        ("/a.txt/", "404"),
        ("/a.txt/x", "404"),
        ("/a%20b", "a b"),
        ("/a+b", "a+b"),
        ("/a%2Bb", "a+b"),
        ("/100%25", "100%"),
        ("/100%", "400"),
        ("/%2541", "%41"),
        ("/d/e/f", "d/e/f"),
        ("/d//e///f", "d/e/f"),
        ("/d%2Fe%2Ff", "d/e/f"),
        ("/d%252Fe", "404"),
        ("/./d/x/../e/./f", "d/e/f"),
        ("/back\\slash", "back\\\\slash"),
        ("/back%5Cslash", "back\\\\slash"),
        ("/%C3%BC", "\\xc3\\xbc"),
        ("/%FF%fe", "bytes"),
        ("/none", "404"),
        ("/none/none", "404"),
        ("/a.txt%00", "400"),
        ("/d/../a.txt", "a.txt"),
        ("/%2e%2e/outside/secret", "400"),
        ("/..%2foutside%2fsecret", "400"),
        ("/d/..%2f..%2foutside/secret", "400"),
        ("/%252e%252e/outside/secret", "404"),
        ("/..\\outside\\secret", "404"),
        ("/..%5coutside%5csecret", "404"),
        ("/d/e/f/..", "403"),
        ("/%2e", "403"),
        ("a.txt", "400"),
        ("/a.txt?x", "400"),
        (&too_long, "404"),
        (&deep, "404"),
    ];
    check(&tree.roots(&Options::default()), &cases);
    check(&tree.roots(&Options::default()), &[(&format!("/{long}"), &long)]);
}

#[test]
fn encoded_slashes_may_name_nothing() {
    let tree = Tree::with(&["d/e"]);
    let options = Options { encoded_slashes: false, ..Options::default() };
    let cases = [("/d%2Fe", "404"), ("/d/..%2fd/e", "404"), ("/d/../d/e", "d/e")];
    check(&tree.roots(&options), &cases);
}

#[test]
fn hidden_names_are_as_if_they_were_not_there() {
    let tree = Tree::with(&[".env", ".git/config", "a/.b/c", ".well-known/acme/x", "..."]);
    let hidden = [
        ("/.env", "404"),
        ("/%2eenv", "404"),
        ("/.git", "404"),
        ("/.git/", "404"),
        ("/.git/config", "404"),
        ("/a/.b/c", "404"),
        ("/a%2f.b%2fc", "404"),
        ("/a/x/../.b/./c", "404"),
        ("/...", "404"),
        ("/.well-known/acme/x", ".well-known/acme/x"),
        ("/.well-known", "-> /.well-known/"),
    ];
    check(&tree.roots(&Options::default()), &hidden);
    let shown = Options { hide_dotfiles: false, ..Options::default() };
    check(&tree.roots(&shown), &[("/.env", ".env"), ("/a/.b/c", "a/.b/c"), ("/...", "...")]);
}

#[test]
fn directories_redirect_and_have_index_files() {
    let files = ["index.html", "a/index.htm", "b/c", "d e/index.html", "f/index.html/x", "g/x"];
    let tree = Tree::with(&files);
    fs::create_dir(tree.at(b"evil.example")).unwrap();
    let index = ["index.html", "index.htm"].map(str::to_owned).to_vec();
    let options = Options { index, ..Options::default() };
    let cases = [
        ("/", "index.html"),
        ("//", "index.html"),
        ("/a", "-> /a/"),
        ("/a/", "a/index.htm"),
        ("//a//", "a/index.htm"),
        ("/d%20e", "-> /d%20e/"),
        ("/d%20e/", "d e/index.html"),
        ("/b", "-> /b/"),
        ("/b/", "403"),
        // A directory of this name is not an index file.
        ("/f/", "403"),
        ("//evil.example", "-> /evil.example/"),
        ("/%2fevil.example", "-> /evil.example/"),
        ("/%5cevil.example", "404"),
    ];
    check(&tree.roots(&options), &cases);
    let listed = Options { listing: true, index: Vec::new(), ..Options::default() };
    check(&tree.roots(&listed), &[("/", "(listing)"), ("/b/", "(listing)"), ("/g", "-> /g/")]);
}

#[test]
fn patterns_are_tried_in_their_order() {
    let files = ["about.html", "blog.html", "blog/index.html", "index.html", "assets/app.js"];
    let tree = Tree::with(&files);
    let clean = Options { clean_urls: true, ..Options::default() };
    let cases = [
        ("/about", "about.html"),
        ("/about/", "404"),
        ("/about.html", "about.html"),
        ("/blog", "blog.html"),
        ("/blog/", "blog/index.html"),
        ("/", "index.html"),
    ];
    check(&tree.roots(&clean), &cases);

    let try_files = patterns(&["$uri", "$uri/", "/index.html"]);
    let single_page = Options { try_files, ..Options::default() };
    let cases = [
        ("/", "index.html"),
        ("/assets/app.js", "assets/app.js"),
        ("/users/7", "index.html"),
        ("/users/7/", "index.html"),
        ("/assets/", "403"),
        ("/blog", "-> /blog/"),
        ("/.git", "404"),
        ("/../x", "400"),
    ];
    check(&tree.roots(&single_page), &cases);

    let try_files = patterns(&["$uri.html", "/blog/", "=410"]);
    let last = Options { try_files, ..Options::default() };
    check(&tree.roots(&last), &[("/about", "about.html"), ("/x", "blog/index.html")]);
    let try_files = patterns(&["$uri", "=410"]);
    check(&tree.roots(&Options { try_files, ..Options::default() }), &[("/x", "=410")]);
    let try_files = patterns(&["$uri", "/none", "=404"]);
    check(&tree.roots(&Options { try_files, ..Options::default() }), &[("/x", "404")]);
}

#[test]
fn error_pages_are_files_of_the_root() {
    let tree = Tree::with(&["errors/404.html", "errors/404.html.gz"]);
    let pages = [(404, "/errors/404.html"), (403, "/none.html")];
    let error_pages = pages.map(|(status, path)| (status, path.to_owned())).into();
    for root in tree.roots(&Options { error_pages, ..Options::default() }) {
        let page = |status, accepted| root.error_page(status, accepted).unwrap();
        let gzip = Accepted::new([Coding::Gzip]);
        assert_eq!(told(page(404, Accepted::NONE).unwrap().outcome), "errors/404.html");
        assert_eq!(told(page(404, gzip).unwrap().outcome), "gzip errors/404.html.gz");
        assert_eq!(told(page(403, gzip).unwrap().outcome), "404");
        assert!(page(500, gzip).is_none());
    }
}

#[test]
fn siblings_are_sent_to_those_who_take_them() {
    let tree = Tree::with(&["a.js", "a.js.gz", "a.js.br", "b.js", "c.js", "c.js.zst/x", "d.js.gz"]);
    let gzip_first = Accepted::new([Coding::Gzip, Coding::Brotli]);
    let zstd_first = Accepted::new([Coding::Zstd, Coding::Gzip]);
    let cases = [
        ("/a.js", Accepted::NONE, "a.js", true),
        ("/a.js", gzip_first, "gzip a.js.gz", true),
        ("/a.js", zstd_first, "gzip a.js.gz", true),
        ("/a.js", Accepted::new(Coding::ALL), "br a.js.br", true),
        ("/a.js.gz", gzip_first, "a.js.gz", false),
        ("/b.js", gzip_first, "b.js", false),
        // A directory is not a sibling, and a sibling without its file is not a file.
        ("/c.js", zstd_first, "c.js", false),
        ("/d.js", gzip_first, "404", false),
    ];
    for root in tree.roots(&Options::default()) {
        for (path, accepted, expected, varies) in cases {
            let request = Request { path: path.as_bytes(), accepted };
            let found = root.find(&request).unwrap();
            let version = root.version_of(&request).unwrap().outcome;
            if let Outcome::File(file) = &found.outcome {
                assert_eq!(file.varies, varies, "{path}");
                assert!(matches!(version, Outcome::File(sent) if sent == file.representation()));
                let is_js = path.ends_with(".js");
                let expected =
                    if is_js { "text/javascript; charset=utf-8" } else { "application/gzip" };
                assert_eq!(file.media_type, expected);
                assert_eq!(file.path, path.as_bytes()[1..]);
            }
            assert_eq!(told(found.outcome), expected, "{path}");
        }
    }
    let off = Options { precompressed: Vec::new(), ..Options::default() };
    for root in tree.roots(&off) {
        let request = Request { path: b"/a.js", accepted: gzip_first };
        let Outcome::File(file) = root.find(&request).unwrap().outcome else { panic!() };
        assert!(!file.varies);
        assert_eq!(content(file), b"a.js");
    }
}

#[test]
fn an_answer_names_the_directories_that_it_depends_on() {
    let tree = Tree::with(&["a/b/c", "d/index.html", "e/x", "index.html", "two"]);
    fs::hard_link(tree.at(b"two"), tree.at(b"e/also")).unwrap();
    let try_files = patterns(&["$uri", "$uri/", "/index.html"]);
    let single_page = Options { try_files, ..Options::default() };
    let plain = Options::default();
    let listed = Options { listing: true, ..Options::default() };
    let no_index = Options { index: Vec::new(), ..Options::default() };
    let cases: [(&Options, &str, &[&str], bool); 13] = [
        (&plain, "/a/b/c", &["a/b"], true),
        (&plain, "/none", &[""], true),
        (&plain, "/a/none/x", &["a/none"], true),
        (&plain, "/d", &[""], true),
        (&plain, "/d/", &["d"], true),
        (&plain, "/", &[""], true),
        (&plain, "/e/", &["e"], true),
        (&no_index, "/e/", &[""], true),
        (&single_page, "/d/none/", &["d", ""], true),
        (&single_page, "/a/b/none", &["a/b", ""], true),
        (&listed, "/e/", &["e"], true),
        (&plain, "/two", &[""], false),
        (&plain, "/.hidden", &[], true),
    ];
    for (options, path, directories, watchable) in cases {
        for root in tree.roots(options) {
            let found = root.find(&request(path.as_bytes())).unwrap();
            let got: Vec<&[u8]> = found.directories.iter().map(Vec::as_slice).collect();
            let expected: Vec<&[u8]> = directories.iter().map(|path| path.as_bytes()).collect();
            assert_eq!(got, expected, "{path}");
            assert_eq!(found.watchable, watchable, "{path}");
        }
    }
}

/// Fails if `act` takes so long that it must be blocked forever.
fn in_time<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(act()));
    receive.recv_timeout(Duration::from_secs(60)).expect("a request waits for ever")
}

#[test]
fn only_regular_files_are_read() {
    let tree = Tree::with(&["dir/x", "page", "page.gz"]);
    let make = |path: &str, kind, device| {
        mknodat(CWD, tree.at(path.as_bytes()), kind, Mode::from_bits_retain(0o666), device)
    };
    make("fifo", FileType::Fifo, 0).unwrap();
    fs::create_dir(tree.at(b"index")).unwrap();
    make("index/index.html", FileType::Fifo, 0).unwrap();
    fs::remove_file(tree.at(b"page.gz")).unwrap();
    make("page.gz", FileType::Fifo, 0).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(tree.at(b"socket")).unwrap();
    tree.link("link", "fifo");
    let mut cases = vec![
        ("/fifo", "(not regular)"),
        ("/fifo/", "404"),
        ("/link", "(not regular)"),
        ("/socket", "(not regular)"),
        ("/index/", "(not regular)"),
        ("/page", "page"),
    ];
    match make("zero", FileType::CharacterDevice, makedev(1, 5)) {
        Ok(()) => cases.push(("/zero", "(not regular)")),
        Err(why) => eprintln!("SKIPPED: a device in the root: it cannot be made here ({why})"),
    }
    let roots = tree.roots(&Options { symlinks: Symlinks::Inside, ..Options::default() });
    in_time(move || {
        check(&roots, &cases);
        for root in &roots {
            // The FIFO with the name of a sibling is not one.
            let accepted = Accepted::new([Coding::Gzip]);
            let found = root.find(&Request { path: b"/page", accepted }).unwrap();
            assert_eq!(told(found.outcome), "page");
        }
    });
    drop(socket);
}

/// inotify reports every open except one with `O_PATH`, which does not touch the file.
#[test]
fn only_regular_files_are_opened() {
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    let tree = Tree::with(&["file"]);
    let mode = Mode::from_bits_retain(0o666);
    mknodat(CWD, tree.at(b"fifo"), FileType::Fifo, mode, 0).unwrap();
    let queue = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    for root in tree.roots(&Options::default()) {
        for (name, opened) in [("fifo", false), ("file", true)] {
            add_watch(&queue, tree.at(name.as_bytes()), WatchFlags::OPEN).unwrap();
            let path = format!("/{name}");
            root.version_of(&request(path.as_bytes())).unwrap();
            let mut events = Reader::new(&queue, &mut buffer);
            assert!(events.next().is_err(), "{name} was opened to learn its version");
            root.find(&request(path.as_bytes())).unwrap();
            assert_eq!(events.next().is_ok(), opened, "{name}");
            while events.next().is_ok() {}
        }
    }
}

#[test]
fn a_quick_look_says_the_same_or_nothing() {
    let tree = Tree::with(&["a", "d/index.html", "d/index.html.br"]);
    tree.link("l", "a");
    tree.link("absolute", tree.at(b"a"));
    let [by_kernel, by_walk] = <[Root; 2]>::try_from(tree.roots(&Options::default())).unwrap();
    let mut known = 0;
    for path in ["/a", "/d", "/d/", "/none", "/l", "/absolute", "/%", "/.x"] {
        let request = Request { path: path.as_bytes(), accepted: Accepted::new(Coding::ALL) };
        let expected = told(by_kernel.find(&request).unwrap().outcome);
        if let Some(found) = by_kernel.find_cached(&request).unwrap() {
            known += 1;
            assert_eq!(told(found.outcome), expected, "{path}");
        }
        let walked = by_walk.find_cached(&request).unwrap();
        let needs_no_look = matches!(path, "/%" | "/.x");
        assert_eq!(walked.is_none(), !needs_no_look, "{path}");
    }
    match by_kernel.resolver.method {
        Method::Kernel { cached: true } => assert!(known >= 4, "only {known} are known quickly"),
        method => eprintln!("SKIPPED: quick looks: this kernel has none ({method:?})"),
    }
}
