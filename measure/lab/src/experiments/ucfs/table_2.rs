//! C17, tables 1 and 2: the traces as the paper describes them, beside the properties of the
//! generated requests.

use super::setup;
use super::setup::{Case, SEED, System};
use super::traces::TRACES;
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use workload::generator::calibration::Figure;

/// The experiment `ucfs-table-2`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-table-2",
    paper: Paper::Ucfs,
    place: "tables 1 and 2",
    title: "The traces, and the generated ones in their place",
    parameters: &PARAMETERS,
    seconds: [1, 20],
    run,
};

const PARAMETERS: [Parameter; 3] = [
    setup::PARAMETERS[7],
    setup::PARAMETERS[6],
    Parameter {
        name: "cache",
        value: "LRU over 256 MB and 16 GB (PA: 26), both scaled",
        from: "table 1",
    },
];

/// Properties of a trace: KB per request, and percentages.
struct Measurement {
    kilobytes: f64,
    hits: f64,
    in_memory: f64,
    one_timers: f64,
    below_8k: f64,
    revisited: f64,
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let traces = setup::traces(context);
    let variants: Vec<_> = traces
        .iter()
        .map(|trace| (TRACES[*trace].name, Case::new(context, *trace, System::Squid)))
        .collect();
    let measured = context.variants(variants, |variant, case| {
        let mut achieved = case.trace().achieved(case.scale);
        let requests =
            case.trace().requests(SEED, case.scale, case.likeness).take(case.requests() as usize);
        variant.watch(case.requests(), requests).for_each(|request| achieved.take(&request));
        let figure = |figure| achieved.figure(figure);
        Ok(Measurement {
            kilobytes: figure(Figure::Gigabytes) * 1e6 / figure(Figure::Requests),
            hits: figure(Figure::HitPercent),
            in_memory: figure(Figure::MemoryOfHitsPercent),
            one_timers: figure(Figure::OneTimerPercent),
            below_8k: figure(Figure::Below8KPercent),
            revisited: figure(Figure::RevisitedPercent),
        })
    })?;

    let mut sizes = Table::new("kilobytes", "Kilobytes a request");
    let mut hits = Table::new("hits", "Document hit rate");
    let mut others = Table::new("others", "What the text says of all traces");
    for (trace, measured) in traces.iter().map(|trace| &TRACES[*trace]).zip(&measured) {
        let stated = trace.gigabytes * 1e6 / trace.requests as f64;
        sizes.row(trace.name, "KB", stated, measured.kilobytes);
        hits.row(trace.name, "%", trace.hit_rate, measured.hits);
        let row = |what| format!("{what}, {}", trace.name);
        others.row(row("objects asked for once"), "%", 70.0, measured.one_timers);
        others.row(row("requests below 8 KB"), "%", Stated::AtLeast(75.0), measured.below_8k);
        others.row(row("files taken again with a page"), "%", 50.0, measured.revisited);
        others.row(row("hits in memory of all hits"), "%", Stated::Nothing, measured.in_memory);
    }
    let names = || traces.iter().map(|trace| TRACES[*trace].name);
    let plot = Plot::bars("hits", "Document hit rate", names(), Axis::linear("%"))
        .paper_bars("trace", traces.iter().map(|trace| TRACES[*trace].hit_rate))
        .ours_bars("trace", measured.iter().map(|measured| measured.hits))
        .note(setup::note(context));
    let why = "The logs are no longer public. The generator's parameters are fitted to these \
               figures at full length, and to the share of hits that Squid's buffer cache answered \
               (table 4), before any system is run; docs and `lab trace` list them. \"Nearly half \
               of all files\" that go with a page (section 2.6.1) stands here as 50%. What differs \
               here is what scaling and the seed leave: a short trace has less of a heavy tail, so \
               that its mean size is the least certain figure, and a cache that starts empty has \
               not the hit rate of one that ran for years. Two things that the paper says of its \
               traces do not go together: files of 4 KB on the average (section 2.4.5), and 22 to \
               31 KB a request in this table.";
    Ok(Outcome::new(why).table(hits).table(sizes).table(others).plot(plot))
}
