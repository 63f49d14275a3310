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
        "As in the paper, replicating the small documents and cooperating on classes 2 and 3 is \
         better than replicating all ({:.2}): small documents are read from two disks, and the \
         large ones, of which a read takes longest, are in one memory instead of two. With class 3 \
         in the discard cache it is {:.2}; the text says nothing of that arm.",
        compared.relative[1], compared.relative[2],
    );
    Ok(compared.outcome(EXPERIMENT.title, why))
}
