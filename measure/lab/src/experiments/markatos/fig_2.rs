//! M10, figure 2: the operations that a proxy's memory cache leaves for the disk, mostly writes,
//! and the mix of operations in the paper's other runs.
//!
//! Only the two-level cache runs, without a space manager or a disk.

use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};
use workload::generator::Workload;
use workload::two_level::{CacheCounts, TwoLevel};

/// The experiment `markatos-fig-2`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-2",
    paper: Paper::Markatos,
    place: "figure 2, and the mix of operations in section 3",
    title: "Reads and writes that reach the disk, by its size",
    parameters: &[
        Parameter {
            name: "requests",
            value: "5 million gets; the mix after 1,058,206 (quick: a fiftieth of both)",
            from: "section 4.1, section 3",
        },
        Parameter { name: "memory", value: "512 MB, LRU (quick: a fiftieth)", from: "section 3" },
        Parameter {
            name: "disk",
            value: "0.5 to 8 GB, LRU; 2 GB for the mix (quick: a fiftieth)",
            from: "the axis of the figure is not in its text; 2 GB from section 4",
        },
        Parameter {
            name: "trace",
            value: "dec-1996, generated",
            from: "the paper's own, of Digital Equipment, is no longer public; made after its \
                   published counts",
        },
    ],
    seconds: [1, 60],
    run,
};

/// Gets of figure 2, and of the paper's runs of a million operations.
const GETS: u64 = 5_000_000;
const RUN: u64 = 1_058_206;

/// Sizes of the disk caches in MB, largest first.
const DISKS: [u64; 5] = [8_192, 4_096, 2_048, 1_024, 512];

/// Size of the disk cache for the mix, in MB.
const DISK: u64 = 2_048;

/// Counts of all gets, and of those of the mix.
struct Counted {
    all: CacheCounts,
    run: CacheCounts,
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let part = context.size(500, 50, 1_u32);
    let seed = context.seed();
    let variants = DISKS.map(|disk| (format!("{disk} MB"), disk));
    let counted = context.variants(variants, |variant, disk| count(variant, disk, part, seed))?;
    let of = |disk: u64| DISKS.iter().position(|known| *known == disk).map(|at| &counted[at]);
    let mix = &of(DISK).ok_or("no disk of that size")?.run;

    // Per 5 million gets, in millions, since quick runs have fewer.
    let millions = |count: u64, of: &CacheCounts| count as f64 / of.gets as f64 * GETS as f64 / 1e6;
    let mut operations = Table::new("operations", "Operations for 5 million gets");
    for (disk, Counted { all, .. }) in DISKS.iter().zip(&counted).rev() {
        let gb = *disk as f64 / 1_024.0;
        operations.row(format!("writes, {gb} GB"), "million", 3.0, millions(all.misses, all)).row(
            format!("reads, {gb} GB"),
            "million",
            Stated::AtMost(0.5),
            millions(all.disk_hits, all),
        );
    }
    let all = counted.iter().map(|counted| &counted.all);
    let sums = all.map(|all| millions(all.misses + all.disk_hits, all));
    let sum = sums.fold(0.0, f64::max);
    operations.row("reads and writes, at most", "million", 3.4, sum);

    let percent = |count: u64| 100.0 * count as f64 / mix.gets as f64;
    let stated = |count: u64| 100.0 * count as f64 / RUN as f64;
    let mut shares = Table::new("mix", "Of all gets in the runs of a million operations, 2 GB");
    for (what, paper, ours) in [
        ("memory hits", 338_081, mix.memory_hits),
        ("disk hits (reads)", 42_085, mix.disk_hits),
        ("misses (writes)", 678_040, mix.misses),
        ("deletes", 279_875, mix.deletes()),
    ] {
        shares.row(what, "%", stated(paper), percent(ours));
    }

    let points = |count: fn(&CacheCounts) -> u64| {
        let pairs = DISKS.iter().zip(&counted);
        pairs.map(move |(disk, Counted { all, .. })| {
            (*disk as f64 / 1_024.0, millions(count(all), all))
        })
    };
    let plot = Plot::lines(
        "by-disk",
        "Operations for 5 million gets by the size of the disk",
        Axis::log("disk cache (GB)"),
        Axis::linear("operations (million)").range(0.0, 4.0),
    )
    .ours("writes", points(|counts| counts.misses))
    .paper("writes", [(0.5, 3.0), (8.0, 3.0)])
    .ours("reads", points(|counts| counts.disk_hits))
    .paper("reads (at most)", [(0.5, 0.5), (8.0, 0.5)])
    .note("The paper's text says “around 3 million” and “less than half a million”: level lines.");
    let why = why(&operations, &shares);
    Ok(Outcome::new(why).table(operations).table(shares).plot(plot))
}

/// Runs the two caches with all amounts divided by `part`.
fn count(variant: &Variant, disk: u64, part: u32, seed: u64) -> Result<Counted, Failed> {
    let workload = Workload::named("dec-1996").ok_or("no workload dec-1996 is known")?;
    let workload = workload.scaled(part);
    let part = u64::from(part);
    let mut cache = TwoLevel::new((512 << 20) / part, (disk << 20) / part);
    let gets = GETS / part;
    let requests = workload.iter(seed).take(gets as usize);
    let mut operations = Vec::new();
    let mut run = CacheCounts::default();
    for request in variant.watch(gets, requests) {
        operations.clear();
        cache.request(&request, &mut operations);
        if cache.counts().gets == RUN / part {
            run = cache.counts();
        }
    }
    Ok(Counted { all: cache.counts(), run })
}

fn why(operations: &Table, shares: &Table) -> String {
    let of = |table: &Table, what: &str| {
        table.rows.iter().find(|row| row.what == what).map_or(f64::NAN, |row| row.ours)
    };
    format!(
        "Writes outnumber reads on every disk, as the paper has it, because what is popular stays \
         in memory and most of the rest is asked for once. A larger disk turns some writes into \
         reads: {:.2} million writes at 0.5 GB and {:.2} at 8 GB, where the paper says that they \
         decrease slowly. The requests are generated, with what the paper publishes of its trace: \
         the mix of one million operations ({:.1}% memory hits and {:.1}% disk hits here, 31.9% \
         and 4.0% in the paper) is a result of parameters that were fitted to it, and so are the \
         deletes through the mean size of objects ({:.1}% of the gets here, {:.1}% there). What \
         the other disks do is not fitted.",
        of(operations, "writes, 0.5 GB"),
        of(operations, "writes, 8 GB"),
        of(shares, "memory hits"),
        of(shares, "disk hits (reads)"),
        of(shares, "deletes"),
        100.0 * 279_875.0 / RUN as f64,
    )
}
