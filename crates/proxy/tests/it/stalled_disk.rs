//! A disk whose writes hang: requests still get responses, and so do purges.

use std::time::{Duration, Instant};

use testkit::client::{Client, request_text};
use testkit::origin::{Origin, ok};

use crate::rig::{Rig, empty_cache, wait_until};

/// More than the write bound, and less than the stall bound.
const SOON: Duration = Duration::from_secs(3);

fn purge(rig: &Rig, scope: &str) -> u16 {
    let mut admin = Client::connect(rig.admin);
    admin.send(format!("POST /purge?{scope} HTTP/1.1\r\nHost: localhost\r\n\r\n")).answer().status
}

fn readiness(rig: &Rig) -> String {
    let mut admin = Client::connect(rig.admin);
    admin.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().text()
}

#[test]
fn an_unusable_cache_is_reported_and_no_purge_is_lost() {
    let mut rig = Rig::forward_with(|options| options.caches = 2);
    wait_until("it is ready", || readiness(&rig).starts_with("ready"));
    assert!(readiness(&rig).contains("1 of 2 caches cannot be used"), "{}", readiness(&rig));
    rig.stop();
    // The device holds no cache.
    let device = device::MemoryDevice::new(64 << 20, 4096);
    for (caches, status) in [(0, 400), (1, 503)] {
        let mut rig = Rig::forward_with_on(device.clone(), |options| options.caches = caches);
        assert_eq!(purge(&rig, "everything=1"), status);
        rig.stop();
    }
}

#[test]
fn responses_and_purges_do_not_wait_for_hanging_writes() {
    let body = "x".repeat(3_000);
    let origin = Origin::always(ok("Cache-Control: max-age=600\r\nSurrogate-Key: red\r\n", &body));
    let mut rig = Rig::forward_on(empty_cache());
    let mut client = rig.client();
    for path in ["/replaced", "/put", "/purged", "/hit"] {
        assert_eq!(client.get(&origin.url(path)).status, 200);
    }
    let before = rig.device.counts().writes;
    wait_until("it is written", || rig.device.counts().writes > before);
    rig.device.hold();
    let begun = Instant::now();
    let reload = client.get_with(&origin.url("/replaced"), "Cache-Control: no-cache\r\n");
    assert_eq!((reload.status, reload.body.len()), (200, body.len()));
    let put = request_text("PUT", &origin.url("/put"), "Content-Length: 0\r\n");
    assert_eq!(client.send(put).answer().status, 200);
    assert_eq!(client.get(&origin.url("/new")).status, 200);
    assert_eq!(client.get(&origin.url("/hit")).detail(), "HIT_RAM");
    assert_eq!(purge(&rig, &format!("url={}", origin.url("/purged"))), 503);
    assert_eq!([purge(&rig, "tag=red"), purge(&rig, "tag=red&soft=1")], [503, 503]);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(readiness(&rig).contains("1 of 1 caches stall"), "{}", readiness(&rig));
    rig.device.release_all();
    wait_until("it writes again", || readiness(&rig) == "ready\n");
    assert_eq!(purge(&rig, "tag=red"), 200);
    assert_eq!(client.get(&origin.url("/put")).detail(), "MISS");
    rig.stop();
}
