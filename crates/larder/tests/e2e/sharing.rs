//! One fetch per key at a time, however many clients request it.

use std::sync::Barrier;
use std::thread;

use rustix::process::{Resource, getrlimit, setrlimit};
use testkit::client::{Reply, get};
use testkit::larder::Setup;
use testkit::origin::Origin;

/// Raises this process's limit of open sockets to the maximum.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit may be raised to the hard one");
}

/// Sends the same request from `clients` connections; opens the gate when all have sent it.
fn together(
    larder: &testkit::larder::Larder,
    origin: &Origin,
    url: &str,
    clients: usize,
) -> Vec<Reply> {
    raise_descriptor_limit();
    let asked = Barrier::new(clients + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|_| {
                let asked = &asked;
                let client = move || {
                    let mut connection = larder.connect();
                    connection.send(get(url).bytes());
                    asked.wait();
                    connection.read("GET").unwrap()
                };
                let thread = thread::Builder::new().stack_size(256 << 10);
                thread.spawn_scoped(scope, client).unwrap()
            })
            .collect();
        asked.wait();
        origin.open("half");
        running.into_iter().map(|r| r.join().unwrap()).collect()
    })
}

#[test]
fn a_thousand_clients_for_one_key_are_one_fetch() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&gate=half";
    let replies = together(&larder, &origin, &origin.url(target), 1_000);
    for reply in &replies {
        reply.verify(target);
        let outcome = reply.outcome();
        assert!(
            ["MISS", "HIT_FILL", "HIT_RAM", "HIT_DISK"].contains(&outcome.as_str()),
            "{outcome}"
        );
    }
    assert_eq!(replies.iter().filter(|r| r.outcome() == "MISS").count(), 1);
    assert_eq!(origin.fetches(target), 1);
}

#[test]
fn nobody_gets_a_share_of_an_answer_that_is_not_shareable() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=10000&cc=private&gate=half";
    let replies = together(&larder, &origin, &origin.url(target), 20);
    for reply in &replies {
        reply.verify(target);
        assert!(!reply.outcome().starts_with("HIT"), "{:?}", reply.head);
    }
    assert_eq!(origin.fetches(target), 20);
}

#[test]
fn a_client_that_leaves_does_not_end_the_fill_for_the_others() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=1000000&gate=half";
    let url = origin.url(target);
    let mut leaver = larder.connect();
    leaver.send(get(&url).bytes());
    origin.await_fetches(target, 1);
    let mut stays = larder.connect();
    stays.send(get(&url).bytes());
    stays.read_head().unwrap();
    drop(leaver);
    origin.open("half");
    drop(stays);
    // A new request gets the whole, from the same single fetch or from a new one.
    larder.get(&url).verify(target);
}

#[test]
fn when_the_origin_dies_half_way_every_follower_is_cut() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=200000&how=short&gate=half";
    for reply in together(&larder, &origin, &origin.url(target), 20) {
        assert!(!reply.whole || reply.status == 502, "{:?}", reply.head);
        if reply.status == 200 {
            reply.verify_from(target, 0);
        }
    }
}

#[test]
fn a_slow_follower_does_not_slow_the_others() {
    let setup = Setup::forward().flag("cache-size", "256M");
    let (origin, larder) = (Origin::start(), setup.start());
    let target = "/page?size=40000000";
    let url = origin.url(target);
    let mut slow = larder.connect();
    slow.send(get(&url).bytes());
    // Its 40 MB exceed all socket buffers: while it does not read, the others must be served.
    origin.await_fetches(target, 1);
    larder.get(&url).verify(target);
    slow.read("GET").unwrap().verify(target);
    assert_eq!(origin.fetches(target), 1);
}
