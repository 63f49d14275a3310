//! Cost of a response from another node's memory, relative to one from the memory of the node that
//! received the request: the processor time of all nodes together.
//!
//! All documents are in the memory of their owners only. Half of the measurement sends requests to
//! the owner, the other half to a node that is not.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::figures::{Part, Remote};
use super::load::{Asked, Came, Load};
use super::nodes::{Nodes, Setup};
use super::systems::System;
use crate::bench::options::Options;

/// Number of documents: few enough to be in memory, and many enough that none becomes hot.
pub const DOCUMENTS: u64 = 1_000;
/// Bytes of each document.
const SIZE: usize = 3_000;

/// Measures a system with `documents` documents.
///
/// # Errors
///
/// When its nodes do not start or respond wrongly, the owners cannot be determined, or the program
/// is interrupted.
pub fn measure(
    options: &Options,
    system: &System,
    setup: &Setup,
    documents: u64,
) -> Result<Vec<Remote>, String> {
    let nodes = Nodes::start(system, setup)?;
    let load = Load::new(nodes.fronts(), options.connections, SIZE);
    let owners = owners(&load, setup.nodes, documents)?;
    nodes.settle()?;
    println!("   processes: {:?}", nodes.pids());
    let mut all = Vec::new();
    for _ in 0..options.rounds {
        let local = part(options, &nodes, &load, |turn| owners[turn % owners.len()])?;
        let remote = part(options, &nodes, &load, |turn| {
            let at = turn % owners.len();
            let (document, owner) = owners[at];
            // The requests for one owner's documents go to all other nodes in turn.
            (document, (owner + 1 + at % (setup.nodes - 1)) % setup.nodes)
        })?;
        let remote = Remote { local, remote };
        println!("   {remote}");
        all.push(remote);
    }
    Ok(all)
}

fn asked(document: u64, node: usize) -> Asked {
    Asked { node, path: format!("/store/{SIZE}/{document}"), document, size: SIZE }
}

/// Fetches all documents; returns each with the node that keeps it.
fn owners(load: &Load, nodes: usize, documents: u64) -> Result<Vec<(u64, usize)>, String> {
    let all = || 0..documents;
    for node in 0..nodes {
        load.ask_each(all().map(|document| asked(document, node)).collect())?;
    }
    let mut own: Vec<Vec<bool>> = Vec::new();
    for node in 0..nodes {
        let came = load.ask_each(all().map(|document| asked(document, node)).collect())?;
        own.push(came.into_iter().map(Came::is_own).collect());
    }
    let owner = |document: u64| {
        let mut owners = (0..nodes).filter(|node| own[*node][document as usize]);
        let first = owners.next()?;
        owners.next().is_none().then_some((document, first))
    };
    let owners: Vec<(u64, usize)> = all().filter_map(owner).collect();
    if (owners.len() as u64) < documents * 9 / 10 {
        let found = owners.len();
        return Err(format!("only {found} of {documents} documents are in the cache of one node"));
    }
    Ok(owners)
}

/// Measures requests; `request` maps a turn to a document and a node.
fn part(
    options: &Options,
    nodes: &Nodes,
    load: &Load,
    request: impl Fn(usize) -> (u64, usize),
) -> Result<Part, String> {
    let time = Duration::from_secs_f64(options.seconds);
    let (at, cpu) = (Instant::now(), nodes.cpu()?);
    let turn = Cell::new(0_usize);
    let next = || {
        let turn = turn.replace(turn.get() + 1);
        (at.elapsed() < time).then(|| {
            let (document, node) = request(turn);
            asked(document, node)
        })
    };
    load.run(&next, std::future::pending())?;
    let seconds = at.elapsed().as_secs_f64();
    let counts = load.take();
    let answers = counts.answers.max(1) as f64;
    let own = [Came::Memory, Came::Disk, Came::Cache].map(|came| counts.share(came));
    Ok(Part {
        cpu_us: (nodes.cpu()? - cpu) * 1e6 / answers,
        requests_per_second: answers / seconds,
        p50_us: counts.percentile(50.0),
        own: own.iter().sum(),
        peer: counts.share(Came::Peer),
    })
}
