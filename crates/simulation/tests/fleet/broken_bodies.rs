//! A node among others whose answers all break off, and the rests that they are asked for again:
//! its clients get every body whole, the last rest of it from the origin.
//!
//! The others are no proxies: each answers with half of what it is asked for. That they are asked
//! before the origin they bring about as nodes do: by a question for the same document, after which
//! who was asked takes them for holders of a copy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fleet::class::{Copies, Eviction, Lookup, Replication};
use fleet::{ClassTable, Policy};
use sim::network::{Connection, Host, Link, Listener};
use simulation::{Running, World};
use testkit::origin::{
    Received, ServerConnection, Then, ok, response, response_of_length, serve_connection,
};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::client;
use crate::liars::hello;
use crate::nodes::start;
use crate::objects::Objects;

/// The first is asked by clients, the answers of the others break off.
const NAMES: [&str; 4] = ["node-a", "node-b", "node-c", "node-d"];

/// How many objects are asked for.
const COUNT: u32 = 20;

/// A question that one of the others was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    node: &'static str,
    /// How far it is to go for an answer.
    reach: String,
    /// The first byte that it is asked for.
    first: usize,
}

/// State that the other nodes and the origin share.
struct Script {
    objects: Objects,
    /// Bodies break off from now on.
    breaks: Cell<bool>,
    /// Bodies that break off stop, and their connections stay open.
    hangs: bool,
    /// Number of responses of the origin that break off for each object. Until then no other node
    /// answers for the rest.
    cuts: usize,
    /// Owner of each object, and the hash of its key, as questions name it.
    keys: RefCell<BTreeMap<u32, (&'static str, String)>>,
    /// Questions since bodies break off, by object.
    asked: RefCell<BTreeMap<u32, Vec<Asked>>>,
}

impl Script {
    /// How often the origin was asked for an object.
    fn fetches(&self, object: u32) -> usize {
        self.objects.asked().get(&object).copied().unwrap_or(0)
    }
}

/// A node whose answers break off.
#[derive(Clone)]
struct Other {
    name: &'static str,
    script: Rc<Script>,
}

impl Other {
    async fn serve(self, listener: Listener) {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            spawn_local(self.clone().converse(connection));
        }
    }

    /// Answers the questions of a connection, up to the first answer that breaks off.
    async fn converse(self, connection: Connection) {
        let mut connection = ServerConnection::new(connection);
        while let Ok(Some(question)) = connection.request().await {
            if question.method == "POST" {
                let _ = connection.stream.write_all(ok("", &hello(self.name)).as_bytes()).await;
                continue;
            }
            let answer = self.answer(&question);
            let breaks = self.script.breaks.get();
            let Some((status, fields, body)) = answer else {
                let _ = connection.stream.write_all(&response(503, "", b"")).await;
                continue;
            };
            let sent = if breaks { &body[..body.len() / 2] } else { &body[..] };
            let bytes = response_of_length(status, &fields, body.len(), sent);
            let _ = connection.stream.write_all(&bytes).await;
            if breaks {
                // By then it has arrived.
                let for_time = if self.script.hangs { 100_000 } else { 1 };
                sleep(Duration::from_secs(for_time)).await;
                return connection.stream.reset_at_close();
            }
        }
    }

    /// Returns status, fields and body of the whole answer to a question; `None` for a refusal.
    fn answer(&self, request: &Received) -> Option<(u16, String, Bytes)> {
        let (object, first) = (object_of(&request.path), first_byte(request));
        self.note(object, first, request.head.get("larder-fleet").unwrap());
        if first > 0 && self.script.fetches(object) < self.script.cuts {
            return None;
        }
        let body = self.script.objects.bytes(object, 0);
        let (last, length) = (body.len() - 1, body.len());
        let fields = format!(
            "Cache-Control: max-age=1000\r\nETag: {}\r\nLarder-Fleet: HIT_RAM\r\n",
            etag(object)
        );
        let (status, range) = match request.head.get("range") {
            None => (200, String::new()),
            Some(_) => (206, format!("Content-Range: bytes {first}-{last}/{length}\r\n")),
        };
        Some((status, fields + &range, body.slice(first..)))
    }

