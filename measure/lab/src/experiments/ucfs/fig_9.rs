//! C15, figures 9 and 10: reads and writes separately.

use super::comparison::{Comparison, span, words};
use super::setup;
use super::setup::System;
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};
use crate::run::whole_cache::Figures;

/// The experiment `ucfs-fig-9`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-fig-9",
    paper: Paper::Ucfs,
    place: "figure 9",
    title: "Total disk latency of reads and of writes",
    parameters: &setup::PARAMETERS,
    seconds: [30, 600],
    run: totals,
};

/// The experiment `ucfs-fig-10`.
pub const SPEEDUPS: Experiment = Experiment {
    name: "ucfs-fig-10",
    paper: Paper::Ucfs,
    place: "figure 10 and section 5.1.3",
    title: "Speed-up of UCFS in reads and in writes",
    parameters: &setup::PARAMETERS,
    seconds: [30, 600],
    run: speedups,
};

fn reads(figures: &Figures) -> f64 {
    figures.usage.reads.busy as f64 / 1e9
}

fn writes(figures: &Figures) -> f64 {
    (figures.usage.writes.busy + figures.usage.flushes.busy) as f64 / 1e9
}

/// A kind of operation: id, heading, and its drive time in seconds.
type Kind = (&'static str, &'static str, fn(&Figures) -> f64);

const KINDS: [Kind; 2] = [("reads", "Reads", reads), ("writes", "Writes", writes)];

fn totals(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let runs = Comparison::run(context)?;
    let share = |system| {
        let share = |figures: &Figures| 100.0 * writes(figures) / figures.disk_seconds();
        words(&runs.each(system, share), 0)
    };
    let mut outcome = Outcome::new(format!(
        "The figure has no numbers that could be read off it; section 5.1.3 gives factors, which \
         figure 10 has. What is counted is the drive's time on reads and on writes, whoever caused \
         them: the write of an inode because of a read (35% of SQUID's) is a write. Writes take \
         {}% of SQUID/FFS's disk time, {}% of SQUID/FFS-async's, {}% of SQUIDML's and {}% of \
         UCFS's: what UCFS saves most are writes.",
        share(System::Squid),
        share(System::SquidAsync),
        share(System::SquidMl),
        share(System::Ucfs),
    ));
    for (id, title, number) in KINDS {
        let mut table = Table::new(id, title);
        let mut plot = Plot::bars(id, title, runs.names(), Axis::log("s"));
        for system in System::ALL {
            let all = runs.each(system, number);
            for (name, seconds) in runs.names().zip(&all) {
                table.row(format!("{}, {name}", system.name()), "s", Stated::Nothing, *seconds);
            }
            plot = plot.ours_bars(system.name(), all);
        }
        outcome = outcome.table(table).plot(plot.note(setup::note(context)));
    }
    Ok(outcome)
}

/// The paper's "up to": the largest ratio over all traces.
fn most(kind: &str, system: System) -> Option<f64> {
    match (kind, system) {
        ("writes", System::Squid) => Some(42.0),
        ("writes", System::SquidAsync) => Some(9.0),
        ("reads", System::SquidMl) => Some(7.0),
        _ => None,
    }
}

fn speedups(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let runs = Comparison::run(context)?;
    let mut largest = Table::new("most", "Speed-up of UCFS, the most of all traces");
    let mut better = Table::new("better", "How much faster than SQUID/FFS the other baselines are");
    let mut outcome = Outcome::new(why(&runs));
    for (id, title, number) in KINDS {
        let mut plot = Plot::bars(id, title, runs.names(), Axis::linear("times UCFS"));
        for system in System::BASELINES {
            let all = runs.speedups(system, number);
            let (what, paper) = (format!("{id}, {}", system.name()), most(id, system));
            largest.row(what, "×", paper, span(&all).1);
            plot = plot.ours_bars(system.name(), all);
            if let Some(paper) = paper {
                plot = plot.paper_bars(system.name(), vec![paper; runs.traces.len()]);
            }
        }
        outcome = outcome.plot(plot.note(setup::note(context)));
    }
    let faster = |system, number: fn(&Figures) -> f64| {
        let of = |system| runs.each(system, number).iter().sum::<f64>();
        of(System::Squid) / of(system)
    };
    better.row("writes, SQUID/FFS-async", "×", 2.0..=3.0, faster(System::SquidAsync, writes));
    better.row("writes, SQUIDML/FFS", "×", 1.3..=1.5, faster(System::SquidMl, writes));
    better.row("reads, SQUIDML/FFS", "×", 1.5, faster(System::SquidMl, reads));
    Ok(outcome.table(largest).table(better))
}

fn why(runs: &Comparison) -> String {
    let times = |system, number: fn(&Figures) -> f64| words(&runs.speedups(system, number), 1);
    let bytes = |system| {
        let bytes = |figures: &Figures| {
            let reads = figures.usage.reads;
            reads.bytes as f64 / reads.operations.max(1) as f64 / 1e3
        };
        words(&runs.each(system, bytes), 0)
    };
    format!(
        "In writes UCFS is {} times as fast as SQUID/FFS (the paper: up to 42), {} times as fast \
         as SQUID/FFS-async (9) and {} times as fast as SQUIDML; in reads {}, {} and {} (the \
         last, in the paper, up to 7). Groups of objects leave in one write where SQUID makes \
         four or more for each; how much that saves follows from how many objects a cluster \
         holds: some ten here, 16 in the paper's arithmetic. A read of UCFS moves {} KB and saves \
         later ones only as far as what it brings along is asked for (table 5). The paper's \
         values are the most over its traces, and so are those in the table.",
        times(System::Squid, writes),
        times(System::SquidAsync, writes),
        times(System::SquidMl, writes),
        times(System::Squid, reads),
        times(System::SquidAsync, reads),
        times(System::SquidMl, reads),
        bytes(System::Ucfs),
    )
}
