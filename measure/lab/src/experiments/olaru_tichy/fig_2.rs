//! K8, figure 2: remote disk or replicated documents.

use super::paper::{self, Arm, Case, Disks, REPLICATED, WORSE};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};

/// The experiment `olaru-tichy-fig-2`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "olaru-tichy-fig-2",
    paper: Paper::OlaruTichy,
    place: "figure 2, section 4.2",
    title: "Remote disk or replicated documents",
    parameters: &paper::PARAMETERS,
    seconds: [1, 10],
    run,
};

const ARMS: [Arm; 3] = [
    REPLICATED,
    Arm {
        label: "one local, one remote",
        policy: "remote-disk",
        disks: Disks::OneServer,
        paper: WORSE,
    },
    Arm { label: "both remote", policy: "remote-disk", disks: Disks::Third, paper: WORSE },
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let compared = paper::compare(context, &ARMS)?;
    // Reads for the other node bypass the disk node's memory.
    let direct = |context: &Context<'_>, disks| {
        let case = Case { disks, ..Case::new(context, "remote-disk") };
        Case { memory_for_peers: false, ..case }
    };
    let cases = [direct(context, Disks::OneServer), direct(context, Disks::Third)];
    let direct = paper::runs(context, &cases)?;
    let first = compared.counts[0].rate();
    let [one, both] = [direct[0].rate() / first, direct[1].rate() / first];
    let why = format!(
        "As in the paper two disks serve most, and with one the disk is what all wait for: {:.0}% \
         busy. Unlike in the paper, a server beside the disk is better than a third node with it \
         ({:.2} to {:.2} of the replicated solution; there it is a little worse): here the other \
         server's reads find what the first one has in its memory. When they go past that memory, \
         straight to the disk, as a driver below the file system does, next to nothing of the \
         difference is left ({one:.2} to {both:.2}).",
        compared.counts[2].busiest_disk(),
        compared.relative[1],
        compared.relative[2],
    );
    let mut table = Table::new("direct", "Reads for another node go past the memory");
    table.row("one local, one remote", "×", Stated::Nothing, one);
    table.row("both remote", "×", Stated::Nothing, both);
    Ok(compared.outcome(EXPERIMENT.title, why).table(table))
}