    /// Notes a question.
    fn note(&self, object: u32, first: usize, question: &str) {
        let words: Vec<&str> = question.split(' ').collect();
        let [_, _, _, reach, _, key, ..] = words[..] else { panic!("{question}") };
        if self.script.breaks.get() {
            let asked = Asked { node: self.name, reach: reach.to_owned(), first };
            self.script.asked.borrow_mut().entry(object).or_default().push(asked);
        } else {
            // At first only its owner is asked.
            let mut keys = self.script.keys.borrow_mut();
            keys.entry(object).or_insert((self.name, key.to_owned()));
        }
    }
}

fn object_of(path: &str) -> u32 {
    path[1..].parse().unwrap()
}

fn etag(object: u32) -> String {
    format!("\"{object}-0\"")
}

/// The first byte of the range that is asked for, whose last is that of the object.
fn first_byte(request: &Received) -> usize {
    let Some(range) = request.head.get("range") else { return 0 };
    range.strip_prefix("bytes=").unwrap().split_once('-').unwrap().0.parse().unwrap()
}

/// The origin, which knows no ranges.
async fn serve_origin(listener: Listener, script: Rc<Script>) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let script = script.clone();
        spawn_local(async move {
            let respond = async |request: Received| {
                let object = object_of(&request.path);
                script.objects.note_asked(object);
                let (body, etag) = (script.objects.bytes(object, 0), etag(object));
                let is_cut = script.breaks.get() && script.fetches(object) <= script.cuts;
                let sent = if is_cut { body.len() / 2 } else { body.len() };
                let fields =
                    format!("ETag: {etag}\r\nCache-Control: max-age=1000\r\nConnection: close\r\n");
                (response_of_length(200, &fields, body.len(), &body[..sent]), Then::Close)
            };
            serve_connection(connection, respond).await.unwrap();
        });
    }
}

/// Asks the first node for an object in the name of another one, which that takes for a holder of a
/// copy from then on.
async fn ask_as(other: &Host, name: &str, to: SocketAddr, (object, key): (u32, &str)) {
    let request = testkit::client::get(&format!("/{object}"))
        .header("Host", "site.test")
        .header("Larder-Fleet", &format!("1 {name} 1 origin drop {key} http 192.0.2.1:1 *"))
        .header("Larder-Purges", "");
    let (reply, _) = request.exchange(other.connect(to).await.unwrap()).await.unwrap();
    assert!(reply.status == 200 && reply.whole, "{reply:?}");
}

/// Result of the requests for one object.
struct Outcome {
    object: u32,
    length: usize,
    owner: &'static str,
    detail: String,
    asked: Vec<Asked>,
    /// How often the origin was asked.
    fetches: usize,
}

/// Puts a policy in force at the node.
fn follow(node: &Running, lookup: Lookup, copies: Copies, replication: Replication) {
    let policy = Policy { lookup, copies, eviction: Eviction::DROP, replication };
    let classes = ClassTable::new(1, Vec::new(), policy).unwrap();
    node.node.as_ref().unwrap().set_classes(classes);
}

