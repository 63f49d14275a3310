//! The value of knowing which files a page refers to. It measures the work of the drive for a web
//! site whose pages have parts in other directories. The cache is given one of: no groups, the
//! directory of the URL, the directory of the file, or the page.
//!
//! Only that differs: requests, order and bytes are the same for all sites.

mod website;

use std::cell::RefCell;

use website::{Contents, Grouping, References, Website};

use super::drives::Model;
use super::scenario::{Role, Run, Scenario};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};
use crate::run::whole_cache::{
    CacheError, EngineCache, EngineOptions, Machine, Outcome as Answer, Pace, WebCache,
};
use workload::generator::Workload;
use workload::generator::page_visits::Browsing;
use workload::generator::presets::Preset;
use workload::generator::streams::STREAMS;
use workload::request::Request;

/// The experiment `beyond-references`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-references",
    paper: Paper::Beyond,
    place: "what lies together",
    title: "What it is worth to know which files a page refers to",
    parameters: &[
        Parameter {
            name: "stream",
            value: "pages-drift, 375,000 requests (quick: 47,000), of which two fifths warm up: \
                    pages of 1 to 14 objects, 32 visits at a time, or 4 at an eighth of the pace",
            from: "ours: it stands for web browsing",
        },
        Parameter {
            name: "cache",
            value: "250 MB of disk, 16 MiB of memory (quick: an eighth)",
            from: "a quarter of what the stream was made for",
        },
        Parameter {
            name: "drive",
            value: "nvme_tlc; requests at the stream's rate, one after another",
            from: "ours",
        },
        Parameter {
            name: "sites",
            value: "a directory is a page's own, or that of 64 pages, or of all; a tenth of the \
                    parts are shared by the pages of a directory",
            from: "ours",
        },
        Parameter {
            name: "references",
            value: "read when a page is stored, of the last 16,384 (quick: 2,048)",
            from: "ours",
        },
    ],
    seconds: [10, 70],
    run,
};

/// The store's preset, and the number of concurrent visits.
const SYSTEMS: [(&str, u32); 3] = [(LARDER, 32), (LARDER, 4), ("tfs", 32)];
const LARDER: &str = "larder";
/// Number of references that are remembered, before division by the scale.
const REFERENCES: u32 = 65_536;
const SEED: u64 = 7;

#[derive(Clone, Copy)]
struct Case {
    system: &'static str,
    visits: u32,
    site: Website,
    grouping: Grouping,
}

impl Case {
    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        for (system, visits) in SYSTEMS {
            for site in Website::ALL {
                all.extend(site.groupings().iter().map(|&grouping| Case {
                    system,
                    visits,
                    site,
                    grouping,
                }));
            }
        }
        all
    }

    fn what(&self) -> String {
        let Case { system, visits, site, grouping } = self;
        format!("{system}, {visits} visits, {}, {}", site.name(), grouping.name())
    }
}

/// The engine with groups of related objects.
struct Grouped<'a> {
    cache: &'a EngineCache,
    site: Website,
    references: RefCell<References<'a>>,
}

impl WebCache for Grouped<'_> {
    async fn answer(&self, request: &Request) -> Result<Answer, CacheError> {
        let placed = self.site.place(request);
        let group = self.references.borrow().group(&placed);
        let answer = self.cache.answer(&Request { group, ..placed.request }).await?;
        if answer == Answer::Miss {
            self.references.borrow_mut().stored(&placed);
        }
        Ok(answer)
    }

    fn prefetched(&self) -> (u64, u64) {
        self.cache.prefetched()
    }
}

fn scenario(context: &Context<'_>) -> Scenario {
    let (scale, stream) = (context.size(80, 32, 4), STREAMS[0]);
    let fifth = stream.requests / u64::from(scale) / 5;
    Scenario {
        name: stream.name,
        workload: stream.name,
        copies: 1,
        paper: LARDER,
        role: Role::Proxy,
        drive: Model::Flash("nvme_tlc"),
        tier: stream.caches.memory,
        disk: stream.caches.disk,
        spread: None,
        largest: stream.caches.largest,
        size: None,
        pace: Pace::Stated,
        requests: [2 * fifth, 3 * fifth],
        scale,
    }
}

/// Returns the stream with this many concurrent visits.
fn requests(scenario: &Scenario, visits: u32) -> impl Iterator<Item = Request> + use<> {
    let stream = STREAMS[0];
    let share = f64::from(visits) / f64::from(stream.browsing.active);
    let rate = stream.browsing.rate * share;
    let browsing = Browsing { clients: visits, active: visits, rate, ..stream.browsing };
    let workload = Workload::Preset(Preset { browsing, ..stream }).scaled(scenario.scale);
    workload.iter(SEED).take(scenario.len() as usize)
}

