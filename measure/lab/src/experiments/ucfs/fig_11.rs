//! C2, figure 11: the disk latency of a request by the cluster size.

use super::setup;
use super::setup::{CLUSTER, Case, System};
use super::traces::TRACES;
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::run::whole_cache::Figures;

/// The experiment `ucfs-fig-11`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-fig-11",
    paper: Paper::Ucfs,
    place: "figure 11",
    title: "Disk latency of a request by the size of a cluster",
    parameters: &PARAMETERS,
    seconds: [30, 400],
    run,
};

const PARAMETERS: [Parameter; 4] = [
    Parameter {
        name: "cluster",
        value: "16, 32, 64, 128, 256 KB (quick: 16, 64, 256)",
        from: "section 5.4",
    },
    setup::PARAMETERS[0],
    setup::PARAMETERS[1],
    setup::PARAMETERS[6],
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let traces = setup::traces(context);
    let sizes: Vec<u32> = context.pick(vec![16, 64, 256], vec![16, 32, 64, 128, 256]);
    let cases: Vec<Case> = traces
        .iter()
        .flat_map(|trace| sizes.iter().map(move |size| (*trace, *size)))
        .map(|(trace, size)| Case {
            cluster: size << 10,
            ..Case::new(context, trace, System::Ucfs)
        })
        .collect();
    let figures = setup::figures(context, &cases)?;
    let by_trace: Vec<&[Figures]> = figures.chunks(sizes.len()).collect();
    let base = sizes.iter().position(|size| size << 10 == CLUSTER).unwrap_or(0);

    let mut table = Table::new("latency", "Disk time of a request");
    let mut relative = Table::new("relative", "Disk time by that with 64 KB, mean of the traces");
    let mut plot = Plot::lines(
        "by-cluster",
        "Disk time of a request by the size of a cluster",
        Axis::log("cluster (KB)").range(16.0, 256.0),
        Axis::linear("ms").range(0.0, 10.0),
    );
    for (trace, all) in traces.iter().zip(&by_trace) {
        let name = TRACES[*trace].name;
        for (size, figures) in sizes.iter().zip(*all) {
            let what = format!("{name}, {size} KB");
            table.row(what, "ms", Stated::Nothing, figures.disk_ms());
        }
        let points = sizes.iter().zip(*all);
        plot = plot.ours(name, points.map(|(size, figures)| (f64::from(*size), figures.disk_ms())));
    }
    let factor = |index: usize| {
        let factors = by_trace.iter().map(|all| all[index].disk_ms() / all[base].disk_ms());
        factors.sum::<f64>() / by_trace.len() as f64
    };
    for (index, size) in sizes.iter().enumerate() {
        let paper = if index == base { Stated::Number(1.0) } else { Stated::AtLeast(1.0) };
        relative.row(format!("{size} KB"), "×", paper, factor(index));
    }
    let best = (0..sizes.len()).min_by(|a, b| factor(*a).total_cmp(&factor(*b))).unwrap_or(base);
    let prefetch = |index: usize| {
        let rates = by_trace.iter().map(|all| all[index].prefetch_hit_rate());
        rates.sum::<f64>() / by_trace.len() as f64
    };
    let why = format!(
        "The paper finds 64 KB best: larger clusters hold what does not belong together, smaller \
         ones leave the disk's bandwidth unused. Here {} KB take the least disk time; by the mean \
         of the traces 16 KB take {:.2} and 256 KB {:.2} times that of 64 KB. Of what reads bring \
         along {:.0}% are asked for with 16 KB, {:.0}% with 64 and {:.0}% with 256. The size that \
         is best follows from how many objects a cluster holds and how many belong together: the \
         other half of a larger one costs a millisecond for each 40 KB or so, beside 6 to 8 for \
         arm and rotation. The figure has no numbers to be read off it.",
        sizes[best],
        factor(0),
        factor(sizes.len() - 1),
        prefetch(0),
        prefetch(base),
        prefetch(sizes.len() - 1),
    );
    let plot = plot.note(setup::note(context));
    Ok(Outcome::new(why).table(relative).table(table).plot(plot))
}
