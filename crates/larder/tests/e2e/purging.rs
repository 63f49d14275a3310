//! `larder purge` against the running program: its output, its exit code, and that purged objects
//! are gone, or stale, also after `kill -9`.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use testkit::client::request;
use testkit::larder::{Larder, Setup, larder_path};
use testkit::origin::Origin;

/// Runs `larder purge` with these arguments; returns its exit code and its output.
fn run(admin: SocketAddr, words: &[&str]) -> (i32, String) {
    let admin = admin.to_string();
    let Output { status, stdout, stderr } = Command::new(larder_path())
        .args(["purge", "--admin", &admin])
        .args(words)
        .output()
        .expect("the program can be run");
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (status.code().expect("it ended by itself"), said.concat())
}

/// Returns the output for a purge that is a single entry, whatever it concerns.
fn uncounted(what: &str) -> (i32, String) {
    (0, format!("{what}, in force for all matching objects (not counted)\n"))
}

#[test]
fn the_command_purges_by_url_prefix_host_tag_and_all() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let admin = larder.admin();
    let targets =
        ["/img/a", "/img/b?h=xkey:red", "/page?h=Surrogate-Key:red", "/page?h=Cache-Tag:blue"];
    let fetch = || targets.map(|target| larder.get(&origin.url(target)).outcome());
    let cached = |reply: &String| reply.starts_with("HIT");
    let state = || fetch().iter().map(|outcome| u8::from(cached(outcome))).collect::<Vec<_>>();
    state();
    assert_eq!(state(), [1, 1, 1, 1]);

    let (code, said) = run(admin, &[&origin.url("/img/a"), &origin.url("/not-stored")]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("/img/a: removed 1 object (forward)\n"), "{said}");
    assert!(said.contains("/not-stored: nothing was stored; host, port,"), "{said}");
    assert_eq!(state(), [0, 1, 1, 1]);

    assert_eq!(run(admin, &["--tag", "red", "--tag", "x"]), uncounted("tags red, x: purged"));
    assert_eq!(state(), [1, 0, 0, 1]);
    assert_eq!(run(admin, &["--tag", "blue"]), uncounted("tag blue: purged"));
    assert_eq!(state(), [1, 1, 1, 0]);

    let prefix = origin.url("/im");
    assert_eq!(run(admin, &["--prefix", &prefix]), uncounted(&format!("prefix {prefix}: purged")));
    assert_eq!(state(), [0, 0, 1, 1]);

    assert_eq!(run(admin, &["--host", "127.0.0.2"]).0, 0);
    assert_eq!(state(), [1, 1, 1, 1], "another host");
    assert_eq!(run(admin, &["--host", "127.0.0.1"]).0, 0);
    assert_eq!(state(), [0, 0, 0, 0]);
    let port = origin.url("").trim_start_matches("http://").to_owned();
    assert_eq!(run(admin, &["--host", port.trim_end_matches('/')]).0, 0);
    assert_eq!(state(), [0, 0, 0, 0]);

    assert_eq!(run(admin, &["--all", "--soft"]), uncounted("everything: outdated"));
    assert_eq!(fetch().map(|outcome| outcome == "REFRESHED"), [true; 4]);
    assert_eq!(state(), [1, 1, 1, 1], "fetched anew");
    assert_eq!(run(admin, &["--all"]), uncounted("everything: purged"));
    assert_eq!(state(), [0, 0, 0, 0]);
}

#[test]
fn what_the_command_cannot_do_it_explains() {
    let nowhere = testkit::address::free();
    let (code, said) = run(nowhere, &["http://a.test/"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("http://a.test/: not purged: no response"), "{said}");
    assert!(said.contains(&format!("{nowhere}")) && said.contains("is larder running"), "{said}");

    let setup = Setup::forward().config("admin-token = \"s3cret\"\n");
    let larder = setup.launch();
    assert!(larder.says("ready: "), "{}", larder.said());
    let admin = larder.admin();
    let (code, said) = run(admin, &["--tag", "a"]);
    assert!(code == 1 && said.contains("NOT PURGED: 401") && said.contains("token"), "{said}");
    assert_eq!(run(admin, &["--tag", "a", "--token", "s3cret"]), uncounted("tag a: purged"));
    let config = setup.path("larder.toml").display().to_string();
    assert_eq!(run(admin, &["--tag", "a", "--config", &config]).0, 0, "the configuration's token");

    let token = ["--token", "s3cret"];
    let (code, said) = run(admin, &["a.test/x", "http://b.test/", token[0], token[1]]);
    assert!(code == 1 && said.contains("a.test/x: NOT PURGED: 400"), "{said}");
    assert!(said.contains("http://b.test/: nothing was stored"), "the others are done: {said}");
    let (code, said) = run(admin, &[]);
    assert!(code == 2 && said.contains("Usage"), "{said}");
}

#[test]
fn a_ban_stays_in_force_after_kill_9() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    let page = "/page?size=5000&etag=1&h=x-kind:page";
    let image = "/image?size=5000&etag=1&h=x-kind:image";
    let other = "/other?size=300000&etag=1";
    for target in [page, image, other] {
        larder.get(&origin.url(target)).verify(target);
    }
    larder.await_written();
    let admin = larder.admin();
    let (code, said) = run(admin, &["--regex", "^/(page|x)[?]", "--host", "127.0.0.1"]);
    assert!(code == 0 && said.contains("purged, in force"), "{said}");
    let (code, said) = run(admin, &["--field", "x-kind: ^im", "--soft"]);
    assert!(code == 0 && said.contains("outdated, in force"), "{said}");
    assert_eq!(run(admin, &["--glob", "http://127.0.0.2*"]).0, 0, "another host");
    let (code, said) = run(admin, &["--regex", "("]);
    assert!(code == 1 && said.contains("NOT PURGED: 400"), "{said}");
    // No wait: a purge is durable when the response is sent.
    larder.kill();
    let larder = setup.start();
    let outcome = |target: &str| {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        reply.outcome()
    };
    assert_eq!([page, image].map(outcome), ["MISS", "REVALIDATED"]);
    assert!(outcome(other).starts_with("HIT"));
    assert_eq!([page, image].map(outcome), ["HIT_RAM"; 2]);
}

