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
    let [_, large, small, all] = compared.relative[..] else {
        return Err("not as many results as arms".into());
    };
    let why = format!(
        "The order is the paper's: cooperation on classes 2 and 3 is ahead of replication \
         ({large:.2}; the paper: slightly), the other two are behind it and near each other \
         ({small:.2}, {all:.2}). With cooperation on 2 and 3 the small documents, which are most \
         of the requests, lie in the disk node's memory, which all share; its disk is read for \
         {:.1}% of the requests, with cooperation on all for {:.1}%. How far ahead it is hangs on \
         how many small documents there are; olaru-tichy-open has other sets. The order also \
         hangs on servers keeping what they read from the discard cache, as their page caches do: \
         otherwise cooperation on 0 and 1 is ahead as well (\"presets as written\" there).",
        compared.counts[1].percent(compared.counts[1].disk_reads),
        compared.counts[3].percent(compared.counts[3].disk_reads),
    );
    Ok(compared.outcome(EXPERIMENT.title, why))
}
