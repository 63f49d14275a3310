//! Beyond the paper: fleets of 2 to 200 nodes. Larder's fleet beside consistent hashing, asking all
//! nodes, summaries and full replication; also without each of its parts.

use std::sync::Arc;

use super::counts::{Counts, Source};
use super::load::{self, Length};
use super::scheme::Scheme;
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use workload::generator::documents::Documents;

/// The experiment `olaru-tichy-nodes`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-nodes",
    paper: Paper::OlaruTichy,
    place: "beyond the paper",
    title: "Fleets by the number of nodes",
    parameters: &[
        Parameter {
            name: "documents",
            value: "100,000 (quick: 10,000) of 16 KiB on average, Zipf's law with exponent 0.9",
            from: "ours",
        },
        Parameter {
            name: "drift",
            value: "after each 1,000 requests another document becomes popular",
            from: "ours",
        },
        Parameter {
            name: "node",
            value: "0.5% of all bytes in memory, 4% on disk; 10 Gbit/s, flash, origin 30 ms away",
            from: "ours",
        },
        Parameter {
            name: "requests",
            value: "50 a second for each node at any node, 400,000 in all (quick: 40,000), of \
                    which half count",
            from: "ours",
        },
        Parameter {
            name: "fleet",
            value: "loads at most 25% above the mean and known after a second, an owner for each \
                    20 requests a second",
            from: "ours",
        },
    ],
    seconds: [15, 200],
    run,
};

/// Number of nodes in the comparison of parts.
const OF_PARTS: usize = 20;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let sizes = context.pick(vec![2, 5, 20, 100], vec![2, 3, 5, 10, 20, 50, 100, 200]);
    let documents = context.size(2_000, 10_000, 100_000);
    let requests = context.size(1_000, 20_000, 200_000);
    let seed = context.seed();
    let documents = Arc::new(Documents::drift(documents, 0.9, 1_000, seed));
    let length = Length { warm: requests, counted: requests };
    let by_size = sizes.iter().rev().flat_map(|nodes| Scheme::ALL.map(|scheme| (*nodes, scheme)));
    let parts = Scheme::PARTS.map(|scheme| (OF_PARTS, scheme));
    let cases: Vec<(usize, Scheme)> = by_size.chain(parts).collect();
    let variants = cases.iter().map(|(nodes, scheme)| {
        (format!("{} at {nodes} nodes", scheme.name), (*nodes, scheme.clone()))
    });
    let counts = context.variants(variants, |_, (nodes, scheme)| {
        let bytes = documents.bytes();
        let setup = scheme.setup(nodes, bytes / 200, bytes / 25, seed)?;
        load::open(setup, &documents, 50.0 * nodes as f64, length, &[])
    })?;
    let all: Vec<(&(usize, Scheme), &Counts)> = cases.iter().zip(&counts).collect();
    let (by_size, parts) = all.split_at(cases.len() - Scheme::PARTS.len());
    let mut outcome = Outcome::new(why(by_size, parts));
    for nodes in &sizes {
        let title = format!("{nodes} nodes");
        let mut table = Table::new(&format!("nodes-{nodes}"), &title);
        let of_size = by_size.iter().filter(|((size, _), _)| size == nodes);
        of_size.for_each(|((_, scheme), counts)| rows(&mut table, scheme.name, counts));
        outcome = outcome.table(table);
    }
    let mut table = Table::new("parts", "The parts of a fleet of 20 nodes");
    parts.iter().for_each(|((_, scheme), counts)| rows(&mut table, scheme.name, counts));
    outcome = outcome.table(table);
    let lines = |id: &str, title: &str, y: Axis, of: fn(&Counts) -> f64| {
        let x = Axis::log("nodes");
        Scheme::ALL.iter().fold(Plot::lines(id, title, x, y), |plot, scheme| {
            let points = by_size.iter().rev().filter(|((_, known), _)| known.name == scheme.name);
            plot.ours(scheme.name, points.map(|((size, _), counts)| (*size as f64, of(counts))))
        })
    };
    Ok(outcome
        .plot(lines("origin", "Requests that the origin answers", Axis::linear("%"), |counts| {
            counts.percent(counts.origin[0])
        }))
        .plot(lines("memory", "Requests that a memory answers", Axis::linear("%"), in_memory))
        .plot(lines("between", "Bytes between nodes", Axis::linear("KiB a request"), between))
        .plot(lines("balance", "Load balance", Axis::linear("most by mean"), Counts::imbalance)))
}

