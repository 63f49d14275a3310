//! K8, figure 5: the heavy tail.

use super::paper::{self, Arm, Case, Disks, REPLICATED, SLIGHTLY_BETTER, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};
use workload::generator::documents::{DocumentSet, FileCounts};

/// The experiment `olaru-tichy-fig-5`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-fig-5",
    paper: Paper::OlaruTichy,
    place: "figure 5, section 4.5",
    title: "The heavy tail",
    parameters: &paper::PARAMETERS,
    seconds: [1, 10],
    run,
};

const ARMS: [Arm; 4] = [
    REPLICATED,
    Arm {
        label: "all, tail also discarded",
        policy: "tail-also-discarded",
        disks: Disks::Third,
        paper: SLIGHTLY_BETTER,
    },
    Arm { label: "tail uncached", policy: "tail-uncached", disks: Disks::Third, paper: WORSE },
    Arm { label: "tail only", policy: "tail-only", disks: Disks::Third, paper: WORSE },
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let compared = paper::compare(context, &ARMS)?;
    let [_, both, uncached, only] = compared.relative[..] else {
        return Err("not as many results as arms".into());
    };
    let base = Case::new(context, "cooperate-on-all");
    let popular = DocumentSet { counts: FileCounts::Alike, ..base.set };
    let case = |policy| Case { policy, set: popular, ..base };
    let cases = ["tail-also-discarded", "tail-uncached", "tail-only"].map(case);
    let cases = [Case { disks: Disks::Local, ..case("replicated") }, cases[0], cases[1], cases[2]];
    let alike = paper::runs(context, &cases)?;
    let mut table =
        Table::new("popular", "Reads of disks where each class has as many files as another");
    for (case, counts) in cases.iter().zip(&alike) {
        let reads = counts.percent(counts.disk_reads);
        table.row(case.policy, "%", Stated::Nothing, reads);
    }
    let reads = |at: usize| alike[at].percent(alike[at].disk_reads);
    let why = format!(
        "As in the paper the discard cache for class 3 alone is poor ({only:.2}), since all others \
         wait for the one disk, and cooperation does significantly better ({uncached:.2}, \
         {both:.2}). Here neither reaches the replicated solution: all three policies handle \
         evictions of class 2, which costs here (figure 4). Where each class has as many files as \
         another, cooperation is ahead of replication as in the paper: the disk is read for \
         {:.2}% of the requests with class 3 in the discard cache too, {:.2}% without it, {:.2}% \
         with class 3 there alone, {:.2}% on two local disks. To keep class 3 in a third memory as \
         well brings nothing there, either: its servers have what is asked for often.",
        reads(1),
        reads(2),
        reads(3),
        reads(0),
    );
    Ok(compared.outcome(EXPERIMENT.title, why).table(table))
}
