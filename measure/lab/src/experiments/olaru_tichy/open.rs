//! K8: every policy of the paper, with other answers to the questions that the paper leaves open.
//!
//! Each column changes one thing of the figures' set-up, to explain the figures' deviations.

use super::paper::{self, Case, Disks};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use workload::generator::documents::{DocumentSet, FileCounts};

/// The experiment `olaru-tichy-open`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-open",
    paper: Paper::OlaruTichy,
    place: "sections 3 and 4.1",
    title: "All policies, with what the paper leaves open decided otherwise",
    parameters: &[
        Parameter {
            name: "as in the figures",
            value: "but for what the column names",
            from: "ours",
        },
        Parameter { name: "WebStone's shares", value: "35, 50, 14 and 1%", from: "WebStone 2" },
    ],
    seconds: [3, 70],
    run,
};

const POLICIES: [(&str, &str, Disks); 13] = [
    ("one local, one remote disk", "remote-disk", Disks::OneServer),
    ("remote disk", "remote-disk", Disks::Third),
    ("cooperate on 2, 3", "cooperate-on-large", Disks::Third),
    ("cooperate on 0, 1", "cooperate-on-small", Disks::Third),
    ("cooperate on all", "cooperate-on-all", Disks::Third),
    ("evictions of 2", "offer-medium", Disks::Third),
    ("evictions of 0, 1", "offer-small", Disks::Third),
    ("evictions of 0", "offer-smallest", Disks::Third),
    ("all, tail also discarded", "tail-also-discarded", Disks::Third),
    ("tail uncached", "tail-uncached", Disks::Third),
    ("tail only", "tail-only", Disks::Third),
    ("0, 1 replicated", "replicate-small", Disks::Third),
    ("and 3 discarded", "replicate-small-discard-tail", Disks::Third),
];

/// A change of one thing in a case.
type Change = fn(Case) -> Case;

const CHANGES: [(&str, Change); 8] = [
    ("as in the figures", |case| case),
    ("WebStone's shares", |case| {
        with_set(case, |set| DocumentSet { shares: DocumentSet::WEBSTONE, ..set })
    }),
    ("files by the roots of requests", Case::with_roots),
    ("files as requests", |case| {
        with_set(case, |set| DocumentSet { counts: FileCounts::AsRequests, skew: 80, ..set })
    }),
    ("presets as written", |case| Case { page_cache: false, ..case }),
    ("half the memory", |case| Case { memory: case.memory / 2, ..case }),
    ("whole documents at a time", |case| Case { piece: 1 << 20, ..case }),
    ("hints at owners only", |case| Case { hints_of_all: false, ..case }),
];

fn with_set(case: Case, change: fn(DocumentSet) -> DocumentSet) -> Case {
    Case { set: change(case.set), ..case }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let replicated = Case::new(context, "replicated");
    let mut cases = Vec::new();
    for (_, change) in CHANGES {
        cases.push(change(replicated));
        let other = |(_, policy, disks)| change(Case { disks, ..Case::new(context, policy) });
        cases.extend(POLICIES.map(other));
    }
    let counts = paper::runs(context, &cases)?;
    let mut outcome = Outcome::default();
    let labels = POLICIES.map(|(label, ..)| label);
    let mut plot = Plot::bars(
        "relative",
        "Requests a second by those of the replicated solution",
        labels,
        Axis::linear("replicated = 1"),
    );
    let mut orders = Vec::new();
    for (at, ((name, _), column)) in
        CHANGES.iter().zip(counts.chunks(POLICIES.len() + 1)).enumerate()
    {
        let first = column[0].rate();
        let relative: Vec<f64> = column[1..].iter().map(|counts| counts.rate() / first).collect();
        let id = format!("column-{at}");
        let mut table = Table::new(&id, &format!("Replicated = 1: {name}"));
        table.row("replicated", "1/s", Stated::Nothing, first);
        for ((label, ours), counts) in labels.iter().zip(&relative).zip(&column[1..]) {
            table.row(*label, "×", Stated::Nothing, *ours);
            let reads = counts.percent(counts.disk_reads);
            table.row(format!("{label}: reads of a disk"), "%", Stated::Nothing, reads);
        }
        orders.push(format!("{name}: {:.2}, {:.2}, {:.2}", relative[2], relative[3], relative[4]));
        plot = plot.ours_bars(name, relative);
        outcome = outcome.table(table);
    }
    outcome.why = format!(
        "Figure 3's policies (cooperation on 2 and 3, on 0 and 1, on all) by what is changed: \
         {}. In SPECweb99's set each class has as many files as another.",
        orders.join("; ")
    );
    Ok(outcome.plot(plot))
}
