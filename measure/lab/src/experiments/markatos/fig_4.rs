//! M1 to M4, figure 4: a file per object against BUDDY.

use super::machine::{FILES_DISK, FILES_GETS, Machine, Manager, PARAMETERS};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `markatos-fig-4`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-4",
    paper: Paper::Markatos,
    place: "figure 4",
    title: "A file per object against BUDDY: time of 300,000 operations on 1 GB",
    parameters: &PARAMETERS,
    seconds: [4, 20],
    run,
};

/// Name, manager, the paper's gets per second.
const MANAGERS: [(&str, Manager, f64); 4] = [
    ("SIMPLE", Manager::Simple, 14.0),
    ("SQUID", Manager::Squid, 20.0),
    ("MULTIPLE-DIRS", Manager::MultipleDirs, 23.0),
    ("BUDDY", Manager::Buddy(256), 133.0),
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machine = Machine::of(context);
    let trace = machine.trace(context.seed(), FILES_GETS, FILES_DISK)?;
    let variants = MANAGERS.map(|(name, manager, _)| (name, manager));
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let rate = |index: usize| runs.get(index).map_or(f64::NAN, |run| run.gets_per_second);

    let mut speeds = Table::new("speed", "Gets per second").ordered();
    let mut accesses = Table::new("accesses", "Requests to the disk for each operation");
    for ((name, _, paper), run) in MANAGERS.iter().zip(&runs) {
        speeds.row(*name, "gets/s", *paper, run.gets_per_second);
        let each = run.accesses as f64 / trace.len() as f64;
        accesses.row(*name, "", Stated::Nothing, each);
    }
    let mut factors = Table::new("factor", "How much faster BUDDY is");
    for (index, (name, _, paper)) in MANAGERS.iter().enumerate().take(3) {
        factors.row(format!("than {name}"), "×", 133.0 / paper, rate(3) / rate(index));
    }
    let operations = trace.len() as f64 * f64::from(machine.divisor);
    let mut mix = Table::new("mix", "Operations of 398,034 requests");
    mix.row("operations", "", 300_000.0, operations);

    let names = MANAGERS.map(|(name, ..)| name);
    let y = Axis::linear("time of 300,000 operations (s)");
    let plot = Plot::bars("time", EXPERIMENT.title, names, y)
        .paper_bars("time", MANAGERS.map(|(_, _, rate)| FILES_GETS as f64 / rate))
        .ours_bars("time", runs.iter().map(|run| run.seconds(FILES_GETS)))
        .note(machine.note());
    let why = format!(
        "SIMPLE, SQUID and MULTIPLE-DIRS reach {:.1}, {:.1} and {:.1} gets per second, BUDDY \
         {:.1}. What a file per object costs is set by synchronous metadata, as figure 3 measures \
         it. SIMPLE has a directory of all objects that is searched from its beginning, \
         MULTIPLE-DIRS as many directories as the trace has servers. BUDDY leaves order and time \
         of its writes to the page cache, which gathers what each of its files gets into rows of \
         up to 56 KB: an operation comes to {:.2} requests to the disk, while the 10 ms that an \
         operation takes in the paper are one request or a little more. What decides it is varied \
         in markatos-fig-6.{}",
        rate(0),
        rate(1),
        rate(2),
        rate(3),
        runs.get(3).map_or(f64::NAN, |run| run.accesses as f64 / trace.len() as f64),
        machine.smaller(),
    );
    Ok(Outcome::new(why).table(speeds).table(factors).table(accesses).table(mix).plot(plot))
}
