//! Names of a site's objects: its hosts share them unless configured otherwise, the origin server
//! gets no name that is not part of the key, and every tool finds what a client had stored.

use std::net::SocketAddr;
use std::process::Command;

use testkit::client::{Reply, get, request};
use testkit::larder::{Larder, Setup, larder_path};
use testkit::origin::Origin;

fn run(words: &[&str]) -> (i32, String) {
    let output = Command::new(larder_path()).args(words).output().expect("the program can be run");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (output.status.code().expect("it ended by itself"), said.concat())
}

fn purge(admin: SocketAddr, url: &str) -> String {
    let (code, said) = run(&["purge", "--admin", &admin.to_string(), url]);
    assert_eq!(code, 0, "{said}");
    said
}

/// Sets up a site with two hosts at `origin`; `more` are further keys of it.
fn site(origin: &Origin, more: &str) -> Setup {
    let config = format!(
        "[[site]]\nhosts = [\"www.test\", \"localhost\"]\nupstream = \"{}\"\n{more}\n",
        origin.url("")
    );
    Setup::forward().config(&config)
}

fn ask(larder: &Larder, host: &str, target: &str) -> Reply {
    let reply = larder.send(&get(target).header("Host", host));
    reply.verify(target);
    reply
}

#[test]
fn the_hosts_of_a_site_are_one_object_to_clients_and_tools() {
    let origin = Origin::start();
    // The tool reads the device, where an object in shared memory is written later.
    let more = "key-host = \"site\"\n[store]\nshared-memory = \"none\"";
    let setup = site(&origin, more);
    let larder = setup.start();
    let (admin, port) = (larder.admin(), larder.address().port());
    let names = ["localhost".to_owned(), "www.test".to_owned(), format!("LOCALHOST:{port}")];
    let names = names.into_iter().chain([format!("www.test:{port}"), "www.test:80".to_owned()]);
    let names: Vec<String> = names.collect();
    for (at, name) in names.iter().enumerate() {
        let outcome = ask(&larder, name, "/page").outcome();
        assert_eq!(outcome, if at == 0 { "MISS" } else { "HIT_RAM" }, "{name}");
    }
    let seen = &origin.requests_for("/page")[0].head;
    let told = (seen.get("host"), seen.get("x-forwarded-host"));
    assert_eq!(told, (Some("www.test"), Some("www.test")), "no name beside the key's");

    larder.await_written();
    let (cache, config) = (setup.cache().display().to_string(), setup.path("larder.toml"));
    let config = config.display().to_string();
    let inspected = ["inspect", &cache, "object", "http://localhost/page"];
    let (code, said) = run(&[&inspected[..], &["--config", &config]].concat());
    assert!(code == 0 && said.contains("url       http://www.test/page\nfront     site"), "{said}");
    let (code, said) = run(&inspected);
    assert!(code == 1 && said.contains("--config FILE names all sites"), "{said}");
    let (code, said) = run(&["inspect", &cache, "object", "http://www.test/page"]);
    assert!(code == 0 && said.contains("front     site www.test"), "{said}");

    for name in &names {
        let said = purge(admin, &format!("http://{name}/page"));
        assert!(said.contains("removed 1 object (www.test)"), "{name}: {said}");
        assert_eq!(ask(&larder, "www.test", "/page").outcome(), "MISS", "{name}");
    }
    let said = purge(admin, "http://localhost/page/");
    assert!(said.contains("nothing was stored; http://localhost/page is stored"), "{said}");
    let said = purge(admin, "http://localhost/never");
    assert!(said.contains("by the host www.test"), "{said}");
    let said = purge(admin, "http://elsewhere.test/page");
    assert!(said.contains("nothing was stored; stored are http://www.test/page"), "{said}");
    let said = purge(admin, "http://elsewhere.test/never");
    assert!(said.contains("no site has the host elsewhere.test"), "{said}");
    let said = purge(admin, "http://localhost/pa*");
    assert!(said.contains("purged, in force for all"), "{said}");
    assert_eq!(ask(&larder, "localhost", "/page").outcome(), "MISS");
}

#[test]
fn a_site_may_keep_its_hosts_apart() {
    let origin = Origin::start();
    let larder = site(&origin, "key-host = \"client\"").start();
    let port = larder.address().port();
    for name in ["localhost", "www.test", &format!("www.test:{port}")] {
        assert_eq!(ask(&larder, name, "/page").outcome(), "MISS", "{name}");
        let last = origin.requests_for("/page").pop().expect("it was asked");
        assert_eq!(last.head.get("host"), Some(name));
    }
    let said = purge(larder.admin(), "http://localhost/page");
    assert!(said.contains("removed 1 object"), "{said}");
    assert_eq!(ask(&larder, "www.test", "/page").outcome(), "HIT_RAM");
    assert_eq!(ask(&larder, "localhost", "/page").outcome(), "MISS");
    // Larder's own port may be omitted from a name.
    let said = purge(larder.admin(), "http://www.test/page");
    assert!(said.contains("removed 2 objects"), "{said}");
}

#[test]
fn what_is_posted_keeps_its_host_and_makes_the_shared_object_invalid() {
    let origin = Origin::start();
    let larder = site(&origin, "key-host = \"site\"").start();
    assert_eq!(ask(&larder, "www.test", "/page").outcome(), "MISS");
    let post = request("POST", "/page").header("Host", "localhost").body(b"x");
    larder.send(&post);
    let last = origin.requests_for("/page").pop().expect("it was asked");
    assert_eq!(last.head.get("host"), Some("localhost"), "who compares it with Origin finds it");
    assert_eq!(ask(&larder, "www.test", "/page").outcome(), "MISS");
}

#[test]
fn a_stranger_s_host_is_nobody_else_s_object() {
    let origin = Origin::start();
    let larder = Setup::reverse(&origin.url("")).start();
    for name in ["evil.test", "good.test", "good.test:1234"] {
        assert_eq!(ask(&larder, name, "/page").outcome(), "MISS", "{name}");
    }
    let site = site(&origin, "").start();
    assert!(site.said().contains("its hosts share cached objects"), "{}", site.said());
    // A port without a listener is sent to the origin, and so is part of the key.
    assert_eq!(ask(&site, "www.test", "/other").outcome(), "MISS");
    assert_eq!(ask(&site, "www.test:1", "/other").outcome(), "MISS");
    assert_eq!(ask(&site, "www.test", "/other").outcome(), "HIT_RAM");
}
