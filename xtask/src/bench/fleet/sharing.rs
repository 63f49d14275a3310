//! Nodes whose caches are each smaller than the working set, and together larger: the share of it
//! that they hold together, its cost, and their recovery from the death of one.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use testkit::pages;

use super::documents::Documents;
use super::figures::{Recovery, Sharing};
use super::load::{Asked, Load};
use super::nodes::{Nodes, Setup};
use super::systems::System;
use crate::bench::options::Options;
use crate::bench::origin::Origin;

/// Interval between samples of the origin's counter after a node was killed.
const LOOK: Duration = Duration::from_millis(250);
/// Number of sampling intervals over which a hit ratio is computed.
const WINDOW: usize = 4;
/// A hit ratio has recovered when it is lower by at most this.
const LOWER: f64 = 0.02;
/// The node to be killed: not the one that the others join.
const VICTIM: usize = 1;

/// The requests of the clients, to each node in turn.
struct Requests {
    documents: RefCell<Documents>,
    nodes: usize,
    turn: Cell<usize>,
    without: Cell<Option<usize>>,
}

impl Requests {
    fn next(&self) -> Asked {
        let mut node = self.turn.get();
        if self.without.get() == Some(node) {
            node = (node + 1) % self.nodes;
        }
        self.turn.set((node + 1) % self.nodes);
        let document = self.documents.borrow_mut().ask();
        let size = pages::body_len(document);
        let path = format!("/page/{}/{document}-{size}", pages::page_of(document));
        Asked { node, path, document, size }
    }

    /// Sends `requests` requests.
    fn run(&self, load: &Load, requests: u64) -> Result<(), String> {
        let left = Cell::new(requests);
        let next = || {
            left.set(left.get().checked_sub(1)?);
            Some(self.next())
        };
        load.run(&next, std::future::pending())
    }
}

/// Measures a system; with `recovers`, also the death of a node.
///
/// # Errors
///
/// When its nodes do not start or respond wrongly, or the program is interrupted.
pub fn measure(
    options: &Options,
    system: &System,
    setup: &Setup,
    origin: &Origin,
    recovers: bool,
) -> Result<(Sharing, Option<Recovery>), String> {
    let of = &options.fleet;
    let mut nodes = Nodes::start(system, setup)?;
    let load = Load::new(nodes.fronts(), options.connections, pages::BODY_MAX);
    let documents = Documents::new(of.documents, of.exponent, of.drift, 7);
    let requests = Requests {
        documents: RefCell::new(documents),
        nodes: setup.nodes,
        turn: Cell::new(0),
        without: Cell::new(None),
    };
    let begin = origin.served();
    requests.run(&load, of.fleet_warm_up)?;
    nodes.settle()?;
    drop(load.take());
    let (cpu, fetched, operations) = (nodes.cpu()?, origin.served(), nodes.operations()?);
    let at = Instant::now();
    requests.run(&load, of.fleet_requests)?;
    let seconds = at.elapsed().as_secs_f64();
    let counts = load.take();
    let answers = counts.answers.max(1) as f64;
    let device = nodes.operations()?.since(&operations);
    let hits = 1.0 - (origin.served() - fetched) as f64 / answers;
    let sharing = Sharing {
        hits,
        fetches_per_document: (origin.served() - begin) as f64
            / requests.documents.borrow().seen().max(1) as f64,
        cpu_us: (nodes.cpu()? - cpu) * 1e6 / answers,
        requests_per_second: answers / seconds,
        reads: device.reads as f64 / answers,
        written_kb: device.written_bytes as f64 / 1e3 / answers,
        held_mib: nodes.held()? as f64 / f64::from(1 << 20),
        ..Sharing::of(&counts)
    };
    println!("   {sharing}");
    if !recovers {
        return Ok((sharing, None));
    }
    let seconds = Duration::from_secs_f64(of.recovery_seconds);
    let recovery = recover(&mut nodes, &load, &requests, origin, hits, seconds)?;
    println!("   {recovery}");
    Ok((sharing, Some(recovery)))
}

