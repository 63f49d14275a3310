//! The product's layout as a space manager on the machine of Secondary Storage Management: the same
//! operations, the same file on the same modelled Solaris UFS and drive, and the same memory as
//! LAZY-READS-LOC.
//!
//! The caches in front decide what is kept, so hits are the same except for evictions by the engine
//! itself. There is no admission: every store is carried out.

use super::default::{FASTER, POSSIBLE};
use super::space_bound;
use super::space_bound::Bound;
use crate::experiment::{Axis, Context, Failed, Outcome, Parameter, Plot, Stated, Table};
use crate::experiments::markatos::machine::{DISK, GETS, Machine, Manager, Product, Run};

pub(super) const PARAMETER: Parameter = Parameter {
    name: "LAZY-READS-LOC",
    value: "dec-1996 behind two LRU caches, the file sized for 71%, 76% and 95% utilization, on \
            Solaris UFS and a Seagate ST15150; as large as there (quick: 1/64)",
    from: "Secondary Storage Management, Methodology; as in markatos-fig-8",
};

/// Shares of slots in use in the paper's file; the product gets a file of the same size.
const UTILIZATIONS: [f64; 3] = [0.71, 0.76, 0.95];

/// The product in the comparison: as many reads are in flight as LAZY-READS collects, and each goes
/// to the host at once, whose elevator sorts the waiting ones.
const LARDER: Product = Product { reads: 10, collected: 1, minute: false };

/// Further runs that explain the result: the paper's best system without its locality buffers, and
/// other ways to configure or drive the product.
const OTHERS: [(&str, Option<Product>); 5] = [
    ("LAZY-READS", None),
    ("Larder, one read at a time", Some(Product { reads: 1, ..LARDER })),
    ("Larder, 64 reads under way", Some(Product { reads: 64, ..LARDER })),
    ("Larder, reads collected by ten", Some(Product { reads: 64, collected: 10, ..LARDER })),
    ("Larder, unwritten for a minute", Some(Product { minute: true, ..LARDER })),
];

pub(super) struct Compared {
    /// Runs of the paper's best system and of the product.
    runs: Vec<[Run; 2]>,
    /// Runs of [`OTHERS`] at each utilization.
    others: Vec<Vec<Run>>,
    bounds: Vec<Bound>,
    /// Number of gets in each run.
    gets: u64,
    note: String,
}

/// Runs both at every utilization.
pub(super) fn compare(context: &mut Context<'_>) -> Result<Compared, Failed> {
    let machine = Machine::of(context);
    let shares = &UTILIZATIONS[..context.pick(1, UTILIZATIONS.len())];
    let trace = machine.trace(context.seed(), GETS, DISK)?;
    let variants =
        shares.iter().map(|share| (format!("the bound at {:.0}%", share * 100.0), *share));
    let bounds = context.variants(variants, |_, share| space_bound::of(machine, &trace, share))?;
    let variants = shares.iter().flat_map(|share| {
        let managers = [
            ("LAZY-READS-LOC", Manager::lazy_loc(*share, 128)),
            ("Larder", Manager::product(*share, LARDER)),
        ];
        managers.map(|(name, manager)| (format!("{name} at {:.0}%", share * 100.0), manager))
    });
    let runs =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let runs = runs.chunks(2).filter_map(|pair| pair.first_chunk().copied()).collect();
    let variants = shares.iter().flat_map(|share| {
        let manager = |product| match product {
            Some(product) => Manager::product(*share, product),
            None => Manager::lazy(*share),
        };
        OTHERS.map(|(name, product)| (format!("{name} at {:.0}%", share * 100.0), manager(product)))
    });
    let others =
        context.variants(variants, |variant, manager| machine.run(variant, manager, &trace))?;
    let others = others.chunks(OTHERS.len()).map(<[Run]>::to_vec).collect();
    Ok(Compared { runs, others, bounds, gets: trace.counts.gets, note: machine.note() })
}

impl Compared {
    fn factor(runs: &[Run; 2]) -> f64 {
        runs[1].gets_per_second / runs[0].gets_per_second
    }

    /// Returns the share of the possible speed in percent.
    fn of_bound(run: &Run, bound: &Bound) -> f64 {
        100.0 * run.gets_per_second / bound.gets_per_second()
    }

    /// Returns the product's progress towards the goal: 1 means reached.
    fn goal(runs: &[Run; 2], bound: &Bound) -> f64 {
        let possible = Compared::of_bound(&runs[1], bound) / 100.0 / POSSIBLE;
        (Compared::factor(runs) / FASTER).max(possible)
    }

    /// Returns the share of lost gets in percent.
    fn missing(&self, run: &Run) -> f64 {
        100.0 * run.missing as f64 / self.gets as f64
    }

