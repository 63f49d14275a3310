//! M8, figure 7: LAZY-READS against STREAM-PACKETIZER by the utilization of the disk.

use super::machine::{DISK, GETS, Machine, Manager, PARAMETERS, time_axes};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `markatos-fig-7`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-7",
    paper: Paper::Markatos,
    place: "figure 7",
    title: "LAZY-READS by the utilization of the disk",
    parameters: &PARAMETERS,
    seconds: [10, 110],
    run,
};

const NAMES: [&str; 3] = ["STREAM-PACKETIZER", "LAZY-READS", "LAZY-READS in runs of four"];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machine = Machine::of(context);
    let utilizations = Machine::utilizations(context);
    let trace = machine.trace(context.seed(), GETS, DISK)?;
    let variants = utilizations.iter().flat_map(|share| {
        let share = *share;
        let percent = share * 100.0;
        let variants = [Manager::pack(share), Manager::lazy(share), Manager::lazy_split(share)];
        NAMES
            .iter()
            .zip(variants)
            .map(move |(name, variant)| (format!("{name} at {percent:.0}%"), variant))
    });
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let of = |name: usize, place: usize| &runs[place * NAMES.len() + name];
    let gain = |name: usize, place: usize| {
        100.0 * (of(name, place).gets_per_second / of(0, place).gets_per_second - 1.0)
    };

    let mut gains = Table::new("gain", "Faster than STREAM-PACKETIZER");
    for (place, share) in utilizations.iter().enumerate() {
        for (index, name) in NAMES.iter().enumerate().skip(1) {
            // The paper's number applies to the broken batches: its file system split them.
            let paper = if index == 2 { Stated::Number(10.0) } else { Stated::AtLeast(10.0) };
            gains.row(format!("{name} at {:.0}%", share * 100.0), "%", paper, gain(index, place));
        }
    }
    let mut speeds = Table::new("speed", "Gets per second");
    for (place, share) in utilizations.iter().enumerate() {
        for (index, name) in NAMES.iter().enumerate() {
            let what = format!("{name} at {:.0}%", share * 100.0);
            let paper = match (place, index) {
                (0, 0) => Stated::Number(358.0),
                (0, 2) => Stated::Number(396.0),
                _ => Stated::Nothing,
            };
            speeds.row(what, "gets/s", paper, of(index, place).gets_per_second);
        }
    }

    let (x, y) = time_axes();
    let mut plot = Plot::lines("by-utilization", EXPERIMENT.title, x, y)
        .paper("STREAM-PACKETIZER", [(71.0, GETS as f64 / 358.0)])
        .paper("LAZY-READS in runs of four", [(71.0, GETS as f64 / 396.0)]);
    for (index, name) in NAMES.iter().enumerate() {
        let points = utilizations.iter().enumerate();
        let at = |(place, share): (usize, &f64)| (share * 100.0, of(index, place).seconds(GETS));
        plot = plot.ours(name, points.map(at));
    }
    let plot = plot.note(machine.note());
    let reads = 100.0 * trace.counts.disk_hits as f64 / trace.len() as f64;
    let why = format!(
        "At 71% utilization LAZY-READS is {:+.1}% faster than STREAM-PACKETIZER (less than 0 is \
         slower), and {:+.1}% when its batches are broken into runs of four, as the paper found \
         its file system to do. Reads are {reads:.1}% of the operations (the paper's 4.2%): what \
         they cost in all is the most that can be gained. Writes go on while reads collect; the \
         program waits while ten of them are with the file system. The paper bounds no wait in its \
         runs; with a bound of a few milliseconds ten reads would never come together.{}",
        gain(1, 0),
        gain(2, 0),
        machine.smaller(),
    );
    Ok(Outcome::new(why).table(gains).table(speeds).plot(plot))
}
