//! C14, section 5, "Piggyback Cache Validation": the gain of validating neighbours after a
//! validation. The paper mentions the possibility and states no figure.

use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table,
};
use crate::experiments::ucfs::validation_model;
use crate::experiments::ucfs::validation_model::{
    Figures, Lifetimes, MILLI, Micros, Model, Neighbourhood, Origins, SECOND,
};
use workload::generator::Workload;
use workload::generator::presets::Preset;
use workload::request::Request;

/// The experiment `ucfs-neighbour-validation`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ucfs-neighbour-validation",
    paper: Paper::Ucfs,
    place: "section 5",
    title: "Validating neighbours behind a validation",
    parameters: &PARAMETERS,
    seconds: [8, 120],
    run,
};

const PARAMETERS: [Parameter; 8] = [
    Parameter {
        name: "requests",
        value: "SJ, BO1, DEC and UCBSep01, 250,000 of each (quick: 20,000), all times and caches \
                divided alike",
        from: "table 2; generated, see ucfs-table-2",
    },
    Parameter {
        name: "changes",
        value: "1% of repeated requests (DEC 28%, UCBSep01 0.01%) find another version; it came at \
                a random time between the two requests",
        from: "assumed, as the generator has it",
    },
    Parameter {
        name: "age",
        value: "since its last modification an object is from 1 to 256 days old when the trace \
                begins, each doubling as likely",
        from: "assumed",
    },
    Parameter {
        name: "lifetime",
        value: "a tenth of the age, a day at most; or 5 minutes; or an hour, of everything",
        from: "the product's guess (RFC 9111, 4.2.2); assumed",
    },
    Parameter { name: "round trip", value: "100 ms, of every question", from: "assumed" },
    Parameter {
        name: "budget",
        value: "0, 1, 2, 4 and 8 neighbours behind a validation, one after another, for one \
                validation of a site at a time",
        from: "the product",
    },
    Parameter {
        name: "neighbours",
        value: "of the same site: memory (there, in the same directory or cluster, up to 64 places \
                before and behind it); product (the same, and what one read brings of what lies \
                around something that had to be read); page (all of the directory, in memory or \
                not); cluster (all in its cluster, in memory or not)",
        from: "section 5: \"other files in the same cluster\"",
    },
    Parameter {
        name: "cache",
        value: "memory and disk of the trace, clusters of 1 MB that go from the oldest on",
        from: "table 1, the product",
    },
];

const ROUND_TRIP: Micros = 100 * MILLI;
const CLUSTER: u64 = 1 << 20;
const BUDGETS: [u32; 4] = [1, 2, 4, 8];

const TRACES: [(&str, &str); 4] =
    [("SJ", "nlanr-sj"), ("BO1", "nlanr-bo1"), ("DEC", "dec-1996"), ("UCBSep01", "ucb-sep01")];

const LIFETIMES: [(&str, Lifetimes); 3] = [
    ("guessed", Lifetimes::Guessed),
    ("5 minutes", Lifetimes::Said(300 * SECOND)),
    ("an hour", Lifetimes::Said(3_600 * SECOND)),
];

/// The kinds of neighbourhoods; the product's comes first.
const BESIDES: [(&str, Neighbourhood); 4] = [
    ("product", Neighbourhood::Around),
    ("memory", Neighbourhood::Memory),
    ("page", Neighbourhood::Page),
    ("cluster", Neighbourhood::Cluster),
];

/// A trace with its origins.
struct Stage {
    preset: Preset,
    requests: Vec<Request>,
    origins: Origins,
}

impl Stage {
    fn run(&self, lifetimes: Lifetimes, beside: Neighbourhood, most: u32) -> Figures {
        let Preset { caches, size, .. } = self.preset;
        // Scaled: in a trace with divided times, requests of a visit are closer together.
        let round_trip = (ROUND_TRIP as f64 * size) as u64;
        let cluster = CLUSTER.min(caches.disk / 64);
        let model = Model { caches, cluster, lifetimes, beside, most, round_trip };
        validation_model::run(&model, &self.origins, self.requests.iter().copied())
    }
}

