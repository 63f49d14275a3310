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
    let case = |policy, disks| Case { disks, ..Case::new(context, policy) }.with_roots();
    let direct = |disks| Case { memory_for_peers: false, ..case("remote-disk", disks) };
    let replicated = case("replicated", Disks::Local);
    let cases = [replicated, direct(Disks::OneServer), direct(Disks::Third)];
    let direct = paper::runs(context, &cases)?;
    let first = direct[0].rate();
    let [one, both] = [direct[1].rate() / first, direct[2].rate() / first];
    let why = format!(
        "Requests a second by those of the replicated solution; in parentheses with processors and \
         the clients' link ten times as fast, and with files by the roots of their requests. One \
         local and one remote disk: {}; both remote: {}. With SPECweb99's files the clients' link \
         is what all wait for, and the one disk is {:.0}% busy. Unlike in the paper, a server \
         beside the disk is better than a third node with it where disks decide: the other \
         server's reads find what the first one has in its memory. When they go past that memory, \
         as a driver below the file system does, little of the difference is left (by the roots: \
         {one:.2} to {both:.2}).",
        compared.words(1),
        compared.words(2),
        compared.counts[2].busiest_disk(),
    );
    let title = "Files by the roots of their requests, reads for another node past the memory";
    let mut table = Table::new("direct", title);
    table.row("one local, one remote", "×", Stated::Nothing, one);
    table.row("both remote", "×", Stated::Nothing, both);
    Ok(compared.outcome(EXPERIMENT.title, &[[0, 1], [0, 2], [2, 1]], why).table(table))
}