/// Counts at a moment after a node was killed.
struct Look {
    seconds: f64,
    answers: u64,
    fetched: u64,
}

/// Kills a node and continues with requests to the others.
fn recover(
    nodes: &mut Nodes,
    load: &Load,
    requests: &Requests,
    origin: &Origin,
    before: f64,
    time: Duration,
) -> Result<Recovery, String> {
    load.expect_failures(VICTIM);
    let begin = Instant::now();
    let next = || (begin.elapsed() < time + LOOK).then(|| requests.next());
    let looks = RefCell::new(Vec::new());
    let look = |since: Instant| Look {
        seconds: since.elapsed().as_secs_f64(),
        answers: load.answers(),
        fetched: origin.served(),
    };
    let beside = async {
        // Under load, which skips the node from then on.
        tokio::time::sleep(LOOK).await;
        requests.without.set(Some(VICTIM));
        nodes.kill(VICTIM);
        let since = Instant::now();
        loop {
            looks.borrow_mut().push(look(since));
            tokio::time::sleep(LOOK).await;
        }
    };
    load.run(&next, beside)?;
    let (counts, looks) = (load.take(), looks.into_inner());
    let extra = match (looks.first(), looks.last()) {
        (Some(first), Some(last)) => {
            let asked = (last.answers - first.answers) as f64;
            (last.fetched - first.fetched) as f64 - asked * (1.0 - before)
        }
        _ => return Err("nothing was asked after a node was killed".into()),
    };
    Ok(Recovery {
        before,
        after: looks.len().checked_sub(WINDOW + 1).map_or(0.0, |at| ratio(&looks[at..])),
        lowest: looks.windows(WINDOW + 1).map(ratio).fold(1.0, f64::min),
        answers: counts.answers,
        errors: counts.errors,
        first_error: counts.first_error.clone(),
        extra_fetches: extra,
        seconds: back(&looks, before),
        slowest_ms: counts.percentile(100.0) / 1e3,
    })
}

/// Returns the hit ratio between the first and the last sample.
fn ratio(looks: &[Look]) -> f64 {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return 0.0 };
    match last.answers - first.answers {
        0 => 0.0,
        asked => 1.0 - (last.fetched - first.fetched) as f64 / asked as f64,
    }
}

/// Returns the seconds after which the hit ratio has recovered for good; `None`: it has not.
fn back(looks: &[Look], before: f64) -> Option<f64> {
    let is_low = |window: &[Look]| ratio(window) < before - LOWER;
    let windows: Vec<&[Look]> = looks.windows(WINDOW + 1).collect();
    match windows.iter().rposition(|window| is_low(window)) {
        None => Some(0.0),
        Some(low) => windows.get(low + 1)?.last().map(|look| look.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_ratio_is_back_when_no_lower_one_follows() {
        let mut looks = Vec::new();
        let mut fetched = 0;
        for at in 0..20 {
            // Each sample is 100 requests after the previous one; six samples are all misses.
            fetched += if (4..10).contains(&at) { 100 } else { 0 };
            looks.push(Look { seconds: f64::from(at), answers: at as u64 * 100, fetched });
        }
        assert_eq!(ratio(&looks[..2]), 1.0);
        assert_eq!(ratio(&looks[4..6]), 0.0);
        // From sample 9 on, whose window ends at 13.
        assert_eq!(back(&looks, 1.0), Some(13.0));
        assert_eq!(back(&looks, 0.0), Some(0.0));
        assert_eq!(back(&looks[..9], 1.0), None);
    }

    #[test]
    fn nodes_are_asked_in_turn_but_not_the_dead_one() {
        let documents = RefCell::new(Documents::new(10, 0.8, 100, 7));
        let (turn, without) = (Cell::new(0), Cell::new(None));
        let requests = Requests { documents, nodes: 3, turn, without };
        let asked = |times| (0..times).map(|_| requests.next().node).collect::<Vec<_>>();
        assert_eq!(asked(4), [0, 1, 2, 0]);
        requests.without.set(Some(1));
        assert_eq!(asked(4), [2, 0, 2, 0]);
    }
}
