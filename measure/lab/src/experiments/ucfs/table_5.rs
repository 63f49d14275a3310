//! C4, table 5: the share of the objects brought along by whole-cluster reads that are requested
//! before they leave memory.

use super::comparison::words;
use super::setup;
use super::setup::{Case, System};
use super::table_3::memory_rates;
use super::traces::{SJ, TRACES, TraceKind};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Table};

/// The experiment `ucfs-table-5`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-table-5",
    paper: Paper::Ucfs,
    place: "table 5 and section 2.4.5",
    title: "Prefetch hit rate",
    parameters: &setup::PARAMETERS,
    seconds: [10, 120],
    run,
};

/// The paper's rates in percent, in the order of the traces; their average is 33.3.
const PAPER: [f64; 5] = [30.1, 28.1, 33.8, 36.2, 38.2];

/// Number of objects that a cluster read brings along, by the paper's calculation (section 2.4.5).
const ALONG: f64 = 15.0;

/// Milliseconds of a read or write of 4 KB and of 64 KB (section 2.4.5).
const TIMES: [f64; 2] = [6.1, 7.1];
/// Share of lookups that miss FFS's name cache (section 2.4.5).
const LOOKUP_MISSES: f64 = 0.35;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let traces = setup::traces(context);
    let cases: Vec<_> =
        traces.iter().map(|trace| Case::new(context, *trace, System::Ucfs)).collect();
    let figures = setup::figures(context, &cases)?;
    let rates: Vec<f64> = figures.iter().map(|figures| figures.prefetch_hit_rate()).collect();
    let paper: Vec<f64> = traces.iter().map(|trace| PAPER[*trace]).collect();
    let each: Vec<f64> = figures
        .iter()
        .map(|figures| figures.prefetched as f64 / figures.usage.reads.operations.max(1) as f64)
        .collect();

    let mut table = Table::new("rate", "Prefetched objects that were asked for later, each once");
    for (index, trace) in traces.iter().enumerate() {
        table.row(TRACES[*trace].name, "%", paper[index], rates[index]);
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    table.row("average", "%", 28.0..=38.0, mean);
    let mut along = Table::new("along", "Objects that a read brought along");
    for (trace, each) in traces.iter().zip(&each) {
        along.row(TRACES[*trace].name, "objects", ALONG, *each);
    }
    let groups = traces.iter().map(|trace| TRACES[*trace].name);
    let plot = Plot::bars("rate", "Prefetch hit rate", groups, Axis::linear("%"))
        .paper_bars("UCFS", paper)
        .ours_bars("UCFS", rates.iter().copied())
        .note(setup::note(context));
    let decides = decides(context)?;
    let why = why(&rates, &each, &decides);
    let outcome = Outcome::new(why).table(table).table(along).table(bound());
    Ok(outcome.table(decides).table(formula()).plot(plot))
}

/// Returns the limits that table 4 implies for table 5. Each disk hit reads a cluster, and each
/// object that it brings along and that is requested later is a memory hit. If `m` is the share of
/// memory hits in all hits, there are `m / (1 - m)` memory hits per disk hit, including those that
/// no read brought along.
fn bound() -> Table {
    let mut table = Table::new("bound", "What table 4 leaves of table 5");
    let in_memory = memory_rates(System::Ucfs).unwrap_or([f64::NAN; 5]);
    for ((trace, rate), memory) in TRACES.iter().zip(PAPER).zip(in_memory) {
        let by_disk = memory / (100.0 - memory);
        let what = format!("{}, objects along for each disk hit, at most", trace.name);
        table.row(what, "objects", ALONG, by_disk / (rate / 100.0));
        let what = format!("{}, rate if they are {ALONG}, at most", trace.name);
        table.row(what, "%", rate, 100.0 * by_disk / ALONG);
    }
    table
}

/// The properties that the rate may depend on, tried on the smallest trace.
const LIKENESSES: [(TraceKind, &str); 6] = [
    (TraceKind::Published, "as published"),
    (TraceKind::Alone, "no sessions"),
    (TraceKind::Small, "objects a quarter as large"),
    (TraceKind::Whole, "all parts of a page again, not half"),
    (TraceKind::Pages, "the same, and pages only, no lone objects"),
    (TraceKind::Reckoned, "the same, and at most 4 KB an object"),
];

fn decides(context: &mut Context<'_>) -> Result<Table, Failed> {
    let base = Case::new(context, SJ, System::Ucfs);
    let cases = LIKENESSES.map(|(likeness, _)| Case { likeness, ..base });
    let figures = setup::figures(context, &cases)?;
    let mut table = Table::new("decides", "SJ, with other requests: prefetch hit rate");
    for ((_, what), figures) in LIKENESSES.iter().zip(&figures) {
        table.row(*what, "%", PAPER[SJ], figures.prefetch_hit_rate());
    }
    Ok(table)
}

fn why(rates: &[f64], each: &[f64], decides: &Table) -> String {
    let decided = |row: usize| decides.rows.get(row).map_or(f64::NAN, |row| row.ours);
    let formula = 100.0 * speedup(mean_of(rates) / 100.0, mean_of(each));
    format!(
        "A read of a cluster brings {} objects along that were not in memory (the paper reckons \
         with 15), and {}% of them are asked for before they leave it (28.1 to 38.2). Clients go \
         from page to page of a site, a third of the time where the last one went, as they did in \
         a log of 1995, and another client with a page takes half of what the one before took \
         with it, as section 2.6.1 says. That decides little: without sessions SJ has {:.1}% in \
         place of {:.1}%. What decides is of what a group consists. Of objects of 6.6 KB a cluster \
         holds some ten, two pages with their parts; what is cold of one directory seldom fills \
         it, and the rest are strangers that were asked for as often; and more than half of the \
         visits, by PolyMix's mix, are of one object without parts, whose neighbours few want. \
         Smaller objects alone do not help ({:.1}% with a quarter of the size): more strangers \
         come along. If all parts of a page were asked for again with it, SJ had {:.1}%; if there \
         were also no visits but of pages, {:.1}%; and if no object were larger than the 4 KB of \
         section 2.4.5 besides, {:.1}%, beside the paper's 36.2. So its rate comes near with its \
         own arithmetic of 16 small files in a cluster, and pages that come back whole, but not \
         with its \"nearly half\". Nor does it go with table 4: with m of all hits in memory there \
         are m / (1 - m) for each on the disk, so that a read brings at most 0.5 to 0.8 objects \
         along if 28 to 38% of them are hit, and with 15 along at most 1.1 to 2.0% are. The \
         formula of \
         section 2.4.5 gives the paper's 519% and 3.1% with its numbers, and {:.0}% with ours.",
        words(each, 1),
        words(rates, 1),
        decided(1),
        decided(0),
        decided(2),
        decided(3),
        decided(4),
        decided(5),
        formula,
    )
}

fn mean_of(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Returns the gain of a cluster read, and the write that it may cause, over FFS's reads of the
/// same objects, as a share of CFS's own time (section 2.4.5).
fn speedup(hit_rate: f64, along: f64) -> f64 {
    let [small, cluster] = TIMES;
    let (cfs, reads) = (2.0 * cluster, 1.0 + hit_rate * along);
    let ffs = reads * (small + LOOKUP_MISSES * 4.0 * small);
    (ffs - cfs) / cfs
}

fn formula() -> Table {
    let mut table = Table::new("formula", "Section 2.4.5 by its own formula");
    table.row("33% of 15 objects", "%", 519.0, 100.0 * speedup(1.0 / 3.0, ALONG));
    table.row("none", "%", 3.1, 100.0 * speedup(0.0, ALONG));
    table
}
