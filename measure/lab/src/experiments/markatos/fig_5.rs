//! M4, figure 5: BUDDY by its threshold.

use super::machine::{FILES_DISK, FILES_GETS, Machine, Manager, PARAMETERS};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `markatos-fig-5`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-5",
    paper: Paper::Markatos,
    place: "figure 5",
    title: "BUDDY by its threshold: time of 400,000 operations",
    parameters: &PARAMETERS,
    seconds: [5, 30],
    run,
};

/// Thresholds in blocks of 512 bytes; a quick run uses the first four.
const THRESHOLDS: [u32; 8] = [2, 10, 64, 256, 5, 20, 128, 512];

/// Number of requests for 400,000 operations, in proportion to figure 4.
const GETS: u64 = FILES_GETS / 3 * 4;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machine = Machine::of(context);
    let trace = machine.trace(context.seed(), GETS, FILES_DISK)?;
    let thresholds = &THRESHOLDS[..context.pick(4, THRESHOLDS.len())];
    let variants =
        thresholds.iter().map(|blocks| (format!("{blocks} blocks"), Manager::Buddy(*blocks)));
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let time = |place: usize| runs.get(place).map_or(f64::NAN, |run| run.seconds(GETS));

    let mut times = Table::new("time", "Completion time");
    for (place, blocks) in thresholds.iter().enumerate() {
        times.row(format!("{blocks} blocks"), "s", Stated::Nothing, time(place));
    }
    let best = (0..runs.len()).map(time).fold(f64::INFINITY, f64::min);
    // Gain per additional block, below 10 blocks and between 10 and 256.
    let below = (time(0) - time(1)) / f64::from(thresholds[1] - thresholds[0]);
    let above = (time(1) - time(3)) / f64::from(thresholds[3] - thresholds[1]);
    let mut shape = Table::new("shape", "Where the threshold matters");
    shape.row("256 blocks against the best", "×", 1.0, time(3) / best);
    shape.row("a block more up to 10 against one more up to 256", "×", Stated::AtLeast(1.0), {
        below / above
    });

    let plot = Plot::lines(
        "by-threshold",
        EXPERIMENT.title,
        Axis::linear("threshold (blocks of 512 bytes)"),
        Axis::linear("time of 400,000 operations (s)"),
    )
    .ours(
        "BUDDY",
        thresholds.iter().enumerate().map(|(place, blocks)| (f64::from(*blocks), time(place))),
    )
    .note(format!("{} The paper's curve is in its drawing only.", machine.note()));
    let why = format!(
        "The time falls from {:.0} s with 2 blocks to {:.0} s with 10 and {:.0} s with 256. What \
         the paper says in words is compared: that most is gained by the first blocks, and that \
         128 KB is almost the best. How steep it is follows from the sizes of the objects, for \
         which the generator has the published median and mean and its own tail, and from what a \
         file costs to create and to delete. The disk of this figure is not stated; it \
         is the one of figure 4.",
        time(0),
        time(1),
        time(3),
    );
    Ok(Outcome::new(why).table(shape).table(times).plot(plot))
}
