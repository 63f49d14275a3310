//! C15, figure 8: histograms of the disk response time, trace UC.

use super::comparison::Comparison;
use super::setup;
use super::setup::System;
use super::traces::UC;
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};
use crate::run::whole_cache::{Figures, Outcome as Answer};

/// The experiment `ucfs-fig-8`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-fig-8",
    paper: Paper::Ucfs,
    place: "figure 8",
    title: "Histograms of the disk response time, trace UC",
    parameters: &setup::PARAMETERS,
    seconds: [30, 600],
    run,
};

/// System, range in milliseconds, percent of the requests, as the text describes the figure. Its
/// "most" for SQUIDML counts as more than half.
const PAPER: [(System, usize, usize, Stated); 12] = [
    (System::Ucfs, 0, 1, Stated::Number(65.5)),
    (System::Ucfs, 6, 64, Stated::Number(20.0)),
    (System::Squid, 0, 1, Stated::Number(10.0)),
    (System::Squid, 6, 10, Stated::Number(30.0)),
    (System::Squid, 28, 64, Stated::Number(60.0)),
    (System::SquidAsync, 0, 1, Stated::Number(22.0)),
    (System::SquidAsync, 6, 17, Stated::Number(60.0)),
    (System::SquidAsync, 23, 64, Stated::Number(10.0)),
    (System::SquidMl, 0, 1, Stated::Number(15.0)),
    (System::SquidMl, 12, 25, Stated::AtLeast(50.0)),
    (System::Larder, 0, 1, Stated::Nothing),
    (System::Larder, 6, 64, Stated::Nothing),
];

const LAST: usize = 40;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let runs = Comparison::of(context, vec![UC], |case| case)?;
    let share =
        |system, from, to| runs.each(system, |figures| figures.disk_time.percent(from, to))[0];
    let mut table = Table::new("shares", "Requests by their disk time");
    for (system, from, to, paper) in PAPER {
        let name = system.name();
        let what = match (from, to) {
            (0, to) => format!("{name}, under {to} ms"),
            (from, 64) => format!("{name}, {from} ms and over"),
            (from, to) => format!("{name}, {from} to {to} ms"),
        };
        table.row(what, "%", paper, share(system, from, to));
    }
    let mut waiting = Table::new("waiting", "Requests whose client waited less than 1 ms");
    for system in System::ALL {
        let under = runs.each(system, |figures| figures.waiting.percent(0, 1))[0];
        waiting.row(system.name(), "%", Stated::Nothing, under);
    }
    let bins = (0..LAST).map(|bin| bin.to_string()).chain([format!("{LAST} and over")]);
    let title = "Disk time of a request, trace UC";
    let mut plot = Plot::histogram("histogram", title, bins, "ms", Axis::linear("% of requests"));
    for system in System::ALL {
        let shares = (0..LAST).map(|bin| share(system, bin, bin + 1));
        plot = plot.ours_bars(system.name(), shares.chain([share(system, LAST, 64)]));
    }
    for system in System::ALL {
        // A number of the paper for a range of bins is shown at its first bin.
        let height = |bin| {
            let stated = |(of, from, ..): &&(_, usize, _, _)| *of == system && *from == bin;
            let bounds = PAPER.iter().find(stated).and_then(|(.., paper)| paper.bounds());
            bounds.map_or(f64::NAN, |[low, _]| low)
        };
        if (0..=LAST).any(|bin| height(bin).is_finite()) {
            plot = plot.paper_bars(system.name(), (0..=LAST).map(height));
        }
    }
    let note = format!(
        "The paper's numbers are of a range each and stand at its first millisecond. {}",
        setup::note(context)
    );
    let outcome = Outcome::new(why(&runs, share)).table(table).table(waiting);
    Ok(outcome.plot(plot.note(note)))
}

fn why(runs: &Comparison, share: impl Fn(System, usize, usize) -> f64) -> String {
    let answers = |system, answer: Answer| {
        let rate = |figures: &Figures| {
            100.0 * figures.outcomes.of(answer) as f64 / figures.requests().max(1) as f64
        };
        runs.each(system, rate)[0]
    };
    let idle = |system| share(system, 0, 1);
    format!(
        "A request's time is the drive's work from its arrival to the next one, so that background \
         writes stand with the request that brought them about, or with the one that came when \
         they began. Under 1 ms are, of UCFS, {:.1}% (the paper: 65.5): memory hits ({:.1}%) and \
         most of the misses ({:.1}%), which only enter the buffer. {:.1}% take 6 ms or more \
         (about 20): cluster reads, and the misses that make a group leave. SQUID/FFS has {:.1}% \
         under 1 ms (10) and {:.1}% of 28 ms and over (60): a miss takes four synchronous writes, \
         one for each directory inode, the file's, and the data. Of SQUID/FFS-async, {:.1}% take \
         nothing (22): here delayed writes leave in batches every 30 s and when memory is full, \
         many at once in the name of one request, whereas in the paper's simulator each request \
         seems to have paid for its own or for an older one's. SQUIDML has {:.1}% under 1 ms (15).",
        idle(System::Ucfs),
        answers(System::Ucfs, Answer::MemoryHit),
        answers(System::Ucfs, Answer::Miss),
        share(System::Ucfs, 6, 64),
        idle(System::Squid),
        share(System::Squid, 28, 64),
        idle(System::SquidAsync),
        idle(System::SquidMl),
    )
}