    pub(super) fn show(&self, outcome: Outcome) -> Outcome {
        let mut speeds = Table::new("space-speed", "As space managers: gets a second");
        let mut factors = Table::new(
            "space-factor",
            "As space managers: how many times as fast as the paper's best",
        );
        let mut missing = Table::new(
            "space-missing",
            "As space managers: gets that found nothing, or did not store",
        );
        let mut goal = Table::new(
            "space-goal",
            "As space managers, towards the goal: 1 is 1.5 times the paper's best, or 90% of the \
             bound",
        );
        let mut bounds = Table::new("space-bound", "As space managers: the bound");
        let all = UTILIZATIONS.iter().zip(&self.runs).zip(&self.bounds);
        for ((share, runs), bound) in all {
            let share = format!("at {:.0}%", share * 100.0);
            goal.row(
                format!("Larder {share}"),
                "×",
                Stated::AtLeast(1.0),
                Compared::goal(runs, bound),
            );
            let mut row = |what: &str, unit: &str, value: f64| {
                bounds.row(format!("{what} {share}"), unit, Stated::Nothing, value);
            };
            row("the bound", "gets/s", bound.gets_per_second());
            row("its writes", "s", bound.writing);
            row("its reads", "s", bound.reading);
            row("a long write", "MB/s", bound.write_rate());
            row("LAZY-READS-LOC, of the bound", "%", Compared::of_bound(&runs[0], bound));
            row("Larder, of the bound", "%", Compared::of_bound(&runs[1], bound));
            for (name, run) in ["LAZY-READS-LOC", "Larder"].iter().zip(runs) {
                let what = format!("{name} {share}");
                speeds.row(&what, "gets/s", Stated::Nothing, run.gets_per_second);
                missing.row(&what, "%", Stated::Nothing, self.missing(run));
            }
            factors.row(format!("Larder {share}"), "×", Stated::Nothing, Compared::factor(runs));
        }
        let groups = UTILIZATIONS.iter().take(self.runs.len());
        let groups = groups.map(|share| format!("{:.0}%", share * 100.0));
        let each =
            |of: usize| self.runs.iter().map(|runs| runs[of].gets_per_second).collect::<Vec<f64>>();
        let title = "Gets a second by the utilization of the paper's file";
        let plot = Plot::bars("space-speed", title, groups, Axis::linear("gets/s"))
            .ours_bars("LAZY-READS-LOC", each(0))
            .ours_bars("Larder", each(1))
            .ours_bars("bound", self.bounds.iter().map(Bound::gets_per_second))
            .note(&self.note);
        let outcome = outcome.table(goal).table(speeds).table(factors).table(bounds).table(missing);
        outcome.table(self.work()).plot(plot)
    }

    /// Returns a table of the work of each on the disk.
    fn work(&self) -> Table {
        let title = "As space managers: speed, and what was read and written for it";
        let mut work = Table::new("space-work", title);
        for ((share, runs), others) in UTILIZATIONS.iter().zip(&self.runs).zip(&self.others) {
            let names = ["LAZY-READS-LOC", "Larder"].into_iter().zip(runs);
            for (name, run) in names.chain(OTHERS.iter().map(|(name, _)| *name).zip(others)) {
                let what = format!("{name} at {:.0}%", share * 100.0);
                let mut row = |of: &str, unit: &str, value: f64| {
                    work.row(format!("{what}{of}"), unit, Stated::Nothing, value);
                };
                row("", "gets/s", run.gets_per_second);
                row(": reads", "", run.reads[0]);
                row(": read", "MB", run.reads[1]);
                row(": writes", "", run.writes[0]);
                row(": written", "MB", run.writes[1]);
                row(": pages read to be written", "", run.page_reads as f64);
                row(": requests in all", "", run.accesses as f64);
                let seconds = |nanos: u64| nanos as f64 / 1e9;
                row(": the disk reads", "s", seconds(run.disk.reads));
                row(": it writes blocks", "s", seconds(run.disk.short_writes));
                row(": it writes more", "s", seconds(run.disk.long_writes));
            }
        }
        work
    }

    pub(super) fn words(&self) -> String {
        let all = UTILIZATIONS.iter().zip(&self.runs).zip(&self.bounds);
        let each = all.map(|((share, runs), bound)| {
            format!(
                "{:.2} times LAZY-READS-LOC at {:.0}%, {:.0}% of the bound ({:.3}% of the gets \
                 lost, {:.3}% there)",
                Compared::factor(runs),
                share * 100.0,
                Compared::of_bound(&runs[1], bound),
                self.missing(&runs[1]),
                self.missing(&runs[0]),
            )
        });
        format!(
            "As space managers, where both are told what to keep: {}. Lost is what an engine gave \
             up by itself to have room, or did not take. The bound is what is stored by the rate \
             of a long write into the same file, and one positioning for all objects of a \
             directory that are among {} reads in a row, ten of them sorted by place.",
            each.collect::<Vec<String>>().join("; "),
            super::scenario::TOGETHER,
        )
    }
}