fn serve(variant: &Variant, scenario: &Scenario, case: &Case) -> Result<Run, Failed> {
    let preset = store::preset(case.system).ok_or_else(|| format!("no preset {}", case.system))?;
    let mut options = EngineOptions::from(preset);
    options.options.memory = scenario.tier / u64::from(scenario.scale);
    let machine = Machine::new(scenario.drive.drive()?);
    let cache = EngineCache::create(&machine, scenario.region(), &options)?;
    let contents = Contents::of(case.site, requests(scenario, case.visits));
    let most = (REFERENCES / scenario.scale) as usize;
    let references = RefCell::new(References::new(&contents, case.grouping, most));
    let grouped = Grouped { cache: &cache, site: case.site, references };
    let requests = variant.watch(scenario.len(), requests(scenario, case.visits));
    scenario.serve(&machine, &grouped, &cache, requests)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let (scenario, cases) = (scenario(context), Case::all());
    let variants = cases.iter().map(|case| (case.what(), *case));
    let runs = context.variants(variants, |variant, case| serve(variant, &scenario, &case))?;
    let all: Vec<(Case, Run)> = cases.into_iter().zip(runs).collect();
    let mut outcome = Outcome::new(why(&all));
    for (id, title, unit, figure) in TABLES {
        let mut table = Table::new(id, title);
        for (case, run) in &all {
            table.row(case.what(), unit, Stated::Nothing, figure(run));
        }
        outcome = outcome.table(table);
    }
    Ok(SYSTEMS.into_iter().fold(outcome, |outcome, system| outcome.plot(bars(system, &all))))
}

type Figure = fn(&Run) -> f64;

/// The tables: id, heading, unit, figure.
const TABLES: [(&str, &str, &str, Figure); 6] = [
    ("reads", "Reads of the drive for a request", "", reads),
    ("kb-by-read", "Kilobytes for a read", "KB", |run| {
        let reads = run.figures.usage.reads;
        reads.bytes as f64 / 1e3 / reads.operations.max(1) as f64
    }),
    ("used", "Objects that came along and were asked for", "%", |run| {
        let figures = &run.figures;
        100.0 * figures.prefetch_hits as f64 / figures.prefetched.max(1) as f64
    }),
    ("disk-time", "Time of the drive for a request", "ms", |run| run.figures.disk_ms()),
    ("hits", "Requests that hit", "%", |run| run.figures.document_hit_rate()),
    ("refused", "Requests whose object was not taken", "%", |run| {
        let refused = run.figures.outcomes.of(Answer::Refused);
        100.0 * refused as f64 / run.figures.requests() as f64
    }),
];

fn reads(run: &Run) -> f64 {
    run.figures.usage.reads.operations as f64 / run.figures.requests() as f64
}

/// Returns the run of this case; `None` where it would repeat another case.
fn find<'a>(
    all: &'a [(Case, Run)],
    system: (&str, u32),
    site: Website,
    grouping: Grouping,
) -> Option<&'a Run> {
    let is_it = |case: &Case| {
        (case.system, case.visits) == system && case.site == site && case.grouping == grouping
    };
    all.iter().find(|(case, _)| is_it(case)).map(|(_, run)| run)
}

fn bars(system: (&str, u32), all: &[(Case, Run)]) -> Plot {
    let (name, visits) = system;
    let title = format!("Reads of the drive for a request: {name}, {visits} visits at a time");
    let sites = Website::ALL.map(Website::name);
    let plot = Plot::bars(&format!("reads-{name}-{visits}"), &title, sites, Axis::linear("reads"));
    Grouping::ALL.into_iter().fold(plot, |plot, grouping| {
        let height = |site| find(all, system, site, grouping).map_or(f64::NAN, reads);
        plot.ours_bars(grouping.name(), Website::ALL.map(height))
    })
}

/// Formats "half of the parts elsewhere 0.274 with the URL's directory (page −26%); …".
fn words(all: &[(Case, Run)], system: (&str, u32)) -> String {
    let each = Website::ALL.map(|site| {
        let url = find(all, system, site, Grouping::Url).map_or(f64::NAN, reads);
        let others = Grouping::ALL
            .into_iter()
            .filter(|grouping| *grouping != Grouping::Url)
            .filter_map(|grouping| {
                let change = 100.0 * (reads(find(all, system, site, grouping)?) / url - 1.0);
                Some(format!("{} {change:+.0}%", grouping.name()))
            });
        let others = others.collect::<Vec<String>>().join(", ");
        format!("{} {url:.3} with the URL's directory ({others})", site.name())
    });
    each.join("; ")
}

fn why(all: &[(Case, Run)]) -> String {
    let each = SYSTEMS.map(|(name, visits)| {
        format!("{name}, {visits} visits at a time: {}", words(all, (name, visits)))
    });
    format!(
        "No paper to compare with. Reads of the drive for a request: {}. The default sorts what is \
         stored by group, and reads the run of a group: a group that is not a page's alone mixes \
         the parts of the pages that are visited at the same time. The preset tfs has few hits \
         from the disk here, so that what it is told can hardly matter.",
        each.join(". "),
    )
}
