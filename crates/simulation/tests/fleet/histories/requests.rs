//! The requests of a history's clients, each judged by what is true.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use sim::network::Host;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::histories::client;
use crate::histories::client::Failed;
use crate::histories::nodes::{Nodes, name};
use crate::histories::truth::{COUNT, Truth};

/// Every request ends within this time.
const PATIENCE: Duration = Duration::from_secs(200);

/// A request as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub begun: Duration,
    pub ended: Duration,
    pub node: usize,
    pub object: u32,
    /// Status, version and `Cache-Status`, or why there is no whole answer.
    pub answer: Result<(u16, u32, String), Failed>,
}

/// The clients.
pub struct Clients {
    pub nodes: Rc<Nodes>,
    host: Host,
    seen: RefCell<Vec<Seen>>,
    asking: RefCell<JoinSet<()>>,
}

impl Clients {
    pub fn new(nodes: Rc<Nodes>) -> Rc<Clients> {
        let host = nodes.world.network.host("client");
        Rc::new(Clients { nodes, host, seen: RefCell::default(), asking: RefCell::default() })
    }

    /// Asks for one thing after another, until then.
    pub async fn run(self: Rc<Self>, until: Duration) {
        let truth = &self.nodes.truth;
        let mut random = Rng::with_seed(truth.seed ^ 0xc11e);
        while truth.now() < until {
            self.begin(random.usize(..self.nodes.len()), Truth::any(&mut random), Duration::ZERO);
            sleep(Duration::from_millis(random.u64(5..120))).await;
        }
    }

    /// Has a client ask a node, after a pause; one that does not run is not asked.
    pub fn begin(self: &Rc<Self>, node: usize, object: u32, pause: Duration) {
        let clients = self.clone();
        self.asking.borrow_mut().spawn_local(async move {
            sleep(pause).await;
            if clients.nodes.is_up(node) {
                clients.ask(node, object).await;
            }
        });
    }

    /// Asks a node for an object, and judges what comes.
    pub async fn ask(&self, node: usize, object: u32) -> Seen {
        let truth = &self.nodes.truth;
        let (begun, least) = (truth.now(), truth.least(node, object));
        let (host, path, _) = Truth::names(object);
        let asking = client::ask(&self.host, self.nodes.address(node), "GET", (host, &path));
        let answer = match timeout(PATIENCE, asking).await {
            Err(_) => {
                truth.wrong(format!("{} does not answer a request for {object}", name(node)));
                Err(Failed { why: "too late".to_owned(), tag: None })
            }
            Ok(Ok(answer)) if answer.status == 200 => {
                let judged =
                    truth.judge(object, (begun, least), &answer.body, &answer.cache_status());
                let version = judged.unwrap_or_else(|why| {
                    truth.wrong(format!("asked at {begun:?}, {}: {why}", name(node)));
                    0
                });
                Ok((200, version, answer.cache_status()))
            }
            Ok(answer) => answer.map(|answer| (answer.status, 0, answer.cache_status())),
        };
        let seen = Seen { begun, ended: truth.now(), node, object, answer };
        truth.note(format!("{} {object} since {begun:?}: {:?}", name(node), seen.answer));
        if object < COUNT {
            self.seen.borrow_mut().push(seen.clone());
        }
        seen
    }

    /// Waits for all requests, and judges those that failed.
    pub async fn end(&self) -> Vec<Seen> {
        loop {
            let mut asking = self.asking.take();
            if asking.is_empty() {
                break;
            }
            while let Some(asked) = asking.join_next().await {
                asked.unwrap();
            }
        }
        self.nodes.still_bad();
        let truth = &self.nodes.truth;
        let seen = self.seen.take();
        for request in seen.iter().filter(|seen| !matches!(seen.answer, Ok((200, ..)))) {
            let Seen { begun, ended, node, .. } = *request;
            // An object that the origin no longer has, and no node keeps, cannot be continued.
            let tag = request.answer.as_ref().err().and_then(|failed| failed.tag.as_deref());
            let is_lost = |tag| truth.is_past(tag, ended) || truth.may_lack_its_rest(ended);
            if tag.is_some_and(is_lost) {
                continue;
            }
            if !truth.may_fail(node, begun, ended) {
                truth.wrong_at(ended, format!("it need not have failed: {request:?}"));
            }
        }
        seen
    }
}
