//! Validating neighbours (systems C14): which requests the origin gets after a validation, on which
//! connection, and which it never gets.

use std::thread::sleep;
use std::time::Duration;

use testkit::client::{get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup};
use testkit::origin::Origin;

/// Long enough for an unwanted validation to arrive.
const QUIET: Duration = Duration::from_millis(400);

/// One worker, so that connections are pooled in one place.
fn setup(config: &str) -> Setup {
    Setup::forward().flag("workers", "1").config(config)
}

/// Returns a target whose responses can be validated.
fn target(path: &str) -> String {
    format!("{path}?etag=1&cc=public,max-age=3600")
}

/// Makes all stored objects stale until they are validated.
fn outdate(larder: &Larder) {
    let reply = larder.admin_send(request("POST", "/purge?everything=1&soft=1").body(b""));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Fetches all targets, and makes them stale.
fn store(larder: &Larder, origin: &Origin, targets: &[String]) {
    for target in targets {
        larder.get(&origin.url(target)).verify(target);
    }
    outdate(larder);
}

/// Returns a counter of the metrics.
fn metric(larder: &Larder, series: &str) -> u64 {
    let metrics = larder.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_else(|| panic!("{series} is missing")).trim().parse().unwrap()
}

fn validations(larder: &Larder, result: &str) -> u64 {
    metric(larder, &format!("larder_neighbour_validations_total{{result=\"{result}\"}}"))
}

#[test]
fn stale_neighbours_are_validated_behind_on_the_same_connection() {
    let origin = Origin::start();
    let larder = setup("[caching]\nvalidate-neighbours = 4\n").start();
    let targets = ["/a/page", "/a/one", "/a/two"].map(target);
    store(&larder, &origin, &targets);
    let request = get(&origin.url(&targets[0]));
    let request = request.header("User-Agent", "test/1").header("Cookie", "secret=1");
    let reply = larder.send(&request.header("Authorization", "Basic eDp5"));
    reply.verify(&targets[0]);
    assert_eq!(reply.outcome(), "REVALIDATED");
    assert!(eventually(|| validations(&larder, "validated") == 2), "{}", larder.metrics());
    let page = origin.requests_for(&targets[0]);
    for target in &targets[1..] {
        let asked = origin.requests_for(target);
        assert_eq!((asked.len(), &*asked[1].method, asked[1].from), (2, "GET", page[1].from));
        let head = &asked[1].head;
        assert!(head.get("if-none-match").is_some(), "{asked:?}");
        assert_eq!(head.get("user-agent"), Some("test/1"));
        assert!(head.get("cookie").is_none() && head.get("authorization").is_none(), "{asked:?}");
        let reply = larder.get(&origin.url(target));
        reply.verify(target);
        assert_eq!(reply.outcome(), "HIT_RAM");
    }
    assert_eq!(metric(&larder, "larder_neighbours_used_total"), 2);
    assert_eq!(origin.requests_for(&targets[1]).len(), 2);
}

#[test]
fn what_is_not_to_be_asked_is_not_asked() {
    let (origin, other) = (Origin::start(), Origin::start());
    let rule = "[[rule]]\npaths = ['/a/quiet']\nvalidate-neighbours = 0\n
        [[rule]]\npaths = ['/a/named']\nquery-drop = ['x']\nquery-send = 'all'\n";
    let larder = setup(&format!("[caching]\nvalidate-neighbours = 20\n{rule}")).start();
    let page = target("/a/page");
    let untouched = [
        // No validator; a validation each time; nothing to gain.
        "/a/plain?cc=max-age=100".to_owned(),
        "/a/each?cc=no-cache&etag=1".to_owned(),
        "/a/never?cc=max-age=0&etag=1".to_owned(),
        // By the rules: switched off; the key may differ from the URL that the origin got.
        target("/a/quiet"),
        target("/a/named"),
        // Only the client that sent the cookie could send this request.
        format!("{}&vary=cookie", target("/a/cookie")),
        format!("{}&vary=accept,authorization", target("/a/key")),
    ];
    let asked = [target("/a/last"), format!("{}&vary=x-kind,accept-language", target("/a/lang"))];
    let elsewhere = target("/a/elsewhere");
    for target in untouched.iter().chain(&asked).chain([&page]) {
        let request = get(&origin.url(target)).header("Cookie", "me=1").header("Accept", "text/x");
        larder.send(&request.header("Accept-Language", "de,en;q=0.5")).verify(target);
    }
    larder.get(&other.url(&elsewhere)).verify(&elsewhere);
    outdate(&larder);
    let fresh = target("/a/fresh");
    larder.get(&origin.url(&fresh)).verify(&fresh);
    let reply = larder.send(&get(&origin.url(&page)).header("Accept-Language", "fr"));
    assert_eq!(reply.outcome(), "REVALIDATED");
    assert!(eventually(|| validations(&larder, "validated") == 2), "{}", larder.metrics());
    sleep(QUIET);
    for target in untouched.iter().chain([&fresh]) {
        assert_eq!(origin.fetches(target), 1, "{target}");
    }
    assert_eq!(other.fetches(&elsewhere), 1);
    let head = &origin.requests_for(&asked[1])[1].head;
    // As in the variant's key; the page's client requested French.
    assert_eq!(head.get("accept-language"), Some("de,en;q=0.5"));
    assert!(head.get("x-kind").is_none() && head.get("cookie").is_none(), "{head:?}");
    let reply = larder.send(&get(&origin.url(&asked[1])).header("Accept-Language", "de,en;q=0.5"));
    assert_eq!(reply.outcome(), "HIT_RAM");
}

#[test]
fn a_neighbour_that_has_changed_is_replaced() {
    let origin = Origin::start();
    let larder = setup("[caching]\nvalidate-neighbours = 4\n").start();
    let targets = ["/a/page", "/a/one"].map(target);
    store(&larder, &origin, &targets);
    origin.change(&targets[1]);
    assert_eq!(larder.get(&origin.url(&targets[0])).outcome(), "REVALIDATED");
    assert!(eventually(|| validations(&larder, "replaced") == 1), "{}", larder.metrics());
    let after = larder.get(&origin.url(&targets[1]));
    after.verify(&targets[1]);
    assert_eq!((after.outcome().as_str(), after.header("x-version")), ("HIT_RAM", "1"));
}

#[test]
fn a_neighbour_that_cannot_be_asked_stays_as_it_is() {
    let origin = Origin::start();
    let larder = setup("[caching]\nvalidate-neighbours = 4\n").start();
    let targets = ["/a/page", "/a/one", "/a/two"].map(target);
    store(&larder, &origin, &targets);
    // Kept connections die at their next request: the page's validation goes to a new connection, a
    // neighbour's does not justify one.
    origin.sever_used_connections();
    assert_eq!(larder.get(&origin.url(&targets[0])).outcome(), "REVALIDATED");
    assert!(eventually(|| validations(&larder, "left") == 2), "{}", larder.metrics());
    assert_eq!((origin.fetches(&targets[1]), origin.fetches(&targets[2])), (1, 1));
    let reply = larder.get(&origin.url(&targets[1]));
    reply.verify(&targets[1]);
    assert_eq!(reply.outcome(), "REVALIDATED");
}

#[test]
fn who_is_never_asked_for_is_not_validated_again() {
    let origin = Origin::start();
    let larder = setup("[caching]\nvalidate-neighbours = 4\n").start();
    let targets = ["/a/page", "/a/liked", "/a/forgotten"].map(target);
    store(&larder, &origin, &targets);
    for round in 1..=2 {
        assert_eq!(larder.get(&origin.url(&targets[0])).outcome(), "REVALIDATED");
        let both = if round == 1 { 2 } else { 3 };
        assert!(eventually(|| validations(&larder, "validated") == both), "{}", larder.metrics());
        assert_eq!(larder.get(&origin.url(&targets[1])).outcome(), "HIT_RAM");
        outdate(&larder);
    }
    assert_eq!((origin.fetches(&targets[1]), origin.fetches(&targets[2])), (3, 2));
}

#[test]
fn neighbours_on_the_device_come_with_one_read() {
    let origin = Origin::start();
    let config = "[caching]\nvalidate-neighbours = 4\n[store]\nread-unit = \"object\"\n";
    for layout in ["cluster", "unified"] {
        let setup = setup(config).flag("layout", layout);
        let targets = ["page", "one", "two"].map(|name| target(&format!("/{layout}/{name}")));
        let larder = setup.start();
        store(&larder, &origin, &targets);
        larder.stop();
        // Memory begins empty. At first the stored objects are as fetched; then each has a new
        // head, which lies elsewhere.
        for asked in [2, 3] {
            let larder = setup.start();
            assert_eq!(larder.get(&origin.url(&targets[0])).outcome(), "REVALIDATED");
            assert!(eventually(|| validations(&larder, "validated") == 2), "{}", larder.metrics());
            for target in &targets {
                let reply = larder.get(&origin.url(target));
                reply.verify(target);
                assert_eq!((reply.outcome().as_str(), origin.fetches(target)), ("HIT_RAM", asked));
            }
            outdate(&larder);
            larder.stop();
        }
    }
}
