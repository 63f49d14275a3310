//! Beyond the paper: the minute after a node dies, after one joins, and while one is slow.
//!
//! Each arm has the same requests as an arm without events; the extra requests are the difference.

use std::sync::Arc;
use std::time::Duration;

use device::Nanos;

use super::counts::{Counts, Source};
use super::load::{self, Happens, Length};
use super::nodes::{Nodes, Setup};
use super::scheme::{SECOND, Scheme};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use workload::generator::documents::Documents;

/// The experiment `olaru-tichy-changes`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-changes",
    paper: Paper::OlaruTichy,
    place: "beyond the paper",
    title: "A node dies, joins, is slow",
    parameters: &[
        Parameter { name: "nodes", value: "10, as in olaru-tichy-nodes (\"fleet\")", from: "ours" },
        Parameter {
            name: "documents",
            value: "20,000 (quick: 5,000), Zipf's law with exponent 0.9; on a node's disk a fifth, \
                    in its memory a fiftieth",
            from: "ours",
        },
        Parameter {
            name: "requests",
            value: "100 a second for each node (quick: 40); it happens after 60 s, and 60 s count",
            from: "ours",
        },
        Parameter {
            name: "limits",
            value: "an answer is waited for 1 s; a dead node is out of the view after 5 s; former \
                    owners are asked for 30 s; a breaker opens after 5 failures",
            from: "ours",
        },
    ],
    seconds: [8, 60],
    run,
};

const NODES: usize = 10;
/// The node that the events concern.
const ONE: usize = 3;
/// Seconds before the event, and seconds measured after it.
const BEFORE: u64 = 60;
const AFTER: u64 = 60;

/// An arm: its change of the set-up and its events.
struct Arm {
    name: &'static str,
    change: fn(Setup) -> Setup,
    events: &'static [(Nanos, Happens)],
    /// The arm that it is compared with.
    beside: usize,
}

const WHEN: Nanos = BEFORE * SECOND;

const DIES: &[(Nanos, Happens)] = &[(WHEN, die), (WHEN + 5 * SECOND, out)];
const LEAVES: &[(Nanos, Happens)] = &[(WHEN, leave)];
const ALONE: &[(Nanos, Happens)] = &[(0, leave)];
const JOINS: &[(Nanos, Happens)] = &[(0, leave), (WHEN, join)];
const JOINS_WITH_GRACE: &[(Nanos, Happens)] = &[(0, leave), (WHEN, join_with_grace)];
const SLOW: &[(Nanos, Happens)] = &[(WHEN, slow)];

const ARMS: [Arm; 11] = [
    Arm { name: "nothing happens", change: |setup| setup, events: &[], beside: 0 },
    Arm { name: "dies", change: |setup| setup, events: DIES, beside: 0 },
    Arm { name: "dies, no breakers", change: no_breakers, events: DIES, beside: 0 },
    Arm { name: "leaves in order", change: |setup| setup, events: LEAVES, beside: 0 },
    Arm { name: "nine nodes", change: |setup| setup, events: ALONE, beside: 4 },
    Arm { name: "joins", change: |setup| setup, events: JOINS_WITH_GRACE, beside: 4 },
    Arm { name: "joins, no grace", change: |setup| setup, events: JOINS, beside: 4 },
    Arm { name: "slow", change: |setup| setup, events: SLOW, beside: 0 },
    Arm { name: "slow, no breakers", change: no_breakers, events: SLOW, beside: 0 },
    Arm { name: "slow, no bound", change: no_bound, events: SLOW, beside: 0 },
    Arm {
        name: "slow, neither",
        change: |setup| no_breakers(no_bound(setup)),
        events: SLOW,
        beside: 0,
    },
];

fn no_breakers(setup: Setup) -> Setup {
    Setup { breakers: false, ..setup }
}

fn no_bound(setup: Setup) -> Setup {
    Setup { bound: None, ..setup }
}

fn die(nodes: &Nodes) {
    nodes.nodes[ONE].is_up.set(false);
}

fn out(nodes: &Nodes) {
    nodes.nodes[ONE].is_member.set(false);
    nodes.members_changed();
}

fn leave(nodes: &Nodes) {
    die(nodes);
    out(nodes);
}

fn join(nodes: &Nodes) {
    nodes.nodes[ONE].is_up.set(true);
    nodes.nodes[ONE].is_member.set(true);
    nodes.members_changed();
}

fn join_with_grace(nodes: &Nodes) {
    nodes.grace_time.set(Duration::from_secs(30));
    join(nodes);
}

