//! U8, figure 3: mean response time of Squid-2.4.

use super::both::{MachinePair, words};
use super::machine::MachineClass;
use super::setup;
use super::setup::{Case, Run, System};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `unified-fig-3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-fig-3",
    paper: Paper::Unified,
    place: "figure 3",
    title: "Mean response time of Squid-2.4",
    parameters: &setup::PARAMETERS,
    seconds: [1, 20],
    run,
};

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let cases = MachineClass::BOTH.map(|end| Case::flooded(context, end, System::Squid));
    let peaks = setup::runs(context, &cases)?;
    let mut table = Table::new("delivered", "Requests answered a second when too many come");
    let paper: [Stated; 2] = [(50.0..=60.0).into(), (150.0..=200.0).into()];
    for ((end, paper), run) in MachineClass::BOTH.into_iter().zip(paper).zip(&peaks) {
        table.row(end.name(), "req/s", paper, run.achieved);
    }
    let mut times = Table::new("response", "Mean response time");
    let x = Axis::linear("requests a second");
    let mut plot = Plot::lines("by-rate", "Mean response time of Squid-2.4", x, Axis::log("ms"));
    for both in &machines {
        for (rate, squid, _) in both.pairs() {
            let what = format!("{}, {rate} req/s", both.end.name());
            times.row(what, "ms", Stated::Nothing, squid.response_ms());
        }
        let points = both.pairs().map(|(rate, squid, _)| (f64::from(rate), squid.response_ms()));
        plot = plot.ours(both.end.name(), points);
    }
    let one_disk = setup::one_disk(&peaks[0]);
    let [low, high] = machines.map(|both| {
        words(both.of(System::Squid).iter().filter(|run| run.delivered).map(Run::response_ms), 0)
    });
    let why = format!(
        "Squid-2.4 answers {:.0} requests a second on the low-end machine (the paper: 50 to \
         60) and {:.0} \
         on the high-end one (150 to 200). Up to there its mean response time is {low} ms and \
         {high} ms: the delay of the servers, 2.5 s for each miss, is nearly all of it until the \
         disks are busy all the time. Beyond, robots have all the requests under way that they \
         may, ten seconds' worth. {one_disk} The figure's curves cannot be read from the text.",
        peaks[0].achieved, peaks[1].achieved,
    );
    let plot = plot.note(setup::note(context));
    Ok(Outcome::new(why).table(table).table(times).plot(plot))
}
