//! M9, figure 8: LAZY-READS-LOC by the number of its locality buffers and the utilization.

use super::machine::{DISK, GETS, Machine, Manager, PARAMETERS, Trace, time_axes};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `markatos-fig-8`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-8",
    paper: Paper::Markatos,
    place: "figure 8",
    title: "LAZY-READS-LOC by locality buffers and the utilization of the disk",
    parameters: &PARAMETERS,
    seconds: [15, 140],
    run,
};

/// Numbers of locality buffers; 0 is LAZY-READS.
const BUFFERS: [u16; 4] = [0, 8, 32, 128];

/// Other sizes of a locality buffer in KB than the 64 of the figures.
const SIZES: [u32; 2] = [128, 256];

fn name(buffers: u16) -> String {
    match buffers {
        0 => "LAZY-READS".to_owned(),
        buffers => format!("LAZY-READS-LOC-{buffers}"),
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machine = Machine::of(context);
    let utilizations = Machine::utilizations(context);
    let trace = machine.trace(context.seed(), GETS, DISK)?;
    let variants = utilizations.iter().flat_map(|share| {
        let share = *share;
        BUFFERS.map(|buffers| {
            let manager = match buffers {
                0 => Manager::lazy(share),
                buffers => Manager::lazy_loc(share, buffers),
            };
            (format!("{} at {:.0}%", name(buffers), share * 100.0), manager)
        })
    });
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let of = |buffers: usize, place: usize| &runs[place * BUFFERS.len() + buffers];
    let factor = |buffers: usize, place: usize| {
        of(buffers, place).gets_per_second / of(0, place).gets_per_second
    };

    let mut factors = Table::new("factor", "How much faster than LAZY-READS");
    for (place, share) in utilizations.iter().enumerate() {
        for (index, buffers) in BUFFERS.iter().enumerate().skip(1) {
            let paper = match (*buffers, *share == 0.76) {
                (128, true) => Stated::Number(2.5),
                (128, false) => Stated::AtLeast(1.3),
                (8, _) => Stated::AtLeast(1.0),
                _ => Stated::Nothing,
            };
            let what = format!("{} at {:.0}%", name(*buffers), share * 100.0);
            factors.row(what, "×", paper, factor(index, place));
        }
    }
    let sizes = sizes(context, &machine, &trace, |place| of(0, place).gets_per_second)?;
    let mut speeds = Table::new("speed", "Gets per second");
    for (place, share) in utilizations.iter().enumerate() {
        for (index, buffers) in BUFFERS.iter().enumerate() {
            let what = format!("{} at {:.0}%", name(*buffers), share * 100.0);
            let run = of(index, place);
            speeds.row(what, "gets/s", Stated::Nothing, run.gets_per_second);
        }
    }
    let best = runs.iter().map(|run| run.gets_per_second).fold(0.0, f64::max);
    speeds.row("the best", "gets/s", 500.0, best);

    let (x, y) = time_axes();
    let mut plot = Plot::lines("by-utilization", EXPERIMENT.title, x, y)
        .paper("LAZY-READS", [(71.0, GETS as f64 / 396.0)])
        .paper("LAZY-READS-LOC-128", [(71.0, GETS as f64 / 495.0)]);
    for (index, buffers) in BUFFERS.iter().enumerate() {
        let points = utilizations.iter().enumerate();
        let at = |(place, share): (usize, &f64)| (share * 100.0, of(index, place).seconds(GETS));
        plot = plot.ours(&name(*buffers), points.map(at));
    }
    let plot = plot.note(machine.note());
    let why = format!(
        "At 76% utilization 8 locality buffers make LAZY-READS {:.2} times and 128 buffers {:.2} \
         times as fast; the best of all is {best:.0} gets per second. The buffers are 64 KB each, \
         which the paper does not state, and what waits in them is bounded by the engine's memory. \
         They gain in two ways: writes of 64 KB instead of a page, and objects of one server side \
         by side, so that a read may find its page in memory. How much the second brings depends \
         on how closely a page's objects are asked for again, which in the generated trace is an \
         assumption. A buffer needs one piece of free space or several, so that the gain depends \
         on how free space is broken up, and with it on the utilization.",
        factor(1, 1),
        factor(3, 1),
    );
    Ok(Outcome::new(why).table(factors).table(sizes).table(speeds).plot(plot))
}

/// Returns how much faster than LAZY-READS, whose speed at a utilization is `lazy`, 128 locality
/// buffers of several sizes are.
fn sizes(
    context: &mut Context<'_>,
    machine: &Machine,
    trace: &Trace,
    lazy: impl Fn(usize) -> f64,
) -> Result<Table, Failed> {
    let utilizations = Machine::utilizations(context);
    let places = utilizations.iter().enumerate();
    let all: Vec<(usize, String, Manager)> = places
        .flat_map(|(place, share)| {
            SIZES.map(|kb| {
                let name = format!("128 buffers of {kb} KB at {:.0}%", share * 100.0);
                (place, name, Manager::lazy_loc_of(*share, kb << 10))
            })
        })
        .collect();
    let variants = all.iter().map(|(_, name, manager)| (name.clone(), *manager));
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, trace))?;
    let title = "How much faster than LAZY-READS, by the size of a locality buffer";
    let mut table = Table::new("size", title);
    for ((place, name, _), run) in all.iter().zip(&runs) {
        let factor = run.gets_per_second / lazy(*place);
        table.row(name, "×", Stated::AtLeast(1.3), factor);
    }
    Ok(table)
}
