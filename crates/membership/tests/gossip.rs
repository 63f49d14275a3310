//! Nodes that gossip over real sockets. Deadlines are generous, and no time is asserted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use fleet::member::State;
use fleet::{Member, Protocols};
use membership::Membership;
use membership::gossip::{Gossip, Settings, StartError};
use net::clock::TokioClock;

const DEADLINE: Duration = Duration::from_secs(60);
const KEY: Option<[u8; 32]> = Some([7; 32]);

fn member(name: &str) -> Member {
    Member {
        id: name.parse().unwrap(),
        address: format!("{name}.example:8080").parse().unwrap(),
        zone: format!("zone of {name}").into(),
        weight: 3,
        load: 0,
        program: "0.1.0".into(),
        protocols: Protocols::OWN,
        policy_version: 7,
        disk_failed: false,
        has_cache: true,
        state: State::Serving,
    }
}

fn settings(name: &str, key: Option<[u8; 32]>, seeds: &[String]) -> Settings {
    Settings {
        fleet: "test".to_owned(),
        bind: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        own: member(name),
        seeds: seeds.iter().map(|seed| seed.parse().unwrap()).collect(),
        name_servers: Vec::new(),
        key,
    }
}

fn node(name: &str, key: Option<[u8; 32]>, seeds: &[&Gossip]) -> Gossip {
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.address().to_string()).collect();
    Gossip::start(settings(name, key, &seeds), TokioClock::system()).unwrap()
}

fn names(node: &dyn Membership) -> Vec<String> {
    node.members().iter().map(|member| member.id.to_string()).collect()
}

fn lost(node: &dyn Membership) -> Vec<String> {
    node.lost().iter().map(|lost| lost.member.id.to_string()).collect()
}

