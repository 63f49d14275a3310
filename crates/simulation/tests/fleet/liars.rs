//! A node beside one that answers wrongly, by an accident of its own: clients of the other get what
//! the origin has, or an end of the connection; no wrong byte, and nothing private for another.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fleet::class::Copies;
use sim::network::{Connection, Link, Listener};
use simulation::World;
use testkit::origin::{Received, ServerConnection, ok, response, response_of_length};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::nodes::start;
use crate::objects::Objects;
use crate::{client, origin};

/// The first is asked by clients, the others answer wrongly.
const NAMES: [&str; 4] = ["node-a", "node-b", "node-c", "node-d"];

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// An error, and not a word on whether it is an answer.
    Status,
    /// Success, and not a word on whether it is an answer.
    Unmarked,
    /// Marked with a word that there is not.
    Mark,
    /// No HTTP from the first question on.
    Garbage,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// A head of more bytes than are taken.
    Head,
    /// A body that ends after half of its length.
    Short,
    /// The same of every rest that is asked for.
    Shorter,
    /// The same without a validator, so that the rest cannot be had elsewhere.
    ShortUnnamed,
    /// More bytes than the length says.
    Long,
    /// For one client alone.
    Private,
    /// An age and a date that cannot be.
    Age,
}

const ALL: [Lie; 13] = [
    Lie::Status,
    Lie::Unmarked,
    Lie::Mark,
    Lie::Garbage,
    Lie::Close,
    Lie::Reset,
    Lie::Head,
    Lie::Short,
    Lie::Shorter,
    Lie::ShortUnnamed,
    Lie::Long,
    Lie::Private,
    Lie::Age,
];

impl Lie {
    /// Returns whether no question is answered by it.
    fn fails(self) -> bool {
        [Lie::Garbage, Lie::Close, Lie::Reset, Lie::Head].contains(&self)
    }
}

/// A node that lies.
#[derive(Clone)]
struct Liar {
    name: &'static str,
    lie: Lie,
    objects: Objects,
    asked: Rc<Cell<usize>>,
}

impl Liar {
    async fn serve(self, listener: Listener) {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            spawn_local(self.clone().converse(connection));
        }
    }

    /// Answers the questions of a connection.
    async fn converse(self, connection: Connection) {
        let mut connection = ServerConnection::new(connection);
        while let Ok(Some(question)) = connection.request().await {
            if question.method == "POST" {
                let _ = connection.stream.write_all(ok("", &hello(self.name)).as_bytes()).await;
                continue;
            }
            self.asked.set(self.asked.get() + 1);
            match self.lie {
                Lie::Garbage => {
                    let _ = connection.stream.write_all(&[0xff; 100]).await;
                    return;
                }
                Lie::Close => return,
                Lie::Reset => return connection.stream.reset_at_close(),
                _ => {}
            }
            let _ = connection.stream.write_all(&self.answer(&question)).await;
            if [Lie::Short, Lie::Shorter, Lie::ShortUnnamed].contains(&self.lie) {
                return;
            }
        }
    }

    /// Returns the false answer to a question.
    fn answer(&self, request: &Received) -> Vec<u8> {
        let object: u32 = request.path[1..].parse().unwrap();
        let version = self.objects.current(object);
        let body = self.objects.bytes(object, version);
        let (length, wrong) = (body.len(), b"a page of errors");
        let half = &body[..length / 2];
        let fresh = "Cache-Control: max-age=1000\r\n";
        let named = format!("ETag: \"{object}-{version}\"\r\nLarder-Fleet: HIT_RAM\r\n");
        let fields = format!("{fresh}{named}");
        match self.lie {
            Lie::Status => response(500, fresh, wrong),
            Lie::Unmarked => response(200, fresh, wrong),
            Lie::Mark => response(200, &format!("{fresh}Larder-Fleet: HIT_SOMEWHERE\r\n"), wrong),
            Lie::Garbage | Lie::Close | Lie::Reset => unreachable!(),
            Lie::Head => {
                let filler = "x".repeat(1_000);
                let more = (0..2_000).map(|number| format!("x-{number}: {filler}\r\n"));
                response(200, &(fields + &more.collect::<String>()), &body)
            }
            Lie::Short => response_of_length(200, &fields, length, half),
            Lie::Shorter => {
                let range = request.head.get("range");
                let first = range.and_then(|range| range.strip_prefix("bytes="));
                let first = first.map_or(0, |first| first.trim_end_matches('-').parse().unwrap());
                let half = &body[first..first + (length - first) / 2];
                let (status, range) = match range {
                    None => (200, String::new()),
                    Some(_) => {
                        let last = length - 1;
                        (206, format!("Content-Range: bytes {first}-{last}/{length}\r\n"))
                    }
                };
                response_of_length(status, &(fields + &range), length - first, half)
            }
            Lie::ShortUnnamed => {
                let fields = format!("{fresh}Larder-Fleet: HIT_RAM\r\n");
                response_of_length(200, &fields, length, half)
            }
            Lie::Long => {
                let long = [&body[..], b"and more"].concat();
                response_of_length(200, &fields, length, &long)
            }
            Lie::Private => {
                response(200, &format!("Cache-Control: private, max-age=1000\r\n{named}"), &body)
            }
            Lie::Age => {
                let fields = format!(
                    "{fields}Age: 99999999999999999999\r\nDate: Fri, 31 Dec 9999 23:59:59 GMT\r\n"
                );
                response(200, &fields, &body)
            }
        }
    }
}

