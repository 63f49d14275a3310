//! Stored objects survive the process, however it ends.

use rustix::process::Signal;
use testkit::io::eventually;
use testkit::larder::Setup;
use testkit::origin::Origin;

const SIZES: [u64; 6] = [0, 1, 3_000, 65_536, 300_000, 5_000_000];

fn targets() -> Vec<String> {
    SIZES.iter().map(|size| format!("/page?size={size}")).collect()
}

#[test]
fn an_orderly_stop_keeps_everything() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    for target in targets() {
        larder.get(&origin.url(&target)).verify(&target);
    }
    larder.stop();
    let larder = setup.start();
    for target in targets() {
        let reply = larder.get(&origin.url(&target));
        reply.verify(&target);
        assert!(reply.outcome().starts_with("HIT"), "{target}: {:?}", reply.head);
        assert_eq!(origin.fetches(&target), 1);
    }
}

#[test]
fn sigint_is_an_orderly_stop_too() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let mut larder = setup.start();
    larder.get(&origin.url("/page")).verify("/page");
    larder.signal(Signal::INT);
    assert!(larder.await_exit().is_some_and(|s| s.success()), "{}", larder.said());
    let larder = setup.start();
    assert!(larder.get(&origin.url("/page")).outcome().starts_with("HIT"));
}

#[test]
fn kill_9_keeps_what_is_written() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    for target in targets() {
        larder.get(&origin.url(&target)).verify(&target);
    }
    larder.await_written();
    larder.kill();
    let larder = setup.start();
    for target in targets() {
        let reply = larder.get(&origin.url(&target));
        reply.verify(&target);
        // From memory if the read of a neighbour has brought it along.
        let outcome = reply.outcome();
        assert!(["HIT_DISK", "HIT_RAM"].contains(&outcome.as_str()), "{target}: {outcome}");
        assert_eq!(origin.fetches(&target), 1);
    }
}

#[test]
fn killed_again_and_again_it_never_serves_a_wrong_byte() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    for round in 0..5 {
        let larder = setup.start();
        for i in 0..40 {
            let target = format!("/page{i}?size={}", 100 + i * 3_777);
            larder.get(&origin.url(&target)).verify(&target);
            let fresh = format!("/round{round}/page{i}?size={}", 100 + i * 777);
            larder.get(&origin.url(&fresh)).verify(&fresh);
        }
        larder.kill();
    }
}

#[test]
fn a_304_refresh_survives_kill_9() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    // Stale at once, but with a validator.
    let target = "/page?size=3000&cc=max-age=0&etag=1";
    larder.get(&origin.url(target)).verify(target);
    larder.await_written();
    let again = larder.get(&origin.url(target));
    assert_eq!(again.outcome(), "REVALIDATED");
    larder.await_written();
    larder.kill();
    let larder = setup.start();
    let reply = larder.get(&origin.url(target));
    reply.verify(target);
    assert_eq!(reply.outcome(), "REVALIDATED");
}

#[test]
fn a_purge_survives_kill_9() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    for target in targets() {
        larder.get(&origin.url(&target)).verify(&target);
    }
    larder.await_written();
    for target in targets() {
        assert!(larder.purge(&origin.url(&target)), "{target}");
    }
    // No wait: a purge is durable when the response is sent.
    larder.kill();
    let larder = setup.start();
    for target in targets() {
        let reply = larder.get(&origin.url(&target));
        assert_eq!(reply.outcome(), "MISS", "{target} came back");
    }
}

#[test]
fn a_replaced_version_does_not_come_back_after_kill_9() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let larder = setup.start();
    let target = "/page?size=20000&etag=1&cc=max-age=0";
    larder.get(&origin.url(target)).verify(target);
    larder.await_written();
    origin.change(target);
    let new = larder.get(&origin.url(target));
    assert_eq!((new.header("x-version"), new.outcome().as_str()), ("1", "REFRESHED"));
    larder.await_written();
    larder.kill();
    let larder = setup.start();
    let reply = larder.get(&origin.url(target));
    reply.verify(target);
    assert_eq!((reply.header("x-version"), reply.outcome().as_str()), ("1", "REVALIDATED"));
}

#[test]
fn a_purge_overtakes_a_running_fill() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&gate=half";
    let url = origin.url(target);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 1);
        larder.purge(&url);
        origin.open("half");
        first.join().unwrap().verify(target);
    });
    let after = larder.get(&url);
    after.verify(target);
    assert_eq!(after.outcome(), "MISS", "a fill that began before the purge was stored");
    assert_eq!(origin.fetches(target), 2);
}

#[test]
fn a_request_after_a_purge_does_not_follow_a_fill_from_before_it() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&gate=half";
    let url = origin.url(target);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 1);
        origin.change(target);
        larder.purge(&url);
        let second = scope.spawn(|| larder.get(&url));
        origin.await_fetches(target, 2);
        origin.open("half");
        first.join().unwrap().verify(target);
        let second = second.join().unwrap();
        second.verify(target);
        assert_eq!(second.header("x-version"), "1");
    });
}

#[test]
fn a_running_answer_is_finished_before_the_end() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let mut larder = setup.start();
    let target = "/page?size=500000&gate=half";
    let url = origin.url(target);
    std::thread::scope(|scope| {
        let address = larder.address();
        let running = scope.spawn(move || testkit::client::get(&url).send(address));
        origin.await_fetches(target, 1);
        larder.signal(Signal::TERM);
        let refused = eventually(|| std::net::TcpStream::connect(address).is_err());
        assert!(refused, "it still accepts connections");
        assert!(larder.is_running(), "it left its client behind: {}", larder.said());
        origin.open("half");
        running.join().unwrap().verify(target);
    });
    assert!(larder.await_exit().is_some_and(|s| s.success()), "{}", larder.said());
    let larder = setup.start();
    assert!(larder.get(&origin.url(target)).outcome().starts_with("HIT"));
}

#[test]
fn a_second_signal_ends_at_once() {
    let (origin, setup) = (Origin::start(), Setup::forward());
    let mut larder = setup.start();
    let target = "/page?size=500000&gate=never";
    let url = origin.url(target);
    let mut stuck = larder.connect();
    stuck.send(testkit::client::get(&url).bytes());
    origin.await_fetches(target, 1);
    larder.signal(Signal::TERM);
    let address = larder.address();
    assert!(eventually(|| std::net::TcpStream::connect(address).is_err()));
    assert!(larder.is_running());
    larder.signal(Signal::TERM);
    assert!(larder.await_exit().is_some(), "{}", larder.said());
}