/// Results of a trace and a lifetime: without neighbours, and by neighbourhood and budget.
struct Measurement {
    label: String,
    without: Figures,
    with: Vec<[Figures; BUDGETS.len()]>,
}

impl Measurement {
    /// Returns the validations that clients no longer wait for, in percent.
    fn saved(&self, figures: &Figures) -> f64 {
        percent(self.fewer(figures), self.without.validations())
    }

    fn fewer(&self, figures: &Figures) -> i64 {
        self.without.validations() as i64 - figures.validations() as i64
    }

    /// Returns the additional requests to origins in percent.
    fn more(&self, figures: &Figures) -> f64 {
        let without = self.without.origin_requests();
        percent(figures.origin_requests() as i64 - without as i64, without)
    }

    /// Returns the number of additional requests to origins per validation that no client waits for
    /// any more.
    fn price(&self, figures: &Figures) -> f64 {
        let more = figures.origin_requests() as f64 - self.without.origin_requests() as f64;
        match self.fewer(figures) {
            0 => 0.0,
            fewer => more / fewer as f64,
        }
    }

    /// Returns the share of clients' waiting time for validations that is saved, in percent.
    fn sooner(&self, figures: &Figures) -> f64 {
        let without = self.without.waiting;
        percent(without as i64 - figures.waiting as i64, without)
    }
}

fn percent(part: i64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let stages = stages(context)?;
    let variants = stages.iter().zip(TRACES).flat_map(|(stage, (name, _))| {
        LIFETIMES.map(|(word, lifetimes)| (format!("{name}, {word}"), (stage, lifetimes)))
    });
    let measured = context.variants(variants, |variant, (stage, lifetimes)| {
        variant.total(1 + (BESIDES.len() * BUDGETS.len()) as u64);
        let made = |beside, most| {
            let figures = stage.run(lifetimes, beside, most);
            variant.advance(1);
            figures
        };
        let without = made(Neighbourhood::Memory, 0);
        let with = BESIDES.map(|(_, beside)| BUDGETS.map(|most| made(beside, most)));
        Ok(Measurement { label: variant.label().to_owned(), without, with: with.to_vec() })
    })?;
    Ok(show(&measured).plot(curve(&measured)))
}

fn stages(context: &mut Context<'_>) -> Result<Vec<Stage>, Failed> {
    let (seed, most) = (context.seed(), context.size(1_000, 20_000, 250_000));
    let variants = TRACES.map(|(name, preset)| (format!("{name}, changes"), preset));
    context.variants(variants, |_, name| {
        let preset = Preset::named(name).ok_or("the generator has no such trace")?;
        let divisor = preset.requests.div_ceil(most) as u32;
        let preset = preset.scaled(divisor);
        let requests = Workload::Preset(preset).iter(seed);
        let requests: Vec<Request> = requests.take(preset.requests.min(most) as usize).collect();
        let origins = Origins::of(requests.iter().copied(), divisor);
        Ok(Stage { preset, requests, origins })
    })
}

