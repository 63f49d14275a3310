//! K8, figure 5: the heavy tail.

use super::paper::{self, Arm, Disks, REPLICATED, SLIGHTLY_BETTER, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper};

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
    let reads = |at: usize| compared.counts[at].percent(compared.counts[at].disk_reads);
    let why = format!(
        "Requests a second by those of the replicated solution; in parentheses with processors and \
         the clients' link ten times as fast, and with files by the roots of their requests. All \
         with class 3 in the discard cache too: {} (the paper: slightly better), without class 3: \
         {}, with class 3 there alone: {}. With SPECweb99's files the clients' link is what all \
         wait for, and disks are read for {:.2}, {:.2} and {:.2}% of the requests, two local ones \
         for {:.2}%. To keep class 3 in a third memory brings little: the servers have what is \
         asked for often.",
        compared.words(1),
        compared.words(2),
        compared.words(3),
        reads(1),
        reads(2),
        reads(3),
        reads(0),
    );
    Ok(compared.outcome(EXPERIMENT.title, &[[1, 0], [0, 2], [2, 3]], why))
}