fn known(node: &dyn Membership, name: &str) -> Option<Member> {
    node.members().get(&name.parse().unwrap()).cloned()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = TokioClock::system();
    while !holds() {
        assert!(clock.running() < DEADLINE, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn three_nodes_find_each_other_and_notice_who_goes_and_who_comes_back() {
    let a = node("a", KEY, &[]);
    let b = node("b", KEY, &[&a]);
    let c = node("c", KEY, &[&b]);
    assert_eq!(names(&a)[0], "a", "a node is in its view from the start");
    for node in [&a, &b, &c] {
        until("all know all", || names(node) == ["a", "b", "c"]);
    }
    assert_eq!(known(&a, "c"), Some(member("c")), "all facts come along");

    let mut changes = a.changes();
    c.announce(&Member { load: 1_000, policy_version: 8, ..member("c") });
    let expected = Member { load: 960, policy_version: 8, ..member("c") };
    until("what changed is known", || known(&a, "c").as_ref() == Some(&expected));
    assert!(changes.has_changed().unwrap());
    assert_eq!(known(&c, "c").unwrap().load, 1_000, "a node knows its own load");
    changes.mark_unchanged();

    drop(c);
    for node in [&a, &b] {
        until("the killed node is out of the view", || names(node) == ["a", "b"]);
        assert_eq!(lost(node), ["c"]);
        assert_eq!(node.lost()[0].member, expected);
    }

    let mut elsewhere = settings("c", KEY, &[b.address().to_string()]);
    elsewhere.own.address = "elsewhere.example:1".parse().unwrap();
    let c = Gossip::start(elsewhere, TokioClock::system()).unwrap();
    for node in [&a, &b] {
        until("it is back", || known(node, "c").is_some());
        assert_eq!(known(node, "c").unwrap().address.host(), "elsewhere.example");
        until("nobody is lost", || lost(node).is_empty());
    }
    for node in [&a, &b, &c] {
        let figures = node.figures();
        assert!(figures.sent > 0 && figures.received > 0);
        assert_eq!((figures.unopened, figures.malformed, figures.restarts), (0, 0, 0));
        assert_eq!((figures.oversized, figures.unsent, figures.crowded), (0, 0, 0));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_that_leaves_in_order_announces_it() {
    let a = node("a", KEY, &[]);
    let b = node("b", KEY, &[&a]);
    until("both are there", || names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
    let state = |name| known(&a, name).map(|member| member.state);
    b.leave().await;
    b.announce(&member("b"));
    until("it is known to leave", || state("b") == Some(State::Leaving));
    assert_eq!(known(&b, "b").unwrap().state, State::Leaving, "nothing takes it back");
    drop(b);
    until("it has left", || lost(&a) == ["b"]);
    assert_eq!(a.lost()[0].member.state, State::Leaving);
}

#[test]
fn a_node_without_the_key_sees_no_other_node() {
    let a = node("a", KEY, &[]);
    let b = node("b", KEY, &[&a]);
    let wrong = node("wrong", Some([8; 32]), &[&a, &b]);
    let open = node("open", None, &[&a, &b]);
    until("those with the key are together", || names(&a) == ["a", "b"]);
    until("the others were heard", || a.figures().unopened > 4 && b.figures().unopened > 4);
    assert!(names(&a).iter().chain(&names(&b)).all(|name| name == "a" || name == "b"));
    assert_eq!(names(&wrong), ["wrong"]);
    assert_eq!(names(&open), ["open"]);
    assert_eq!((wrong.figures().received, open.figures().received), (0, 0), "nobody answers");
}

#[test]
fn another_fleet_on_the_same_network_is_not_joined() {
    let a = node("a", None, &[]);
    let mut other = settings("b", None, &[a.address().to_string()]);
    other.fleet = "other".to_owned();
    let b = Gossip::start(other, TokioClock::system()).unwrap();
    until("they have met", || b.figures().received > 1);
    assert_eq!((names(&a), names(&b)), (vec!["a".to_owned()], vec!["b".to_owned()]));
}

#[test]
fn a_name_and_this_node_itself_may_be_seeds() {
    let a = node("a", KEY, &[]);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = free.local_addr().unwrap();
    let by_name = format!("localhost:{}", a.address().port());
    let seeds = ["none.invalid:7".to_owned(), own.to_string(), by_name];
    drop(free);
    let b = Settings { bind: own, ..settings("b", KEY, &seeds) };
    let b = Gossip::start(b, TokioClock::system()).unwrap();
    until("they are together", || names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
}

#[test]
fn of_two_nodes_of_one_name_the_newer_waits_until_the_other_is_gone() {
    let a = node("a", KEY, &[]);
    let older = node("same", KEY, &[&a]);
    until("it is known", || names(&a) == ["a", "same"]);
    let mut newer = settings("same", KEY, &[a.address().to_string()]);
    newer.own.address = "newer.example:1".parse().unwrap();
    let newer = Gossip::start(newer, TokioClock::system()).unwrap();
    fn state(node: &Gossip) -> State {
        known(node, "same").unwrap().state
    }
    until("the newer one leaves", || state(&newer) == State::Leaving);
    assert_eq!(newer.name_in_use(), Some(older.address()));
    assert_eq!((state(&older), older.name_in_use()), (State::Serving, None));
    let host = || known(&a, "same").map(|member| member.address.host().to_owned());
    assert_eq!(host().as_deref(), Some("same.example"));
    drop(older);
    until("the newer one counts", || host().as_deref() == Some("newer.example"));
    until("it serves", || state(&newer) == State::Serving && newer.name_in_use().is_none());
}

#[test]
fn hostile_datagrams_change_nothing_in_a_fleet_with_a_key() {
    let a = node("a", KEY, &[]);
    let b = node("b", KEY, &[&a]);
    until("both are there", || names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
    let sent = attack(a.address(), &captured(KEY), 5_000);
    until("they came", || a.figures().unopened + a.figures().malformed > sent / 2);
    let b_is = Some(member("b"));
    until("the view is as before", || names(&a) == ["a", "b"] && known(&a, "b") == b_is);
    assert_eq!(a.figures().restarts, 0);
}

#[test]
fn hostile_datagrams_do_not_end_gossip_without_a_key() {
    let a = node("a", None, &[]);
    let sent = attack(a.address(), &captured(None), 5_000);
    until("they came", || a.figures().malformed > sent / 2);
    let b = node("b", None, &[&a]);
    until("it gossips as before", || known(&a, "b").is_some() && known(&b, "a").is_some());
    assert_eq!(a.figures().restarts, 0);
}

/// Messages that make `chitchat` panic, or that change a node's facts about itself.
#[test]
fn forged_messages_are_refused_without_a_key() {
    let a = node("a", None, &[]);
    let b = node("b", None, &[&a]);
    until("both are there", || names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The node in the only digest of a fresh node's message: name, generation, address.
    let nodes = [&a, &b].map(|known| id_of(known, &socket));
    for id in &nodes {
        let begin = [&[0][..], id, &[0; 16]].concat();
        let fact = |version: u64| {
            [&[1][..], b"\x01\0s\x07\0leaving", &version.to_le_bytes(), &[0]].concat()
        };
        let highest = |version: u64| [&[2][..], &version.to_le_bytes()].concat();
        for operations in [
            [begin.clone(), fact(1_000), highest(999)].concat(),
            [begin.clone(), fact(u64::MAX)].concat(),
            [begin, highest(u64::MAX)].concat(),
        ] {
            let length = (operations.len() as u16).to_le_bytes();
            let message = [&[0x53, 0xb0, 0, 2, 2], &length[..], &operations, &[0]].concat();
            socket.send_to(&message, a.address()).unwrap();
        }
    }
    until("all are refused", || a.figures().malformed == 6);
    a.announce(&Member { weight: 4, ..member("a") });
    until("it tells of itself as before", || known(&b, "a").unwrap().weight == 4);
    assert_eq!(known(&b, "a").unwrap().state, State::Serving);
    assert_eq!(a.figures().restarts, 0);
}

/// A node's knowledge stays small enough for its messages to fit into datagrams.
#[test]
fn invented_members_are_admitted_while_there_is_room() {
    let a = node("a", None, &[]);
    let b = node("b", None, &[&a]);
    until("both are there", || names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for i in 0..60_u16 {
        let nodes = (0..50_u16).map(|k| {
            let name = format!("{:0>64}", i * 50 + k);
            let address = [&[4, 127, 0, 0, 1][..], &9_u16.to_le_bytes()].concat();
            [b"@\0", name.as_bytes(), &[0; 8], &address, &[1; 1], &[0; 23]].concat()
        });
        let nodes = nodes.collect::<Vec<_>>().concat();
        let syn = [&[0x53, 0xb0, 0, 0, 50, 0][..], &nodes, b"\x04\0test"].concat();
        socket.send_to(&syn, a.address()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    until("there is no room", || a.figures().crowded > 40 && b.figures().received > 0);
    a.announce(&Member { weight: 4, ..member("a") });
    until("they gossip as before", || known(&b, "a").unwrap().weight == 4);
    for node in [&a, &b] {
        until("nobody lives by being named", || names(node) == ["a", "b"]);
        assert_eq!((node.figures().restarts, node.figures().oversized), (0, 0));
    }
}

#[test]
fn settings_that_cannot_work_are_errors() {
    let start = |change: fn(&mut Settings)| {
        let mut settings = settings("a", None, &[]);
        change(&mut settings);
        Gossip::start(settings, TokioClock::system()).map(drop).unwrap_err()
    };
    let error = start(|settings| settings.fleet = String::new());
    assert!(matches!(error, StartError::FleetName));
    let error = start(|settings| settings.bind = ([0, 0, 0, 0], 0).into());
    assert!(matches!(error, StartError::Unreachable(_)), "{error}");
    let error = start(|settings| settings.own.zone = "a\nb".into());
    assert_eq!(
        error.to_string(),
        "this node cannot be a member: \"a\\nb\" is not a valid zone of a member"
    );
    let error = start(|settings| settings.bind = ([192, 0, 2, 1], 1).into());
    assert!(matches!(error, StartError::System(..)), "{error}");
}

/// Returns datagrams that a real node sends.
fn captured(key: Option<[u8; 32]>) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let seeds = [socket.local_addr().unwrap().to_string()];
    let node = Gossip::start(settings("seen", key, &seeds), TokioClock::system()).unwrap();
    let mut buffer = [0; 65_536];
    let mut datagrams = Vec::new();
    for _ in 0..3 {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        let first = buffer[..length].to_vec();
        assert_eq!(from, node.address());
        // Its own first message is answered with its second.
        socket.send_to(&first, from).unwrap();
        datagrams.push(first);
    }
    datagrams
}

/// Returns the encoding of a node in messages.
fn id_of(node: &Gossip, socket: &UdpSocket) -> Vec<u8> {
    // A digest without nodes: the response has the digest of all.
    let syn = [&[0x53, 0xb0, 0, 0, 0, 0][..], b"\x04\0test"].concat();
    socket.send_to(&syn, node.address()).unwrap();
    let mut buffer = [0; 65_536];
    let (length, _) = socket.recv_from(&mut buffer).unwrap();
    let own = [&node.address().port().to_le_bytes()[..]].concat();
    // Names here have one letter: 2 + 1 bytes, then 8 of the generation, 5 of the IP, 2 of the
    // port.
    let at = (6..length - 18).find(|at| buffer[at + 16..at + 18] == own[..]).unwrap();
    buffer[at..at + 18].to_vec()
}

/// Sends random datagrams and mutated real ones; returns the number sent.
fn attack(to: SocketAddr, real: &[Vec<u8>], count: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for i in 0..count {
        let mut datagram = match random.u8(0..4) {
            0 => (0..random.usize(0..2_000)).map(|_| random.u8(..)).collect(),
            _ => random.choice(real).unwrap().clone(),
        };
        for _ in 0..random.usize(1..8) {
            if datagram.is_empty() {
                break;
            }
            let at = random.usize(..datagram.len());
            match random.u8(0..4) {
                0 => datagram.truncate(at),
                1 => datagram.insert(at, random.u8(..)),
                _ => datagram[at] = random.u8(..),
            }
        }
        socket.send_to(&datagram, to).unwrap();
        if i % 50 == 0 {
            // No more at a time than a socket buffers.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    count
}

/// Returns a test's seed, from `LARDER_SEED` if set, and prints it.
fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LARDER_SEED={seed}");
    seed
}
