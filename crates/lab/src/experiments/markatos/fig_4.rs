//! M1 to M4, figure 4: a file per object against BUDDY.

use super::machine::{FILES_DISK, FILES_GETS, Machine, Manager, PARAMETERS};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-4",
    paper: Paper::Markatos,
    place: "figure 4",
    title: "A file per object against BUDDY: time of 300,000 operations on 1 GB",
    parameters: &PARAMETERS,
    seconds: [4, 60],
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
    let arms = MANAGERS.map(|(name, manager, _)| (name, manager));
    let runs = context.arms(arms, |arm, manager| machine.run(arm, manager, &trace))?;
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
         it. The run is divided by {}, and two things are smaller for it than on the paper's \
         machine. SIMPLE's one directory, which is searched from its beginning, has so many times \
         fewer entries: it stays in memory, its inodes lie close together, and that \
         alone makes it faster than the paper has it. And BUDDY's files cover less of the disk, so \
         that its seeks are shorter. The memory of the paper's machine is not known, and BUDDY, \
         which leaves order and time of its writes to the page cache, depends on it more than the \
         others.",
        rate(0),
        rate(1),
        rate(2),
        rate(3),
        machine.divisor,
    );
    Ok(Outcome::new(why).table(speeds).table(factors).table(accesses).table(mix).plot(plot))
}
