//! The load: connections that each send the next request after the response (the paper's WebStone),
//! or requests that come at a fixed rate.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use device::{Clock, Nanos};
use sim::Executor;

use super::counts::Counts;
use super::nodes::{Nodes, Setup};
use crate::experiment::Failed;
use workload::generator::distributions::SplitMix;
use workload::generator::documents::{Documents, Requests};

/// The number of requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// Requests before counting starts.
    pub(super) warm: u64,
    pub(super) counted: u64,
}

/// Serves `connections` clients, whose requests go to the nodes in turn.
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

/// An event that changes the nodes.
pub(super) type Happens = fn(&Nodes);

/// Serves `rate` requests per second with Poisson arrivals, each at the next node that is up. The
/// `events` occur at their times, in order.
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
        let under_way = Rc::new(Cell::new(0_u64));
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
            under_way.set(under_way.get() + 1);
            let (serve, under_way) = (Rc::clone(&nodes).serve(at, document), Rc::clone(&under_way));
            drop(clock.spawn(async move {
                serve.await;
                under_way.set(under_way.get() - 1);
            }));
        }
        while under_way.get() > 0 {
            clock.sleep_until(clock.now() + 1_000_000).await;
        }
        nodes.counted()
    };
    executor.try_run(Nanos::MAX, load).map_err(|why| Failed(why.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::experiments::olaru_tichy::scheme::Scheme;

    const LENGTH: Length = Length { warm: 0, counted: 2_000 };

    fn served(scheme: &Scheme, bytes: u64, seed: u64) -> (Arc<Documents>, Counts) {
        let documents = Arc::new(Documents::drift(500, 0.8, u64::MAX, seed));
        let setup = scheme.setup(5, bytes, bytes, seed).unwrap();
        let counts = open(setup, &documents, 1_000.0, LENGTH, &[]).unwrap();
        (documents, counts)
    }

    #[test]
    fn nodes_with_room_fetch_each_document_once_and_alone_once_each() {
        let seed = fastrand::u64(..);
        eprintln!("LAB_SEED={seed}");
        let (documents, fleet) = served(&Scheme::FLEET, 1 << 30, seed);
        let asked: HashSet<u32> = Requests::new(&documents, seed).take(2_000).collect();
        assert_eq!(fleet.origin[0], asked.len() as u64);
        let (_, hashing) = served(&Scheme::HASHING, 1 << 30, seed);
        assert_eq!(hashing.origin[0], asked.len() as u64);
        let (_, alone) = served(&Scheme::REPLICATION, 1 << 30, seed);
        assert!(alone.origin[0] > 2 * fleet.origin[0], "{}", alone.origin[0]);
        for counts in [fleet, hashing, alone] {
            assert_eq!((counts.requests, counts.failed), (2_000, 0));
            assert_eq!(counts.sources.iter().sum::<u64>(), 2_000);
        }
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        for scheme in Scheme::ALL {
            let run = |seed| format!("{:?}", served(&scheme, 100_000, seed).1);
            assert_eq!(run(1), run(1), "{}", scheme.name);
            assert_ne!(run(1), run(2), "{}", scheme.name);
        }
    }

    /// The number of connections is the rate times the seconds of a request (Little's law).
    #[test]
    fn connections_are_always_busy() {
        let documents = Arc::new(Documents::drift(500, 0.8, u64::MAX, 1));
        let setup = Scheme::FLEET.setup(3, 100_000, 1_000_000, 1).unwrap();
        let length = Length { warm: 1_000, counted: 5_000 };
        let counts = closed(setup, &documents, 40, length).unwrap();
        let busy = counts.rate() * counts.mean_ms() / 1e3;
        assert!((38.0..42.0).contains(&busy), "{busy}");
    }
}