#[test]
fn tags_purged_by_the_command_stay_purged_after_kill_9() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    let red = "/red?size=5000&etag=1&h=Surrogate-Key:red";
    let blue = "/blue?size=5000&etag=1&h=Surrogate-Key:blue";
    let green = "/green?size=300000&h=Surrogate-Key:green";
    for target in [red, blue, green] {
        larder.get(&origin.url(target)).verify(target);
    }
    larder.await_written();
    assert_eq!(run(larder.admin(), &["--tag", "red", "--tag", "green"]).0, 0);
    assert_eq!(run(larder.admin(), &["--tag", "blue", "--soft"]).0, 0);
    // No wait: a purge is durable when the response is sent.
    larder.kill();
    let larder = setup.start();
    let outcome = |target: &str| {
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        reply.outcome()
    };
    assert_eq!([red, green, blue].map(outcome), ["MISS", "MISS", "REVALIDATED"]);
    assert_eq!([red, green, blue].map(outcome), ["HIT_RAM"; 3]);
}

/// Checks that requests after a purge do not get the body of a fetch from before it.
fn overtakes_a_running_fill(purge: impl Fn(&Larder, &str)) {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&gate=half&h=xkey:red";
    let url = origin.url(target);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 1);
        sleep(Duration::from_millis(200));
        origin.change(target);
        purge(&larder, &url);
        let second = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 2);
        origin.open("half");
        first.join().unwrap().verify(target);
        let second = second.join().unwrap();
        second.verify(target);
        assert_eq!((second.outcome(), second.header("x-version")), ("MISS".into(), "1"));
    });
    let after = larder.get(&url);
    after.verify(target);
    assert_eq!(after.outcome(), "HIT_RAM", "what was fetched after the purge is stored");
    assert_eq!(origin.fetches(target), 2);
}

#[test]
fn a_purge_by_tag_or_url_overtakes_a_running_fill() {
    overtakes_a_running_fill(|larder, _| {
        assert_eq!(run(larder.admin(), &["--tag", "red"]).0, 0);
    });
    overtakes_a_running_fill(|larder, url| {
        larder.purge(url);
    });
    overtakes_a_running_fill(|larder, _| {
        assert_eq!(run(larder.admin(), &["--field", "xkey: ^r", "--regex", "^/page"]).0, 0);
    });
}

#[test]
fn the_method_purge_is_for_those_it_is_given_to() {
    let origin = Origin::start();
    let closed = Setup::forward().config("[purge]\nfrom = [\"192.0.2.0/24\"]\n").start();
    let reply = closed.send(&request("PURGE", &origin.url("/page")));
    assert_eq!((reply.status, reply.outcome().as_str()), (403, "DENIED"));
    assert!(reply.text().contains("purge.from"), "{}", reply.text());
    // Methods that purge in other caches are forwarded for a client that may not purge.
    assert_eq!(closed.send(&request("BAN", &origin.url("/page"))).outcome(), "BYPASS");
    // If no client may use it, it is a method like any other.
    let unknown = Setup::forward().start();
    let reply = unknown.send(&request("PURGE", &origin.url("/page")));
    assert_eq!(reply.outcome(), "BYPASS");
}

#[test]
fn a_secret_admits_purges_and_is_shown_to_nobody() {
    let origin = Origin::start();
    let setup = Setup::forward().config("[purge]\nsecret = \"s3cret-word\"\n");
    let larder = setup.start();
    let url = origin.url("/page");
    let with = |method: &str, secret: &str| {
        larder.send(&request(method, &url).header("X-Purge-Secret", secret))
    };
    with("GET", "s3cret-word").verify("/page");
    let asked = &origin.requests_for("/page")[0].head;
    assert_eq!(asked.get("x-purge-secret"), None, "the origin was told");
    let missing = larder.send(&request("PURGE", &url));
    assert_eq!((missing.status, missing.outcome().as_str()), (403, "DENIED"));
    for wrong in ["s3cret-wore", "s3cret", ""] {
        assert_eq!(with("PURGE", wrong).status, 403, "{wrong}");
        assert_eq!(with("BAN", wrong).status, 403, "{wrong}");
    }
    assert_eq!(larder.get(&url).outcome(), "HIT_RAM");
    assert_eq!(with("PURGE", "s3cret-word").status, 200);
    let missed = with("PURGE", "s3cret-word");
    assert_eq!(missed.status, 404);
    assert!(!missed.text().contains("s3cret-word") && !larder.said().contains("s3cret-word"));
}

#[test]
fn a_purge_of_another_spelling_names_what_is_stored() {
    let origin = Origin::start();
    let larder = Setup::reverse(origin.url("").trim_end_matches('/')).start();
    let stored = request("GET", "/page").header("Host", "a.example:8080");
    larder.send(&stored).verify("/page");
    for url in
        ["https://a.example/page", "http://www.a.example/page", "http://a.example:8080/page/"]
    {
        let (code, said) = run(larder.admin(), &[url]);
        assert!(code == 0 && said.contains("a.example:8080/page is stored"), "{url}: {said}");
    }
}