/// Returns what a node of this name says of itself.
pub fn hello(name: &str) -> String {
    serde_json::json!({
        "member": {
            "name": name, "address": format!("{name}:7000"), "zone": "", "weight": 100, "load": 0,
            "program": "test", "protocols": fleet::Protocols::OWN.to_string(), "policy_version": 0,
            "state": "serving",
            "has_cache": true,
        },
        "vector": "",
    })
    .to_string()
}

/// Asks the node that does not lie, beside so many that do, for all objects twice; returns how many
/// answers came whole, the details, and how often those that lie were asked.
async fn ask_beside(
    world: World,
    (lie, liars): (Lie, usize),
    copies: Copies,
) -> (usize, Vec<String>, usize) {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let names = &NAMES[..=liars];
    let asked = Rc::<Cell<usize>>::default();
    for name in &names[1..] {
        let liar = Liar { name, lie, objects: objects.clone(), asked: asked.clone() };
        spawn_local(liar.serve(world.network.host(name).listen(7000).unwrap()));
    }
    let host = world.network.host(NAMES[0]);
    let node = start(&world, &host, (names, 0), copies, |_, _| ()).await;
    sleep(Duration::from_secs(5)).await;
    let before = asked.get();
    let (mut whole, mut details) = (0, Vec::new());
    for object in (0..20).chain(0..20) {
        let (to, begun) = (SocketAddr::new(host.address(), 80), began.elapsed());
        let Ok(answer) = client::get(&client, to, object).await else { continue };
        assert_eq!(answer.status, 200, "{lie:?}");
        objects.judge(object, begun, &answer);
        whole += 1;
        details.push(answer.cache_status());
    }
    assert_eq!(node.stop().await, proxy::Ended::Saved);
    (whole, details, asked.get() - before)
}

#[test]
fn what_a_node_answers_wrongly_reaches_no_client() {
    for copies in [Copies::DiscardCache, Copies::Inclusive] {
        for lie in ALL {
            let (whole, details, asked) = World::run(5, Link::default(), async |world| {
                ask_beside(world, (lie, 1), copies).await
            });
            // Where nothing names the rest it cannot be had elsewhere: the client sees the end.
            assert!(whole == 40 || lie == Lie::ShortUnnamed, "{lie:?}: {whole} {details:?}");
            assert!(asked > 0, "{lie:?}: it was not asked at all");
            // After some failures it is passed by.
            assert!(asked < 8 || !lie.fails(), "{lie:?}: asked {asked} times");
            if lie == Lie::Private {
                // Half of the objects are that node's, and none of them is kept here.
                let again = &details[20..];
                let kept = again.iter().filter(|detail| detail.ends_with("HIT_RAM")).count();
                assert!(kept <= 20 - asked / 2, "{asked} {again:?}");
            }
        }
    }
}

#[test]
fn what_breaks_off_at_all_other_nodes_comes_whole_from_the_origin() {
    for copies in [Copies::DiscardCache, Copies::Inclusive] {
        let run = async |world| ask_beside(world, (Lie::Shorter, 3), copies).await;
        let (whole, details, asked) = World::run(5, Link::default(), run);
        assert_eq!(whole, 40, "{details:?}");
        // Three of four objects are theirs, and some of the rest were asked of another.
        assert!(asked > 15, "{asked}");
    }
}
