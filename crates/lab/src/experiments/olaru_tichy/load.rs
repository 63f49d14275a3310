//! Who asks: connections that each ask again as soon as they are answered (the paper's WebStone),
//! or requests that come at a rate whether answered or not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use device::{Clock, Nanos};
use sim::Executor;

use super::counts::Counts;
use super::documents::{Documents, Requests};
use super::nodes::{Nodes, Setup};
use crate::experiment::Failed;
use crate::workload::generator::distributions::SplitMix;

/// How many requests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// Before anything is counted.
    pub(super) warm: u64,
    /// That are counted.
    pub(super) counted: u64,
}

/// Serves `connections` clients, each of which asks the nodes in turn.
pub(super) fn closed(
    setup: Setup,
    documents: &Arc<Documents>,
    connections: usize,
    length: Length,
) -> Result<Counts, Failed> {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let requests = Rc::new(RefCell::new(Requests::new(documents, setup.seed)));
    let nodes = Nodes::new(setup, Arc::clone(documents), clock.clone())?;
    let asked = Rc::new(Cell::new(0_u64));
    let answered = Rc::new(Cell::new(0_u64));
    let total = length.warm + length.counted;
    let counts = Rc::new(RefCell::new(None));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (nodes, requests) = (Rc::clone(&nodes), Rc::clone(&requests));
            let (asked, answered) = (Rc::clone(&asked), Rc::clone(&answered));
            let counts = Rc::clone(&counts);
            clock.spawn(async move {
                while answered.get() < total {
                    let number = asked.replace(asked.get() + 1);
                    let Some(document) = requests.borrow_mut().next() else { break };
                    let servers = &nodes.setup.servers;
                    let at = servers[(number % servers.len() as u64) as usize];
                    Rc::clone(&nodes).serve(at, document).await;
                    answered.set(answered.get() + 1);
                    if answered.get() == length.warm {
                        nodes.start_counting();
                    }
                    if answered.get() == total {
                        *counts.borrow_mut() = Some(nodes.counted());
                    }
                }
            })
        })
        .collect();
    let run = executor.try_run(Nanos::MAX, async {
        for client in clients {
            client.await;
        }
    });
    run.map_err(|why| Failed(why.to_string()))?;
    let counted = counts.borrow_mut().take();
    counted.ok_or_else(|| Failed::from("no client was answered"))
}

/// Something that befalls the nodes.
pub(super) type Happens = fn(&Nodes);

/// Serves `rate` requests a second, by Poisson's law, each at the next node that is up; what is in
/// `events` happens at its time, in order.
pub(super) fn open(
    setup: Setup,
    documents: &Arc<Documents>,
    rate: f64,
    length: Length,
    events: &[(Nanos, Happens)],
) -> Result<Counts, Failed> {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let mut requests = Requests::new(documents, setup.seed);
    let mut dice = SplitMix::of(setup.seed, 1);
    let nodes = Nodes::new(setup, Arc::clone(documents), clock.clone())?;
    let mut events = events.iter().peekable();
    let load = async {
        let mut last = None;
        for number in 0..length.warm + length.counted {
            let gap = (dice.exponential() * 1e9 / rate) as Nanos;
            clock.sleep_until(clock.now() + gap).await;
            while let Some((_, happens)) = events.next_if(|(time, _)| *time <= clock.now()) {
                happens(&nodes);
            }
            if number == length.warm {
                nodes.start_counting();
            }
            let Some(document) = requests.next() else { break };
            let servers = &nodes.setup.servers;
            let first = dice.below(servers.len() as u64) as usize;
            let turn = (0..servers.len()).map(|step| servers[(first + step) % servers.len()]);
            let Some(at) = turn.into_iter().find(|at| nodes.nodes[*at].is_up.get()) else {
                continue;
            };
            last = Some(clock.spawn(Rc::clone(&nodes).serve(at, document)));
        }
        if let Some(last) = last {
            last.await;
        }
        nodes.counted()
    };
    executor.try_run(Nanos::MAX, load).map_err(|why| Failed(why.to_string()))
}
