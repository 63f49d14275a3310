//! A node beside one that answers wrongly, by an accident of its own: clients of the other get what
//! the origin has, or an end of the connection; no wrong byte, and nothing private for another.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fleet::class::Copies;
use fleet::{LogPosition, PurgePositions};
use http::{Method, Request, Response};
use sim::network::{Connection, Link, Listener};
use simulation::World;
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::false_node::{read_question, send_answer};
use crate::nodes::start;
use crate::objects::Objects;
use crate::{client, origin};

/// The first is asked by clients, the others answer wrongly.
const NAMES: [&str; 4] = ["node-a", "node-b", "node-c", "node-d"];

/// What is wrong with an answer.
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
    async fn converse(self, mut connection: Connection) {
        while let Some(question) = read_question(&mut connection).await {
            if question.method() == Method::POST {
                let answer = Response::new(hello(self.name).into());
                send_answer(&mut connection, answer).await;
                continue;
            }
            self.asked.set(self.asked.get() + 1);
            match self.lie {
                Lie::Garbage => {
                    let _ = connection.write_all(&[0xff; 100]).await;
                    return;
                }
                Lie::Close => return,
                Lie::Reset => return connection.reset_at_close(),
                _ => {}
            }
            send_answer(&mut connection, self.answer(&question)).await;
            if [Lie::Short, Lie::Shorter, Lie::ShortUnnamed].contains(&self.lie) {
                return;
            }
        }
    }

    /// Returns the false answer to a question.
    fn answer(&self, request: &Request<()>) -> Response<Bytes> {
        let object: u32 = request.uri().path()[1..].parse().unwrap();
        let version = self.objects.current(object);
        let body = self.objects.bytes(object, version);
        let answer = Response::builder().header("Cache-Control", "max-age=1000");
        let named = |answer: http::response::Builder| {
            answer
                .header("ETag", format!("\"{object}-{version}\""))
                .header("Larder-Fleet", "HIT_RAM")
        };
        let (length, wrong) = (body.len(), Bytes::from_static(b"a page of errors"));
        let half = body.slice(..length / 2);
        let long = Bytes::from([&body[..], b"and more"].concat());
        let sized = |answer: http::response::Builder| answer.header("Content-Length", length);
        let (answer, body) = match self.lie {
            Lie::Status => (answer.status(500), wrong),
            Lie::Unmarked => (answer, wrong),
            Lie::Mark => (answer.header("Larder-Fleet", "HIT_SOMEWHERE"), wrong),
            Lie::Garbage | Lie::Close | Lie::Reset => unreachable!(),
            Lie::Head => {
                let filler = "x".repeat(1_000);
                let mut answer = named(answer);
                for number in 0..2_000 {
                    answer = answer.header(format!("x-{number}"), &filler);
                }
                (answer, body)
            }
            Lie::Short => (sized(named(answer)), half),
            Lie::Shorter => {
                let range = request.headers().get("Range").and_then(|range| range.to_str().ok());
                let first = range.and_then(|range| range.strip_prefix("bytes="));
                let first = first.map_or(0, |first| first.trim_end_matches('-').parse().unwrap());
                let half = body.slice(first..first + (length - first) / 2);
                let answer = match range {
                    None => answer,
                    Some(_) => answer
                        .status(206)
                        .header("Content-Range", format!("bytes {first}-{}/{length}", length - 1)),
                };
                (named(answer).header("Content-Length", length - first), half)
            }
            Lie::ShortUnnamed => (sized(answer.header("Larder-Fleet", "HIT_RAM")), half),
            Lie::Long => (sized(named(answer)), long),
            Lie::Private => {
                let answer = Response::builder().header("Cache-Control", "private, max-age=1000");
                (sized(named(answer)), body)
            }
            Lie::Age => {
                let answer = named(answer).header("Age", "99999999999999999999");
                (sized(answer.header("Date", "Fri, 31 Dec 9999 23:59:59 GMT")), body)
            }
        };
        answer.body(body).unwrap()
    }
}

/// What a node of this name says of itself.
pub fn hello(name: &str) -> String {
    let positions = PurgePositions::default().to_string();
    serde_json::json!({
        "member": {
            "name": name, "address": format!("{name}:7000"), "zone": "", "weight": 1, "load": 0,
            "program": "test", "protocols": fleet::Protocols::OWN.to_string(), "policy_version": 0,
            "state": "serving",
            "purges": LogPosition::default().to_string(),
        },
        "positions": positions,
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
        details.push(answer.detail);
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
