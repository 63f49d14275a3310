//! K8, figure 6: replication and cooperation together.

use super::paper::{self, Arm, BETTER, Disks, REPLICATED};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated};

/// The experiment `olaru-tichy-fig-6`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-fig-6",
    paper: Paper::OlaruTichy,
    place: "figure 6, section 4.6",
    title: "Replication and cooperation together",
    parameters: &paper::PARAMETERS,
    seconds: [1, 10],
    run,
};

const ARMS: [Arm; 3] = [
    REPLICATED,
    Arm { label: "0, 1 replicated", policy: "replicate-small", disks: Disks::Third, paper: BETTER },
    Arm {
        label: "and 3 discarded",
        policy: "replicate-small-discard-tail",
        disks: Disks::Third,
        paper: Stated::Nothing,
    },
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let compared = paper::compare(context, &ARMS)?;
    let why = format!(
        "Requests a second by those of the replicated solution; in parentheses with processors and \
         the clients' link ten times as fast, and with files by the roots of their requests. \
         Small documents replicated, cooperation on classes 2 and 3: {} (the paper: better); with \
         class 3 in the discard cache: {}, of which the text says nothing. With files by the roots \
         of their requests small documents are read from two disks, and the large ones, of which a \
         read takes longest, are in one memory instead of two.",
        compared.words(1),
        compared.words(2),
    );
    Ok(compared.outcome(EXPERIMENT.title, &[[1, 0]], why))
}