/// Makes the node's responses to other nodes slower than their timeout.
fn slow(nodes: &Nodes) {
    nodes.nodes[ONE].delay.set(2 * SECOND);
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let documents = context.size(500, 5_000, 20_000);
    let rate = context.size(4.0, 40.0, 100.0) * NODES as f64;
    let seed = context.seed();
    let documents = Arc::new(Documents::drift(documents, 0.9, u64::MAX, seed));
    let of_seconds = |seconds: u64| (seconds as f64 * rate) as u64;
    let length = Length { warm: of_seconds(BEFORE), counted: of_seconds(AFTER) };
    let variants = ARMS.iter().map(|arm| (arm.name, arm));
    let counts = context.variants(variants, |_, arm| {
        let bytes = documents.bytes();
        let setup = Scheme::FLEET.setup(NODES, bytes / 50, bytes / 5, seed)?;
        load::open((arm.change)(setup), &documents, rate, length, arm.events)
    })?;
    let goal = 100.0 / NODES as f64 + 2.0;
    let mut table = Table::new("extra", "Requests that wait for the origin beyond the usual");
    for (arm, counts_of) in ARMS.iter().zip(&counts) {
        let beside = &counts[arm.beside];
        let stated = if arm.name == "dies" { Stated::AtMost(goal) } else { Stated::Nothing };
        for (seconds, stated) in [(5, Stated::Nothing), (10, Stated::Nothing), (60, stated)] {
            let what = format!("{}: within {seconds} s", arm.name);
            table.row(what, "points", stated, extra(counts_of, beside, 0, seconds));
        }
        let what = format!("{}: the last 10 s of the minute", arm.name);
        table.row(what, "points", Stated::Nothing, extra(counts_of, beside, 50, 60));
    }
    let mut times = Table::new("times", "Response times in that minute");
    for (arm, counts) in ARMS.iter().zip(&counts) {
        let mut row = |what: &str, unit: &str, number: f64| {
            times.row(format!("{}: {what}", arm.name), unit, Stated::Nothing, number);
        };
        row("mean", "ms", counts.mean_ms());
        row("99% within", "ms", counts.percentile_ms(99));
        row("waits of a second for a node", "per 1,000", 10.0 * counts.percent(counts.timeouts));
        row("from another node's disk", "%", counts.share(&[Source::PeerDisk]));
    }
    let lines = |id: &str, title: &str, arms: &[usize]| {
        let x = Axis::linear("seconds after it happened").range(-10.0, 60.0);
        let y = Axis::linear("requests that wait for the origin (%)");
        arms.iter().fold(Plot::lines(id, title, x, y), |plot, at| {
            plot.ours(ARMS[*at].name, by_time(&counts[*at]))
        })
    };
    Ok(Outcome::new(why(&counts, goal))
        .table(table)
        .table(times)
        .plot(lines("dies", "A node dies", &[0, 1, 2, 3]))
        .plot(lines("joins", "A node joins", &[4, 5, 6])))
}

/// Returns how many percentage points more of the requests wait for the origin than in `beside`,
/// from second `from` to second `to` after the event.
fn extra(counts: &Counts, beside: &Counts, from: u64, to: u64) -> f64 {
    let share = |counts: &Counts| {
        let window = counts.seconds.iter().skip((BEFORE + from) as usize);
        let window = window.take((to - from) as usize);
        let [requests, origin] =
            window.fold([0_u64; 2], |[a, b], [c, d]| [a + u64::from(*c), b + u64::from(*d)]);
        100.0 * origin as f64 / requests.max(1) as f64
    };
    share(counts) - share(beside)
}

/// Returns the share by time, in steps of two seconds.
fn by_time(counts: &Counts) -> Vec<(f64, f64)> {
    let steps = counts.seconds.chunks(2).enumerate();
    let points = steps.map(|(at, pair)| {
        let requests: u32 = pair.iter().map(|second| second[0]).sum();
        let origin: u32 = pair.iter().map(|second| second[1]).sum();
        let time = 2.0 * at as f64 + 1.0 - BEFORE as f64;
        (time, 100.0 * f64::from(origin) / f64::from(requests.max(1)))
    });
    points.filter(|(time, _)| (-10.0..60.0).contains(time)).collect()
}

fn why(counts: &[Counts], goal: f64) -> String {
    let of = |at: usize, from, to| extra(&counts[at], &counts[ARMS[at].beside], from, to);
    format!(
        "After a node of {NODES} dies {:.1} points more of the requests wait for the origin in \
         the first five seconds, and {:.1} in the minute (the goal: at most {goal:.0}, the node's \
         share and two); in its last ten seconds it is {:.1}. What was on its disk is fetched \
         again as it is asked for, most popular first. Breakers bound the waits for it before the \
         others know: {:.1} of 1,000 requests wait a second for a node instead of {:.1}. A node \
         that joins costs {:.1} points in the minute, for half of which former owners are asked, \
         and {:.1} when they are not. While a node is slow, a request takes {:.1} ms on average \
         with breakers and the bound on loads, {:.1} with the bound alone, {:.1} with breakers \
         alone, {:.1} with neither.",
        of(1, 0, 5),
        of(1, 0, 60),
        of(1, 50, 60),
        10.0 * counts[1].percent(counts[1].timeouts),
        10.0 * counts[2].percent(counts[2].timeouts),
        of(5, 0, 60),
        of(6, 0, 60),
        counts[7].mean_ms(),
        counts[8].mean_ms(),
        counts[9].mean_ms(),
        counts[10].mean_ms(),
    )
}
