//! K8, figure 3: cooperation without handling evictions.

use super::paper::{self, Arm, Disks, REPLICATED, SLIGHTLY_BETTER, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper};

/// The experiment `olaru-tichy-fig-3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-fig-3",
    paper: Paper::OlaruTichy,
    place: "figure 3, section 4.3",
    title: "Cooperation without handling evictions",
    parameters: &paper::PARAMETERS,
    seconds: [1, 10],
    run,
};

const ARMS: [Arm; 4] = [
    REPLICATED,
    Arm {
        label: "cooperate on 2, 3",
        policy: "cooperate-on-large",
        disks: Disks::Third,
        paper: SLIGHTLY_BETTER,
    },
    Arm {
        label: "cooperate on 0, 1",
        policy: "cooperate-on-small",
        disks: Disks::Third,
        paper: WORSE,
    },
    Arm {
        label: "cooperate on all",
        policy: "cooperate-on-all",
        disks: Disks::Third,
        paper: WORSE,
    },
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let compared = paper::compare(context, &ARMS)?;
    let reads = |at: usize| compared.counts[at].percent(compared.counts[at].disk_reads);
    let why = format!(
        "Requests a second by those of the replicated solution; in parentheses with processors and \
         the clients' link ten times as fast, and with files by the roots of their requests. \
         Cooperation on classes 2 and 3: {} (the paper: slightly better), on 0 and 1: {}, on all: \
         {}. With SPECweb99's files the clients' link is what all wait for, and disks are read for \
         {:.2}, {:.2} and {:.2}% of the requests, two local ones for {:.2}%. With cooperation on \
         2 and 3 the small documents, which are most of the requests, lie in the disk node's \
         memory, which all share. How far ahead it is depends on how many small documents there \
         are; olaru-tichy-open has other sets, and servers that do not keep what they read from \
         the discard cache (\"presets as written\").",
        compared.words(1),
        compared.words(2),
        compared.words(3),
        reads(1),
        reads(2),
        reads(3),
        reads(0),
    );
    Ok(compared.outcome(EXPERIMENT.title, &[[1, 0], [0, 2], [0, 3], [2, 3]], why))
}
