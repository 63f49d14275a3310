//! C18, figure 12: speed-ups by the memory size.

use super::comparison::Comparison;
use super::setup;
use super::setup::{Case, System};
use super::traces::{SJ, UC};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::run::whole_cache::Figures;

/// The experiment `ucfs-fig-12`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-fig-12",
    paper: Paper::Ucfs,
    place: "figure 12 and section 5.5",
    title: "Speed-up of UCFS by the size of memory",
    parameters: &PARAMETERS,
    seconds: [15, 400],
    run,
};

const PARAMETERS: [Parameter; 4] = [
    Parameter {
        name: "memory",
        value: "512 and 1,024 MB, of which half cache data",
        from: "section 5.5; the half is section 4.1's",
    },
    Parameter { name: "trace", value: "UC (quick: SJ)", from: "unstated" },
    setup::PARAMETERS[0],
    setup::PARAMETERS[6],
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let trace = context.pick(SJ, UC);
    let sizes = [512, 1_024];
    let mut runs = Vec::new();
    for size in &sizes {
        let sized = |case| Case { memory: size / 2, ..case };
        runs.push(Comparison::of(context, vec![trace], sized)?);
    }
    let disk = |runs: &Comparison, system| runs.each(system, Figures::disk_ms)[0];
    let speedup = |runs: &Comparison, system| runs.speedups(system, Figures::disk_ms)[0];
    let (first, last) = (&runs[0], &runs[runs.len() - 1]);
    let better = |system| 100.0 * (1.0 - disk(last, system) / disk(first, system));

    let mut gains = Table::new("gain", "Disk time saved by 1,024 MB in place of 512");
    for system in System::ALL {
        let paper = match system {
            System::Squid => Stated::Number(7.5),
            System::Ucfs => Stated::AtLeast(7.5),
            _ => Stated::Nothing,
        };
        gains.row(system.name(), "%", paper, better(system));
    }
    let mut table = Table::new("speed-up", "Disk time by that of UCFS");
    let mut plot = Plot::lines(
        "by-memory",
        "Speed-up of UCFS by the size of memory",
        Axis::linear("memory (MB)").range(512.0, 1_024.0),
        Axis::linear("times UCFS"),
    );
    for system in System::BASELINES {
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .zip(&runs)
            .map(|(size, runs)| (f64::from(*size), speedup(runs, system)))
            .collect();
        for (size, speedup) in &points {
            table.row(format!("{}, {size} MB", system.name()), "×", Stated::Nothing, *speedup);
        }
        plot = plot.ours(system.name(), points);
    }
    let why = format!(
        "The paper: SQUID's response time is 7.5% better with 1,024 MB than with 512, and UCFS's \
         speed-up over it rises slightly. Here twice the memory saves {:.1}% of SQUID/FFS's disk \
         time and {:.1}% of UCFS's, whose speed-up goes from {:.1} to {:.1}. Most requests that \
         reach the disk are first ones, which no memory can spare; of what \
         is read again, a larger memory keeps more, and UCFS has twice as many objects in the cold \
         half from which groups are formed; which of the two counts for how much was not tried.",
        better(System::Squid),
        better(System::Ucfs),
        speedup(first, System::Squid),
        speedup(last, System::Squid),
    );
    let plot = plot.note(setup::note(context));
    Ok(Outcome::new(why).table(gains).table(table).plot(plot))
}