fn in_memory(counts: &Counts) -> f64 {
    counts.share(&[Source::Memory, Source::PeerMemory])
}

/// Returns the KiB of documents and messages between nodes per request.
fn between(counts: &Counts) -> f64 {
    let bytes = counts.between[1] + counts.messages[1];
    bytes as f64 / 1_024.0 / counts.requests.max(1) as f64
}

fn rows(table: &mut Table, name: &str, counts: &Counts) {
    let mut row = |what: &str, unit: &str, number: f64| {
        table.row(format!("{name}: {what}"), unit, Stated::Nothing, number);
    };
    row("in own memory", "%", counts.share(&[Source::Memory]));
    row("in another memory", "%", counts.share(&[Source::PeerMemory]));
    row("on a disk", "%", counts.share(&[Source::Disk, Source::PeerDisk]));
    row("fetched from the origin", "%", counts.percent(counts.origin[0]));
    row("between nodes", "KiB/request", between(counts));
    row("messages", "1/request", counts.messages[0] as f64 / counts.requests.max(1) as f64);
    row("most answers by the mean", "×", counts.imbalance());
    row("response time", "ms", counts.mean_ms());
    row("99% within", "ms", counts.percentile_ms(99));
}

fn why(by_size: &[(&(usize, Scheme), &Counts)], parts: &[(&(usize, Scheme), &Counts)]) -> String {
    let largest = by_size.first().map_or(0, |((nodes, _), _)| *nodes);
    let of = |scheme: &Scheme| {
        let found =
            by_size.iter().find(|((size, known), _)| *size == largest && known.name == scheme.name);
        found.map(|(_, counts)| (*counts).clone()).unwrap_or_default()
    };
    let origin = |counts: &Counts| counts.percent(counts.origin[0]);
    let [fleet, owners, hashing, all, summaries, alone] = Scheme::ALL.map(|scheme| of(&scheme));
    let part = |at: usize| parts.get(at).map(|(_, counts)| (*counts).clone()).unwrap_or_default();
    format!(
        "At {largest} nodes the origin answers {:.1}% of the requests with ours, {:.1}% with \
         consistent hashing, {:.1}% when all are asked, {:.1}% with summaries, {:.1}% with full \
         replication. Asking all costs {:.0} messages a request. The busiest node gives {:.2} \
         times the mean number of answers with ours, {:.2} times with copies at owners only, \
         {:.2} times with consistent hashing. The traffic between nodes is {:.1}, {:.1} and \
         {:.1} KiB a request.\n\nOf the parts, at {OF_PARTS} nodes: without the bound on loads \
         {:.1}% come from the origin instead of {:.1}%; without hints {:.1}% are found in \
         another's memory instead of {:.1}%; with copies at owners only the busiest node has {:.2} \
         times the mean, {:.2} times if what is hot is not told to those that ask, and {:.2} \
         times if nothing is hot. Hints pay where a disk turns ({:.2} ms a request, {:.2} without \
         them); beside flash they cost more than they bring ({:.2} and {:.2} ms), since a read of \
         it is no slower than two steps over the network.",
        origin(&fleet),
        origin(&hashing),
        origin(&all),
        origin(&summaries),
        origin(&alone),
        all.messages[0] as f64 / all.requests.max(1) as f64,
        fleet.imbalance(),
        owners.imbalance(),
        hashing.imbalance(),
        between(&fleet),
        between(&owners),
        between(&hashing),
        origin(&part(1)),
        origin(&part(0)),
        part(3).share(&[Source::PeerMemory]),
        part(0).share(&[Source::PeerMemory]),
        part(5).imbalance(),
        part(7).imbalance(),
        part(8).imbalance(),
        part(9).mean_ms(),
        part(10).mean_ms(),
        part(0).mean_ms(),
        part(3).mean_ms(),
    )
}
