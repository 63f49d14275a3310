//! K8, figure 4: which evictions are handled.

use super::paper::{self, Arm, Disks, REPLICATED, VERY_CLOSE, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper};

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
    let reads = |at: usize| compared.counts[at].percent(compared.counts[at].disk_reads);
    let why = format!(
        "Requests a second by those of the replicated solution; in parentheses with processors and \
         the clients' link ten times as fast, and with files by the roots of their requests. \
         Saving evicted copies of class 2: {}, of 0 and 1: {}, of 0: {}. With SPECweb99's files \
         the clients' link is what all wait for, and disks are read for {:.2}, {:.2} and {:.2}% of \
         the requests. The paper finds that it pays for class 2 and for nothing smaller. Here it \
         pays to save what is asked for often by its bytes and still leaves memory: that depends \
         on how popular a small document is.",
        compared.words(1),
        compared.words(2),
        compared.words(3),
        reads(1),
        reads(2),
        reads(3),
    );
    Ok(compared.outcome(EXPERIMENT.title, &[[0, 1], [1, 2], [1, 3], [2, 3]], why))
}