/// Has the first node take the others for holders of all that they own, then breaks off all
/// answers and asks it for that.
async fn ask_among(
    world: World,
    copies: Copies,
    replication: Replication,
    (cuts, hangs): (usize, bool),
) -> Vec<Outcome> {
    let objects = Objects::lasting(world.seed, Instant::now());
    let script = Rc::new(Script {
        objects: objects.clone(),
        breaks: Cell::default(),
        hangs,
        cuts,
        keys: RefCell::default(),
        asked: RefCell::default(),
    });
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(serve_origin(origin.listen(80).unwrap(), script.clone()));
    for name in &NAMES[1..] {
        let other = Other { name, script: script.clone() };
        spawn_local(other.serve(world.network.host(name).listen(7000).unwrap()));
    }
    let host = world.network.host(NAMES[0]);
    let node = start(&world, &host, (&NAMES, 0), Copies::DiscardCache, |_, _| ()).await;
    let [for_clients, for_nodes] = [80, 7000].map(|port| SocketAddr::new(host.address(), port));
    sleep(Duration::from_secs(5)).await;
    // What it reads from others does not enter its memory, and its disk by this replication alone.
    follow(&node, Lookup::OWNER, Copies::DiscardCache, replication);
    for object in 0..COUNT {
        client::get(&client, for_clients, object).await.unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    follow(&node, Lookup::COOPERATE, Copies::Inclusive, replication);
    let keys = script.keys.borrow().clone();
    for (object, (owner, key)) in &keys {
        for name in NAMES[1..].iter().filter(|name| *name != owner) {
            ask_as(&world.network.host(name), name, for_nodes, (*object, key)).await;
        }
    }
    follow(&node, Lookup::COOPERATE, copies, replication);
    script.breaks.set(true);
    let mut outcomes = Vec::new();
    for (object, (owner, _)) in keys {
        assert_eq!(script.fetches(object), 0);
        let answer = client::get(&client, for_clients, object).await;
        let asked = script.asked.borrow_mut().remove(&object).unwrap_or_default();
        let answer = answer.unwrap_or_else(|error| panic!("{object}: {error}, {asked:?}"));
        let body = objects.bytes(object, 0);
        assert!(answer.status == 200 && answer.body == body, "{object}: {answer:?} {asked:?}");
        let (length, detail, fetches) = (body.len(), answer.cache_status(), script.fetches(object));
        outcomes.push(Outcome { object, length, owner, detail, asked, fetches });
    }
    assert_eq!(node.stop().await, proxy::Ended::Saved);
    assert!(outcomes.len() > COUNT as usize / 2, "{} are others'", outcomes.len());
    outcomes
}

fn run(copies: Copies, replication: Replication, how: (usize, bool)) -> Vec<Outcome> {
    World::run(5, Link::default(), async |world| ask_among(world, copies, replication, how).await)
}

/// The reach and the first byte of each question.
fn questions(of: &Outcome) -> Vec<(&str, usize)> {
    of.asked.iter().map(|asked| (&*asked.reach, asked.first)).collect()
}

#[test]
fn the_last_rest_comes_from_the_origin_where_all_other_nodes_break_off_or_hang() {
    // What comes passes through as it is, or is stored on its way.
    for (copies, hangs) in [
        (Copies::DiscardCache, false),
        (Copies::Inclusive, false),
        (Copies::DiscardCache, true),
        (Copies::Inclusive, true),
    ] {
        for of in run(copies, Replication::ONE, (0, hangs)) {
            let half = of.length / 2;
            let more = half + (of.length - half) / 2;
            let expected = [("memory", 0), ("memory", half), ("origin", more)];
            assert_eq!(questions(&of), expected, "{copies:?} {}", of.object);
            let nodes: Vec<_> = of.asked.iter().map(|asked| asked.node).collect();
            assert!(nodes[0] != nodes[1] && nodes[2] == of.owner, "{nodes:?} {}", of.owner);
            assert!(!nodes[..2].contains(&of.owner), "{nodes:?} {}", of.owner);
            assert_eq!(of.fetches, 1, "{copies:?} {}", of.object);
        }
    }
}

#[test]
fn no_other_node_is_asked_for_the_last_rest() {
    for copies in [Copies::DiscardCache, Copies::Inclusive] {
        for of in run(copies, Replication::ONE, (2, false)) {
            // Twice the two that have not answered refuse, and what the origin sends breaks off.
            let reaches: Vec<_> = of.asked.iter().map(|asked| &*asked.reach).collect();
            let expected = ["memory", "memory", "origin", "memory", "origin"];
            assert_eq!(reaches, expected, "{copies:?} {}", of.object);
            assert_eq!(of.fetches, 3, "{copies:?} {}", of.object);
        }
    }
}

#[test]
fn the_rest_of_what_another_memory_breaks_off_comes_from_the_origin() {
    for of in run(Copies::Inclusive, Replication::All, (0, false)) {
        assert!(of.detail.ends_with("HIT_PEER"), "{}: {}", of.object, of.detail);
        assert_eq!(questions(&of), [("memory", 0)], "{}", of.object);
        assert_eq!(of.fetches, 1, "{}", of.object);
    }
}
