//! A node beside one that answers wrongly, by an accident of its own: clients of the other get what
//! the origin has, or an end of the connection; no wrong byte, and nothing private for another.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fleet::class::Copies;
use fleet::{LogPosition, PurgePositions};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Method, Request, Response};
use sim::network::{Link, Listener};
use simulation::World;
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::nodes::start;
use crate::objects::Objects;
use crate::{client, origin};

const NAMES: [&str; 2] = ["node-a", "node-b"];

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// An error, and not a word on whether it is an answer.
    Status,
    /// Success, and not a word on whether it is an answer.
    Unmarked,
    /// Marked with a word that there is not.
    Mark,
    /// No HTTP/2 from the first question on.
    Garbage,
    /// The question is reset.
    Reset,
    /// The connection is ended as for an attack.
    GoAway,
    /// A head of more bytes than are taken.
    Head,
    /// A body that ends after half of its length.
    Short,
    /// The same without a validator, so that the rest cannot be had elsewhere.
    ShortUnnamed,
    /// More bytes than the length says.
    Long,
    /// For one client alone.
    Private,
    /// An age and a date that cannot be.
    Age,
}

const ALL: [Lie; 12] = [
    Lie::Status,
    Lie::Unmarked,
    Lie::Mark,
    Lie::Garbage,
    Lie::Reset,
    Lie::GoAway,
    Lie::Head,
    Lie::Short,
    Lie::ShortUnnamed,
    Lie::Long,
    Lie::Private,
    Lie::Age,
];

impl Lie {
    /// Returns whether no question is answered by it.
    fn fails(self) -> bool {
        [Lie::Garbage, Lie::Reset, Lie::GoAway, Lie::Head].contains(&self)
    }
}

/// The node that lies.
#[derive(Clone)]
struct Liar {
    lie: Lie,
    objects: Objects,
    asked: Rc<Cell<usize>>,
}

impl Liar {
    async fn serve(self, listener: Listener) {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let liar = self.clone();
            spawn_local(async move {
                if liar.lie == Lie::Garbage && liar.asked.get() > 0 {
                    liar.note();
                    let _ = connection.write_all(&[0xff; 100]).await;
                    return;
                }
                let Ok(mut http) = h2::server::handshake(connection).await else { return };
                while let Some(Ok((request, reply))) = http.accept().await {
                    if request.method() == Method::GET && liar.lie == Lie::GoAway {
                        liar.note();
                        http.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                        continue;
                    }
                    spawn_local(liar.clone().answer(request, reply));
                }
            });
        }
    }

    fn note(&self) {
        self.asked.set(self.asked.get() + 1);
    }

    async fn answer(self, request: Request<RecvStream>, mut reply: SendResponse<Bytes>) {
        if request.method() == Method::POST {
            let mut sink = reply.send_response(Response::new(()), false).unwrap();
            sink.send_data(hello().into(), true).unwrap();
            return;
        }
        self.note();
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
            Lie::Garbage | Lie::Reset | Lie::GoAway => return reply.send_reset(Reason::CANCEL),
            Lie::Head => {
                let filler = "x".repeat(1_000);
                let mut answer = named(answer);
                for number in 0..2_000 {
                    answer = answer.header(format!("x-{number}"), &filler);
                }
                (answer, body)
            }
            Lie::Short => (sized(named(answer)), half),
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
        let Ok(mut sink) = reply.send_response(answer.body(()).unwrap(), false) else { return };
        let _ = sink.send_data(body, true);
    }
}

/// What it says of itself.
fn hello() -> String {
    let positions = PurgePositions::default().to_string();
    serde_json::json!({
        "member": {
            "name": "node-b", "address": "node-b:7000", "zone": "", "weight": 1, "load": 0,
            "program": "test", "protocols": fleet::Protocols::OWN.to_string(), "policy_version": 0,
            "state": "serving",
            "purges": LogPosition::default().to_string(),
        },
        "positions": positions,
    })
    .to_string()
}

/// Asks the other node for all objects twice; returns how many answers came whole, the details, and
/// how often the node that lies was asked.
async fn ask_beside(world: World, lie: Lie, copies: Copies) -> (usize, Vec<String>, usize) {
    let began = Instant::now();
    let objects = Objects::lasting(world.seed, began);
    let [origin, client] = ["origin", "client"].map(|name| world.network.host(name));
    spawn_local(origin::serve(origin.listen(80).unwrap(), objects.clone(), world.clock));
    let [host, false_host] = NAMES.map(|name| world.network.host(name));
    let liar = Liar { lie, objects: objects.clone(), asked: Rc::default() };
    spawn_local(liar.clone().serve(false_host.listen(7000).unwrap()));
    let node = start(&world, &host, (&NAMES, 0), copies, |_, _| ()).await;
    sleep(Duration::from_secs(5)).await;
    let before = liar.asked.get();
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
    (whole, details, liar.asked.get() - before)
}

#[test]
fn what_a_node_answers_wrongly_reaches_no_client() {
    for copies in [Copies::DiscardCache, Copies::Inclusive] {
        for lie in ALL {
            let (whole, details, asked) =
                World::run(5, Link::default(), async |world| ask_beside(world, lie, copies).await);
            // Where nothing names the rest it cannot be had elsewhere: the client sees the end.
            assert!(whole == 40 || lie == Lie::ShortUnnamed, "{lie:?}: {whole} {details:?}");
            assert!(asked > 0 || lie == Lie::Garbage, "{lie:?}: it was not asked at all");
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
