//! A download that has begun completes, in the version with which it began, whatever other clients
//! do with the object meanwhile. None of these responses has a strong validator, so the rest of one
//! cannot come from the origin.

use testkit::client::{Client, Reply, get, request};
use testkit::larder::{Larder, Setup};
use testkit::message::Head;
use testkit::origin::Origin;

/// More than socket buffers and the windows in memory hold.
const TARGET: &str = "/film?size=16000000";

/// A client that has read the head of a response, and continues when told to.
struct Slow(Client, Head);

impl Slow {
    fn begin(larder: &Larder, url: &str, range: Option<&str>) -> Slow {
        let mut connection = larder.connect();
        let asked = get(url);
        let asked = match range {
            Some(range) => asked.header("Range", range),
            None => asked,
        };
        connection.send(asked.bytes());
        let head = connection.read_head().unwrap();
        Slow(connection, head)
    }

    fn read_on(mut self) -> Reply {
        self.0.rest(self.1, "GET")
    }
}

fn others(larder: &Larder, origin: &Origin) {
    for number in 0..60 {
        let target = format!("/other{number}?size=1000000");
        larder.get(&origin.url(&target)).verify(&target);
    }
}

type Happens = fn(&Larder, &Origin);

const WHAT_OTHERS_DO: [(&str, Happens); 4] = [
    ("reload", |larder, origin| {
        for _ in 0..3 {
            origin.change(TARGET);
            let reply = larder.send(&get(&origin.url(TARGET)).header("Cache-Control", "no-cache"));
            reply.verify(TARGET);
        }
    }),
    ("invalidate", |larder, origin| {
        larder.send(&request("POST", &origin.url(TARGET)).body(b"x"));
        origin.change(TARGET);
        larder.get(&origin.url(TARGET)).verify(TARGET);
    }),
    ("purge", |larder, origin| assert!(larder.purge(&origin.url(TARGET)))),
    ("evict", |_, _| {}),
];

#[test]
fn others_do_not_end_a_download_from_clusters() {
    others_do_not_end_a_download("cluster");
}

#[test]
fn others_do_not_end_a_download_from_slots() {
    others_do_not_end_a_download("unified");
}

/// Sets up a cache that can hold two versions of the film: the one that is being read slowly, and
/// the one that replaces it meanwhile.
fn setup() -> Setup {
    let setup = Setup::forward().flag("memory", "32M").flag("cache-size", "80M");
    setup.config("[store]\nheld-percent = 50\n")
}

fn others_do_not_end_a_download(layout: &str) {
    let (origin, larder) = (Origin::start(), setup().flag("layout", layout).start());
    let url = origin.url(TARGET);
    for (what, happens) in WHAT_OTHERS_DO {
        larder.get(&url).verify(TARGET);
        let whole = Slow::begin(&larder, &url, None);
        let part = Slow::begin(&larder, &url, Some("bytes=500000-15499999"));
        let parts = Slow::begin(&larder, &url, Some("bytes=100000-7000000,8000000-15900000"));
        happens(&larder, &origin);
        others(&larder, &origin);
        let context = format!("{layout}, {what}");
        let reply = whole.read_on();
        assert!(reply.whole && reply.status == 200, "{context}: {} bytes", reply.len);
        reply.verify(TARGET);
        let reply = part.read_on();
        assert!(reply.whole && reply.status == 206, "{context}: {} bytes", reply.len);
        reply.verify_from(TARGET, 500_000);
        let reply = parts.read_on();
        assert!(reply.whole && reply.status == 206, "{context}: {} bytes", reply.len);
        assert!(reply.len > 14_800_000, "{context}: {} bytes", reply.len);
    }
}

#[test]
fn others_do_not_end_a_download_that_began_with_the_fetch() {
    let (origin, larder) = (Origin::start(), setup().start());
    let url = origin.url(TARGET);
    for (what, happens) in WHAT_OTHERS_DO {
        larder.purge(&url);
        let fetched = origin.fetches(TARGET);
        // The first begins the fetch, and all of it is stored long before it has read it.
        let first = Slow::begin(&larder, &url, None);
        larder.get(&url).verify(TARGET);
        assert_eq!(origin.fetches(TARGET), fetched + 1, "{what}");
        happens(&larder, &origin);
        others(&larder, &origin);
        let reply = first.read_on();
        assert!(reply.whole, "{what}: {} bytes", reply.len);
        reply.verify(TARGET);
    }
}

#[test]
fn what_a_transfer_may_hold_is_bounded_and_counted() {
    let config = "[store]\nheld-percent = 0\n";
    let setup = Setup::forward().flag("memory", "32M").flag("cache-size", "80M").config(config);
    let (origin, larder) = (Origin::start(), setup.start());
    let url = origin.url(TARGET);
    larder.get(&url).verify(TARGET);
    let slow = Slow::begin(&larder, &url, None);
    assert!(larder.metrics().contains("larder_store_held_transfers"), "{}", larder.metrics());
    assert!(larder.purge(&url));
    others(&larder, &origin);
    let reply = slow.read_on();
    assert!(!reply.whole, "nothing may be held, and the origin has no strong validator");
    reply.verify_from(TARGET, 0);
}
