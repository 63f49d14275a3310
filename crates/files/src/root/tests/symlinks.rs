//! Tests of symbolic links under each policy.

use super::*;
use crate::options::Symlinks;

/// A tree with links of every kind.
fn tree() -> Tree {
    let tree = Tree::with(&["file", "d/x", "d/e/y", "d/index.html", "page", "page2"]);
    let root = tree.at(b"");
    let outside = tree.outside();
    tree.link("relative", "file");
    tree.link("dir", "d");
    tree.link("d/up", "../file");
    tree.link("d/e/far", "../../d/./e//../x");
    tree.link("absolute", root.join("d/x"));
    tree.link("absolute-dir", root.join("d"));
    tree.link("absolute-root", &root);
    tree.link("here", ".");
    tree.link("slash", "file/");
    tree.link("file-up", "file/../file");
    tree.link("dangling", "none");
    tree.link("loop", "loop");
    tree.link("out", outside.join("secret"));
    tree.link("out-dir", &outside);
    tree.link("out-relative", "../outside/secret");
    tree.link("out-and-in", "../root/file");
    tree.link("absolute-up", root.join("../outside/secret"));
    tree.link("to-out", "out");
    tree.link("page.gz", "page2");
    tree.link("page2.gz", outside.join("secret"));
    // `chain40` crosses 40 links, `chain41` crosses 41.
    tree.link("chain1", "file");
    for number in 2..=41 {
        tree.link(&format!("chain{number}"), format!("chain{}", number - 1));
    }
    // Each link passes through the one before it twice, so following `w20` would take 2^20 steps.
    tree.link("w0", "here");
    for number in 1..=20 {
        tree.link(&format!("w{number}"), format!("w{0}/w{0}", number - 1));
    }
    tree
}

#[test]
fn links_are_followed_as_the_policy_says() {
    let cases = [
        // Path, outcome with `Inside`, outcome with `Anywhere`; with `Never` all are 403.
        ("/relative", "file", "file"),
        ("/dir", "-> /dir/", "-> /dir/"),
        ("/dir/", "d/index.html", "d/index.html"),
        ("/dir/x", "d/x", "d/x"),
        ("/dir/up", "file", "file"),
        ("/d/up", "file", "file"),
        ("/d/e/far", "d/x", "d/x"),
        ("/absolute", "d/x", "d/x"),
        ("/absolute-dir/e/y", "d/e/y", "d/e/y"),
        ("/absolute-dir/e/far", "d/x", "d/x"),
        ("/absolute-root/file", "file", "file"),
        ("/absolute-root/", "403", "403"),
        ("/here/here/here/file", "file", "file"),
        ("/slash", "404", "404"),
        ("/file-up", "404", "404"),
        ("/dangling", "404", "404"),
        ("/relative/x", "404", "404"),
        ("/loop", "403", "403"),
        ("/out", "403", "outside"),
        ("/out-dir", "403", "-> /out-dir/"),
        ("/out-dir/secret", "403", "outside"),
        ("/out-relative", "403", "outside"),
        ("/out-and-in", "403", "file"),
        ("/absolute-up", "403", "outside"),
        ("/to-out", "403", "outside"),
        ("/chain40", "file", "file"),
        ("/chain41", "403", "403"),
        ("/w20", "403", "403"),
    ];
    let tree = tree();
    let of = |symlinks| tree.roots(&Options { symlinks, ..Options::default() });
    let inside: Vec<_> = cases.iter().map(|(path, inside, _)| (*path, *inside)).collect();
    check(&of(Symlinks::Inside), &inside);
    let anywhere: Vec<_> = cases.iter().map(|(path, _, anywhere)| (*path, *anywhere)).collect();
    check(&of(Symlinks::Anywhere), &anywhere);
    let never: Vec<_> = cases.iter().map(|(path, ..)| (*path, "403")).collect();
    check(&of(Symlinks::Never), &never);
    for symlinks in [Symlinks::Never, Symlinks::Inside, Symlinks::Anywhere] {
        let roots = of(symlinks);
        check(&roots, &[("/file", "file"), ("/d/e/y", "d/e/y"), ("/none", "404")]);
        for root in roots {
            for (path, ..) in cases {
                let found = root.find(&request(path.as_bytes())).unwrap();
                assert!(!found.watchable, "{path} {symlinks:?} {:?}", root.resolver.method);
            }
            let found = root.find(&request(b"/d/e/y")).unwrap();
            assert!(found.watchable, "{symlinks:?} {:?}", root.resolver.method);
        }
    }
}

#[test]
fn siblings_are_followed_as_the_policy_says() {
    let tree = tree();
    let accepted = Accepted::new([Coding::Gzip]);
    for (symlinks, page, page2) in [
        (Symlinks::Never, "page", "page2"),
        (Symlinks::Inside, "gzip page2", "page2"),
        (Symlinks::Anywhere, "gzip page2", "gzip outside"),
    ] {
        for root in tree.roots(&Options { symlinks, ..Options::default() }) {
            for (path, expected) in [("/page", page), ("/page2", page2)] {
                let found = root.find(&Request { path: path.as_bytes(), accepted }).unwrap();
                assert!(!found.watchable);
                assert_eq!(told(found.outcome), expected, "{path} {symlinks:?}");
            }
        }
    }
}

#[test]
fn a_root_may_be_reached_by_a_link() {
    let tree = tree();
    let link = tree.0.path().join("link");
    symlink(tree.at(b""), &link).unwrap();
    for symlinks in [Symlinks::Never, Symlinks::Inside, Symlinks::Anywhere] {
        let root = Root::open(&link, Options { symlinks, ..Options::default() }).unwrap();
        check(&[root], &[("/file", "file")]);
    }
}
