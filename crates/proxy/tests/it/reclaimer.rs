//! More clients than the connection limit permits.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proxy::observe::event::Event;
use testkit::client::Client;
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

const ROOM: usize = 4;

fn crowded(rig: &Rig) -> u64 {
    rig.seen.metrics.total(Event::ConnectionReclaimed)
}

/// Opens a connection and sends these bytes.
fn begun(to: SocketAddr, bytes: &[u8]) -> Client {
    let mut client = Client::connect(to);
    client.send(bytes);
    client
}

#[test]
fn the_longest_idle_connection_is_closed() {
    let origin = Origin::always(ok("Cache-Control: max-age=60\r\n", "yes"));
    let rig = Rig::forward_with(|options| options.client.connections = ROOM);
    let url = origin.url("/");
    let mut clients: Vec<Client> = (0..ROOM).map(|_| rig.client()).collect();
    // The first is used again, so the second is the one that idles longest.
    for (before, at) in (0..ROOM).chain([0]).enumerate() {
        assert_eq!(clients[at].get(&url).text(), "yes");
        // Another worker may complete the next request before this one has recorded the end of its
        // own.
        let ended = || rig.seen.outcomes.lock().unwrap().len() == before + 1;
        wait_until("it is idle", ended);
    }
    assert_eq!(rig.client().get(&url).text(), "yes");
    assert_eq!(crowded(&rig), 1);
    assert!(clients[1].closed());
    for at in [0, 2, 3] {
        assert_eq!(clients[at].get(&url).text(), "yes", "{at}");
    }
}

#[test]
fn incomplete_requests_do_not_exclude_others() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for bytes in [&b""[..], b"GET / HT", b"PRI * HT", PREFACE] {
        let origin = Origin::always(ok("", "yes"));
        let rig = Rig::h2c_with(origin.address(), |options| options.client.connections = ROOM);
        let held: Vec<_> = (0..ROOM * 3).map(|_| begun(rig.address, bytes)).collect();
        let mut client = rig.client();
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(client.answer().text(), "yes", "{bytes:?}");
        assert!(crowded(&rig) > (ROOM * 2) as u64, "{bytes:?}");
        let told = held.into_iter().next().unwrap().to_end();
        // An HTTP/2 client learns that nothing was processed: the last frame is a GOAWAY.
        let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(told.ends_with(&goaway), bytes == PREFACE, "{told:?}");
    }
}

#[test]
fn no_connection_is_closed_during_a_request() {
    let (go, gone) = mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let origin = Origin::scripted(move |asked, stream| {
        if asked.head.contains("/slow") {
            gone.lock().unwrap().recv().unwrap();
        }
        stream.write_all(ok("", "yes").as_bytes()).unwrap();
        Then::Stay
    });
    let rig = Rig::forward_with(|options| options.client.connections = ROOM);
    let mut busy: Vec<Client> = (0..ROOM).map(|_| rig.client()).collect();
    for (n, client) in busy.iter_mut().enumerate() {
        let url = origin.url(&format!("/slow{n}"));
        client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address()));
    }
    origin.await_count(ROOM);
    let (address, url) = (rig.address, origin.url("/quick"));
    let further = thread::spawn(move || Client::connect(address).get(&url).text());
    thread::sleep(Duration::from_millis(300));
    assert!(!further.is_finished() && crowded(&rig) == 0);
    for _ in 0..ROOM {
        go.send(()).unwrap();
    }
    for client in &mut busy {
        assert_eq!(client.answer().text(), "yes");
    }
    assert_eq!(further.join().unwrap(), "yes");
}

#[test]
fn connections_per_address_are_limited() {
    let origin = Origin::always(ok("", "yes"));
    let rig = Rig::forward_with(|options| options.client.per_address = Some(2));
    let url = origin.url("/");
    let mut two = [rig.client(), rig.client()];
    for client in &mut two {
        assert_eq!(client.get(&url).text(), "yes");
    }
    assert!(begun(rig.address, b"").to_end().is_empty());
    assert_eq!(rig.seen.metrics.total(Event::AddressLimitReached), 1);
    drop(two);
    let again = || {
        let mut client = begun(rig.address, b"");
        client.try_send(format!("GET {url} HTTP/1.0\r\n\r\n")).is_ok()
            && client.to_end().ends_with(b"yes")
    };
    wait_until("places are free again", again);
}
