//! U8, figure 2: file-system calls of Squid-2.4.

use super::both::{MachinePair, words};
use super::machine::MachineClass;
use super::setup;
use super::setup::System;
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `unified-fig-2`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-fig-2",
    paper: Paper::Unified,
    place: "figure 2",
    title: "File-system calls of Squid-2.4",
    parameters: &setup::PARAMETERS,
    seconds: [20, 180],
    run,
};

/// Returns the paper's number of requests in a whole test at a rate (section 3.1).
fn requests(rate: u32) -> Stated {
    match rate {
        50 => 4.3e6.into(),
        100 => 6.0e6.into(),
        150 => 7.8e6.into(),
        200 => 9.5e6.into(),
        _ => Stated::Nothing,
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let [_, high] = MachinePair::run(context)?;
    let mut all = Table::new("requests", "Requests of a whole test, high-end").ordered();
    let mut shares = Table::new("shares", "Calls by requests, high-end");
    for (rate, squid, _) in high.pairs() {
        all.row(format!("{rate} req/s"), "", requests(rate), squid.requests);
        let share = |calls: f64| 100.0 * calls / squid.requests;
        let opens = share(squid.calls(|calls| calls.opens + calls.creates));
        shares.row(format!("{rate} req/s, open or close"), "%", 76.0, opens);
        let deletes = share(squid.calls(|calls| calls.unlinks));
        shares.row(format!("{rate} req/s, delete"), "%", 40.0, deletes);
    }
    let rate = Axis::linear("requests a second");
    let mut plot = Plot::lines("by-rate", "File-system calls", rate, Axis::linear("millions"));
    let paper = [50, 100, 150, 200].map(|rate| (f64::from(rate), requests(rate)));
    let paper = paper.map(|(rate, of)| (rate, of.bounds().map_or(f64::NAN, |[low, _]| low / 1e6)));
    plot = plot.paper("requests", paper);
    let points = |of: &dyn Fn(&setup::Run) -> f64| {
        let runs = high.rates.iter().zip(high.of(System::Squid));
        runs.map(|(rate, run)| (f64::from(*rate), of(run) / 1e6)).collect::<Vec<_>>()
    };
    plot = plot
        .ours("requests", points(&|run| run.requests))
        .ours("open", points(&|run| run.calls(|calls| calls.opens + calls.creates)))
        .ours("delete", points(&|run| run.calls(|calls| calls.unlinks)))
        .ours("read", points(&|run| run.calls(|calls| calls.reads)))
        .ours("write", points(&|run| run.calls(|calls| calls.writes)));
    let why = why(&high);
    Ok(Outcome::new(why).table(all).table(shares).plot(plot.note(setup::note(context))))
}

fn why(high: &MachinePair) -> String {
    let share = |of: fn(&crate::space::manager::Calls) -> u64| {
        let squid = high.of(System::Squid).iter();
        words(squid.map(|run| 100.0 * run.calls(of) / run.requests), 0)
    };
    debug_assert_eq!(high.end, MachineClass::High);
    format!(
        "The numbers of section 3.1 that go with the figure are of requests: table 1's opens are \
         76% of them, as it says, whereas all calls of tables 1 and 2 together are 16.6 million \
         at 50 requests a second. How many requests a test has follows from the rules of \
         PolyMix-3 and the size of the cache alone: it is filled with twice its size of answers, \
         20 GB, which are 2.6 million requests whatever the rate (a quick run fills it once), and \
         then come as many requests as 9.4 hours at the full rate have. Nothing was set by the \
         figure. Opens are {}% of the requests, deletes {}%: of requests 80% may be cached, and \
         each of these opens a file, to read it or to create it, but for what is found in memory.",
        share(|calls| calls.opens + calls.creates),
        share(|calls| calls.unlinks),
    )
}
