//! T5, abstract: system throughput with and without TFS.

use super::fig_2::pairs;
use super::setup;
use super::setup::TRACES;
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::run::whole_cache::Figures;

/// The experiment `tfs-throughput`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tfs-throughput",
    paper: Paper::Tfs,
    place: "abstract, section 3.2",
    title: "Requests a second, TFS against FFS-async",
    parameters: &PARAMETERS,
    seconds: [6, 40],
    run,
};

const PARAMETERS: [Parameter; 7] = [
    setup::PARAMETERS[0],
    setup::PARAMETERS[1],
    setup::PARAMETERS[2],
    setup::PARAMETERS[4],
    setup::PARAMETERS[6],
    setup::PARAMETERS[7],
    Parameter {
        name: "processor",
        value: "0, 1 and 3 ms a request",
        from: "section 3.2 adds processing and idle time to a URL's latency and does not say how \
               much",
    },
];

/// Processor time per request in milliseconds.
const PROCESSOR: [f64; 3] = [0.0, 1.0, 3.0];

/// Returns the requests per second if they come one after another.
fn rate(figures: &Figures, processor: f64) -> f64 {
    let disk = figures.elapsed as f64 / 1e6 / figures.requests().max(1) as f64;
    1e3 / (disk + processor)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let pairs = pairs(context)?;
    let names = || TRACES.iter().map(|trace| trace.name);
    let gain = |pair: &[Figures; 2], processor| {
        100.0 * (rate(&pair[1], processor) / rate(&pair[0], processor) - 1.0)
    };
    let mut most = Table::new("most", "Throughput gained by TFS, the most of all traces");
    let mut gains = Table::new("gain", "Throughput gained by TFS");
    for processor in PROCESSOR {
        let best = pairs.iter().map(|pair| gain(pair, processor)).fold(f64::MIN, f64::max);
        most.row(format!("with {processor} ms of processor"), "%", 160.0, best);
        for (name, pair) in names().zip(&pairs) {
            let what = format!("{name}, with {processor} ms of processor");
            gains.row(what, "%", Stated::AtMost(160.0), gain(pair, processor));
        }
    }
    let each = |of: usize| pairs.iter().map(move |pair| rate(&pair[of], 1.0)).collect::<Vec<f64>>();
    let title = "Requests a second, with 1 ms of processor each";
    let plot = Plot::bars("throughput", title, names(), Axis::linear("requests/s"))
        .ours_bars("FFS-async", each(0))
        .ours_bars("TFS", each(1))
        .note(setup::note(context));
    let best = |processor| pairs.iter().map(|pair| gain(pair, processor)).fold(f64::MIN, f64::max);
    let why = format!(
        "The paper's abstract has up to 160% more throughput and its text no figure of it. With \
         one request after another throughput is the inverse of a URL's latency, disk and \
         processor, so that the gain depends on a processor time that the paper does not state: \
         at most {:.0}% here if it is nothing, {:.0}% with 1 ms, {:.0}% with 3 ms. 77% less disk \
         latency, which is the abstract's other number, and 160% more throughput go together when \
         the processor takes a quarter of the time that the disk takes without TFS.",
        best(0.0),
        best(1.0),
        best(3.0),
    );
    Ok(Outcome::new(why).table(most).table(gains).plot(plot))
}