fn show(measured: &[Measurement]) -> Outcome {
    let mut without = Table::new("without", "Without neighbours, in percent of all requests");
    let mut saved = Table::new("saved", "Validations that clients no longer wait for");
    let mut sooner = Table::new("sooner", "Time that clients no longer wait for validations");
    let mut more = Table::new("more", "More requests to origins");
    let mut price = Table::new("price", "More requests for each validation not waited for");
    let mut used = Table::new("used", "Validations of neighbours that were used while fresh");
    let mut outdated =
        Table::new("outdated", "Answers that were not the origin's by then, of 10,000");
    for one in measured {
        let Measurement { label, without: base, with } = one;
        let share = |part: u64| percent(part as i64, base.requests);
        let row = |what: &str| format!("{label}: {what}");
        without.row(row("validated"), "%", Stated::Nothing, share(base.validations()));
        without.row(row("missed"), "%", Stated::Nothing, share(base.misses));
        let wrong = |figures: &Figures| 1e4 * figures.outdated as f64 / figures.requests as f64;
        outdated.row(row("none"), "", Stated::Nothing, wrong(base));
        for ((beside, _), all) in BESIDES.iter().zip(with) {
            for (most, figures) in BUDGETS.iter().zip(all) {
                let what = row(&format!("{beside}, {most}"));
                saved.row(&what, "%", Stated::Nothing, one.saved(figures));
                sooner.row(&what, "%", Stated::Nothing, one.sooner(figures));
                more.row(&what, "%", Stated::Nothing, one.more(figures));
                price.row(&what, "", Stated::Nothing, one.price(figures));
                let behind = figures.behind.iter().sum::<u64>();
                used.row(&what, "%", Stated::Nothing, percent(figures.used as i64, behind));
                outdated.row(&what, "", Stated::Nothing, wrong(figures));
            }
        }
    }
    let outcome = Outcome::new(why(measured)).table(without).table(saved).table(sooner).table(more);
    outcome.table(price).table(used).table(outdated)
}

/// Plots the savings by their cost, for the product's neighbourhood.
fn curve(measured: &[Measurement]) -> Plot {
    let (x, y) = (Axis::linear("% more requests to origins"), Axis::linear("% not waited for"));
    let plot = Plot::lines("saved", "Validations that clients no longer wait for", x, y);
    let plot = measured.iter().fold(plot, |plot, one| {
        let points = one.with[0].iter().map(|figures| (one.more(figures), one.saved(figures)));
        plot.ours(&one.label, [(0.0, 0.0)].into_iter().chain(points).collect::<Vec<_>>())
    });
    plot.note("The product's neighbours; budgets of 0, 1, 2, 4 and 8.")
}

fn why(measured: &[Measurement]) -> String {
    let of = |beside: usize, budget: usize, what: &dyn Fn(&Measurement, &Figures) -> f64| {
        let all = measured.iter().map(|one| what(one, &one.with[beside][budget]));
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        format!("{low:.1} to {high:.1}")
    };
    let (saved, more, price) = (&Measurement::saved, &Measurement::more, &Measurement::price);
    format!(
        "The paper: \"Because UCFS groups affiliated documents together, we can apply the \
         piggyback invalidation techniques to UCFS to reduce networking cost and maintain strong \
         coherency. When requesting/revalidating one web document from a web server, UCFS can \
         piggyback validation requests for other files in the same cluster.\" It has no figure, \
         and HTTP has no such request: here each is an ordinary one, behind the first, so that \
         what is saved is waiting, not requests.\n\nWith up to 4 of the product's neighbours \
         clients wait for {}% fewer validations, and origins get {}% more requests, {} for each \
         validation that is not waited for; with 1, {}%, {}% and {}. If only those are taken that \
         are in memory anyway, 4 save {}% for {}% more: what is stale has mostly left memory. All \
         of the directory, in memory or not: {}% for {}%; all of the cluster: {}% for {}%. Mostly \
         a quarter to a half of such validations are used before they are stale again, so that \
         origins get more requests than clients are spared, two or three times as many and more \
         where lifetimes are short. Answers that are not the origin's by then hardly change in \
         number: validations behind find changes earlier, and make lifetimes longer. So it is off \
         unless the operator wants it, where a round trip is dear and requests are cheap.",
        of(0, 2, saved),
        of(0, 2, more),
        of(0, 2, price),
        of(0, 0, saved),
        of(0, 0, more),
        of(0, 0, price),
        of(1, 2, saved),
        of(1, 2, more),
        of(2, 2, saved),
        of(2, 2, more),
        of(3, 2, saved),
        of(3, 2, more),
    )
}
