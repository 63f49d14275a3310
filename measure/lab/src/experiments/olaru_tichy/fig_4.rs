//! K8, figure 4: which evictions are handled.

use super::paper::{self, Arm, Case, Disks, REPLICATED, VERY_CLOSE, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};
use workload::generator::documents::{DocumentSet, FileCounts};

/// The experiment `olaru-tichy-fig-4`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-fig-4",
    paper: Paper::OlaruTichy,
    place: "figure 4, section 4.4",
    title: "Which evictions are handled",
    parameters: &paper::PARAMETERS,
    seconds: [1, 10],
    run,
};

const ARMS: [Arm; 4] = [
    REPLICATED,
    Arm { label: "evictions of 2", policy: "offer-medium", disks: Disks::Third, paper: VERY_CLOSE },
    Arm { label: "evictions of 0, 1", policy: "offer-small", disks: Disks::Third, paper: WORSE },
    Arm { label: "evictions of 0", policy: "offer-smallest", disks: Disks::Third, paper: WORSE },
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let compared = paper::compare(context, &ARMS)?;
    let base = Case::new(context, "cooperate-on-all");
    let popular = DocumentSet { counts: FileCounts::Alike, ..base.set };
    let case = |policy| Case { policy, set: popular, ..base };
    let cases = ["cooperate-on-all", "offer-medium", "offer-small", "offer-smallest"].map(case);
    let alike = paper::runs(context, &cases)?;
    let none = paper::runs(context, &[base])?;
    let none = none[0].rate() / compared.counts[0].rate();
    let mut table =
        Table::new("popular", "Reads of the disk where each class has as many files as another");
    for (case, counts) in cases.iter().zip(&alike) {
        let reads = counts.percent(counts.disk_reads);
        table.row(case.policy, "%", Stated::Nothing, reads);
    }
    let reads = |at: usize| alike[at].percent(alike[at].disk_reads);
    let why = format!(
        "The paper finds that handling evictions pays for class 2 and for nothing smaller. Here \
         it is the other way round: without any it is {none:.2} of the replicated solution, with \
         those of class 2 {:.2}, with classes 0 and 1 {:.2}, with class 0 {:.2}. A document of \
         class 2 takes the place of ten of class 1 in the memory that takes it in, and its bytes \
         are worth less there. Which is worth more follows from how popular a small document is, \
         and that from how many there are. Where each class has as many files as another, small \
         documents never leave memory, and the order is the paper's: the disk is read for {:.2}% \
         of the requests without handling, {:.2}% with class 2, {:.2}% with 0 and 1. So the rule \
         is not one of sizes: it pays to save what is asked for often by its bytes and still \
         leaves memory.",
        compared.relative[1],
        compared.relative[2],
        compared.relative[3],
        reads(0),
        reads(1),
        reads(2),
    );
    Ok(compared.outcome(EXPERIMENT.title, why).table(table))
}
