//! C15, figure 7: the mean disk response time of a request.

use super::comparison::{Comparison, words};
use super::setup;
use super::setup::System;
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};
use crate::run::whole_cache::Figures;

/// The experiment `ucfs-fig-7`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-fig-7",
    paper: Paper::Ucfs,
    place: "figure 7",
    title: "Mean disk response time of a request",
    parameters: &setup::PARAMETERS,
    seconds: [30, 600],
    run,
};

/// The paper's means in milliseconds, over all traces.
fn paper(system: System) -> Stated {
    match system {
        System::Squid => 30.0.into(),
        System::SquidAsync => (11.0..=14.0).into(),
        System::SquidMl => (10.0..=20.0).into(),
        System::Ucfs => (1.5..=3.0).into(),
        System::Larder => Stated::Nothing,
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let runs = Comparison::run(context)?;
    let mut table = Table::new("disk", "Disk time of a request, background writes included");
    let mut waited = Table::new("waited", "What a client waited for the disk");
    for system in System::ALL {
        for (name, time) in runs.names().zip(runs.each(system, Figures::disk_ms)) {
            table.row(format!("{}, {name}", system.name()), "ms", paper(system), time);
        }
        for (name, time) in runs.names().zip(runs.each(system, Figures::waited_ms)) {
            waited.row(format!("{}, {name}", system.name()), "ms", Stated::Nothing, time);
        }
    }
    let title = "Mean disk response time";
    let mut plot = Plot::bars("disk", title, runs.names(), Axis::linear("ms"));
    for system in System::ALL {
        plot = plot.ours_bars(system.name(), runs.each(system, Figures::disk_ms));
        if let Some([low, high]) = paper(system).bounds() {
            let middle = (low + high) / 2.0;
            plot = plot.paper_bars(system.name(), vec![middle; runs.traces.len()]);
        }
    }
    let note = format!("Of the paper's ranges, the middle. {}", setup::note(context));
    Ok(Outcome::new(why(&runs)).table(table).table(waited).plot(plot.note(note)))
}

fn why(runs: &Comparison) -> String {
    let disk = |system| words(&runs.each(system, Figures::disk_ms), 1);
    let waited = |system| words(&runs.each(system, Figures::waited_ms), 1);
    format!(
        "Per request the drive works {} ms for SQUID/FFS (the paper: around 30), {} for \
         SQUID/FFS-async (11 to 14), {} for SQUIDML (10 to 20) and {} for UCFS (1.5 to 3). This is \
         the time of all operations that a request causes, also of those that nobody waits for: \
         only so can asynchronous writes cost what the paper has for them. What a client waits, \
         with requests at the rate of the traces, is {}, {}, {} and {} ms: SQUID/FFS-async and \
         UCFS write while nobody asks. Of the {} KB a request most are in objects above 256 KB, \
         which are not cached; a cluster of 64 KB takes some ten of the others, whereas the \
         paper's own arithmetic (section 2.4.5) has 16 of 4 KB. UCFS's time is mostly reads: by \
         the paper's tables 3 and 4, 41 to 51% of the requests were hits on the disk, which at 7.1 \
         ms for a cluster (section 2.4.2) come to 2.9 to 3.6 ms a request without any write; its \
         figure does not go with its tables.",
        disk(System::Squid),
        disk(System::SquidAsync),
        disk(System::SquidMl),
        disk(System::Ucfs),
        waited(System::Squid),
        waited(System::SquidAsync),
        waited(System::SquidMl),
        waited(System::Ucfs),
        words(&runs.each(System::Ucfs, kilobytes), 0),
    )
}

fn kilobytes(figures: &Figures) -> f64 {
    figures.bytes as f64 / figures.requests().max(1) as f64 / 1e3
}
