//! An experiment on two streams, one whose popularity drifts and one whose popularity is static:
//! what the product keeps, what that costs on the drive, and how much each of its mechanisms
//! contributes.
//!
//! Each mechanism is removed in turn. For comparison there are three replacement policies that
//! choose by object, without clusters, with the same bytes of disk: the product could keep as much
//! if it chose object by object. Hits are also counted for each fifth of the run: a policy that
//! trusts old counts loses hits as a drifting stream goes on.

use std::cell::RefCell;

use store::policy::{AnyPolicy, Cost, Parameters, PolicyCache, PolicyName, Unit};
use store::{Prefer, ReadUnit, TierAdmission};

use super::drives::Model;
use super::scenario::{BESIDE, Role, Run, Scenario};
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};
use crate::run::whole_cache::{
    CacheError, EngineCache, EngineOptions, Machine, Outcome as Answer, Pace, WebCache,
};
use workload::generator::streams::STREAMS;
use workload::request::Request;

/// The experiment `beyond-streams`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-streams",
    paper: Paper::Beyond,
    place: "what is kept",
    title: "What is kept of popularity that drifts and that stands still, and what it costs",
    parameters: &[
        Parameter {
            name: "streams",
            value: "pages-drift and zipf-600k, 1.5 million requests of each, of which the first \
                    600,000 warm up: they store more than twice the cache (quick: 1/64 of \
                    everything, and as many count as warm up)",
            from: "ours: they stand for web browsing, and for popularity that stands still",
        },
        Parameter {
            name: "cache",
            value: "pages-drift: 1 GB of disk, zipf-600k: 650 MiB; 64 MiB of memory for all",
            from: "what the streams were made for",
        },
        Parameter {
            name: "drive",
            value: "nvme_tlc, and for the product as it comes the Atlas 10K with three times the \
                    sectors; requests at the stream's rate, one after another",
            from: "ours",
        },
        Parameter {
            name: "rules by objects",
            value: "fifo, lru, and gdsf with the square root of the size as cost, each with the \
                    bytes of the disk; an object takes 346 bytes beside its body",
            from: "ours",
        },
    ],
    seconds: [2, 80],
    run,
};

/// Number of parts of the counted requests.
const PARTS: usize = 5;
/// The goal: percentage of requests that hit.
const GOAL: f64 = 62.0;

/// A removed mechanism: its name, and the change to the options.
type Ablation = (&'static str, fn(&mut EngineOptions));

/// The product with its defaults, and its changes.
const ENGINES: [Ablation; 7] = [
    (LARDER, |_| {}),
    ("no batches", |engine| engine.options.batch = 0),
    ("no fading", |engine| {
        engine.options.reference_half_life = 0;
        engine.options.aging_mean = 10;
    }),
    ("clusters of 128 KiB", |engine| engine.format.cluster_size = Some(128 << 10)),
    ("read-unit object", |engine| engine.options.read_unit = ReadUnit::Object),
    ("tier-admission all", |engine| engine.options.tier_admission = TierAdmission::All),
    (BYTES, |engine| engine.options.prefer = Prefer::Bytes),
];
const LARDER: &str = "Larder";
const BYTES: &str = "prefer bytes";

/// The policies that choose by object.
const RULES: [(&str, PolicyName); 3] =
    [("FIFO", PolicyName::Fifo), (LRU, PolicyName::Lru), ("GDSF", PolicyName::Gdsf)];
const LRU: &str = "LRU";

/// Requests and bytes, and those that hit.
#[derive(Clone, Copy, Default)]
struct Count {
    requests: u64,
    hits: u64,
    bytes: u64,
    hit_bytes: u64,
}

impl Count {
    fn add(&mut self, more: &Count) {
        self.requests += more.requests;
        self.hits += more.hits;
        self.bytes += more.bytes;
        self.hit_bytes += more.hit_bytes;
    }

    fn hit_percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.requests.max(1) as f64
    }

    fn byte_percent(&self) -> f64 {
        100.0 * self.hit_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// Hits in each part of the counted requests.
#[derive(Clone)]
struct HitCounts {
    warm_up: u64,
    counted: u64,
    seen: u64,
    parts: [Count; PARTS],
}

impl HitCounts {
    fn new([warm_up, counted]: [u64; 2]) -> HitCounts {
        HitCounts { warm_up, counted, seen: 0, parts: [Count::default(); PARTS] }
    }

    fn request(&mut self, size: u64, is_hit: bool) {
        let number = self.seen;
        self.seen += 1;
        let Some(number) = number.checked_sub(self.warm_up) else { return };
        let part = number * PARTS as u64 / self.counted.max(1);
        let one = Count {
            requests: 1,
            hits: u64::from(is_hit),
            bytes: size,
            hit_bytes: if is_hit { size } else { 0 },
        };
        self.parts[(part as usize).min(PARTS - 1)].add(&one);
    }

    fn all(&self) -> Count {
        let mut all = Count::default();
        self.parts.iter().for_each(|part| all.add(part));
        all
    }

    /// Returns by how many percentage points the worst part is below the first.
    fn fall(&self) -> f64 {
        let parts = self.parts.map(|part| part.hit_percent());
        let points = parts[0] - parts.into_iter().fold(f64::INFINITY, f64::min);
        // Rounded to suppress floating-point noise.
        (points * 1e6).round() / 1e6
    }
}

struct Counted<'a> {
    cache: &'a EngineCache,
    kept: RefCell<HitCounts>,
}

impl WebCache for Counted<'_> {
    async fn answer(&self, request: &Request) -> Result<Answer, CacheError> {
        let answer = self.cache.answer(request).await?;
        let is_hit = matches!(answer, Answer::MemoryHit | Answer::DiskHit);
        self.kept.borrow_mut().request(request.size, is_hit);
        Ok(answer)
    }

    fn prefetched(&self) -> (u64, u64) {
        self.cache.prefetched()
    }
}

/// A system that a stream runs on.
#[derive(Clone, Copy)]
enum System {
    Engine(Ablation),
    Rule(&'static str, PolicyName),
}

impl System {
    fn name(self) -> &'static str {
        match self {
            System::Engine((name, _)) | System::Rule(name, _) => name,
        }
    }

    fn run(
        self,
        variant: &Variant,
        scenario: &Scenario,
    ) -> Result<(HitCounts, Option<Run>), Failed> {
        match self {
            System::Engine((_, change)) => {
                let (kept, run) = engine(variant, scenario, change)?;
                Ok((kept, Some(run)))
            }
            System::Rule(_, name) => Ok((rule(variant, scenario, name)?, None)),
        }
    }
}

/// The result of a system on a stream.
struct Measurement {
    stream: &'static str,
    drive: Model,
    system: System,
    kept: HitCounts,
    /// The drive's figures; `None` for a policy, which has no drive.
    run: Option<Run>,
}

impl Measurement {
    fn is(&self, stream: &str, name: &str) -> bool {
        self.stream == stream && self.system.name() == name && self.drive == MAIN
    }

    fn what(&self) -> String {
        let name = self.system.name();
        match self.drive == MAIN {
            true => format!("{}, {name}", self.stream),
            false => format!("{}, {name}, on {}", self.stream, self.drive.name()),
        }
    }
}

/// The drive of all systems.
const MAIN: Model = Model::Flash("nvme_tlc");
/// The second drive of the product with its defaults.
const DISK: Model = Model::Ucfs;

fn scenarios(context: &Context<'_>, drive: Model) -> [Scenario; STREAMS.len()] {
    let (scale, counted): (u32, u64) = context.size((80, 2), (64, 2), (1, 3));
    STREAMS.map(|stream| {
        let fifth = stream.requests / u64::from(scale) / 5;
        Scenario {
            name: stream.name,
            workload: stream.name,
            copies: 1,
            paper: "larder",
            role: Role::Proxy,
            drive,
            tier: stream.caches.memory,
            disk: stream.caches.disk,
            percent: 100,
            spread: None,
            largest: stream.caches.largest,
            pace: Pace::Stated,
            requests: [2 * fifth, counted * fifth],
            scale,
        }
    })
}

/// Runs the product with a change.
fn engine(
    variant: &Variant,
    scenario: &Scenario,
    change: fn(&mut EngineOptions),
) -> Result<(HitCounts, Run), Failed> {
    let preset = store::preset("larder").ok_or("there is no preset of the product")?;
    let mut options = EngineOptions::from(preset);
    options.options.memory = scenario.tier / u64::from(scenario.scale);
    change(&mut options);
    let machine = Machine::new(scenario.drive.drive()?);
    let cache = EngineCache::create(&machine, scenario.region(), &options)?;
    let counted = Counted { cache: &cache, kept: RefCell::new(HitCounts::new(scenario.requests)) };
    let requests = variant.watch(scenario.len(), scenario.requests()?);
    let run = scenario.serve(&machine, &counted, &cache, requests)?;
    Ok((counted.kept.into_inner(), run))
}

/// Runs a policy by object with the bytes of the disk.
fn rule(variant: &Variant, scenario: &Scenario, name: PolicyName) -> Result<HitCounts, Failed> {
    let capacity = scenario.region().len;
    let parameters = Parameters { cost: Cost::Root, ..Parameters::new(capacity) };
    let policy = AnyPolicy::new(name, &parameters);
    let mut cache = PolicyCache::new(policy, Unit::Bytes, capacity);
    let mut kept = HitCounts::new(scenario.requests);
    for request in variant.watch(scenario.len(), scenario.requests()?) {
        let is_hit = cache.request(request.object, 0, request.size + BESIDE);
        kept.request(request.size, is_hit);
    }
    Ok(kept)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let mut cases: Vec<(System, Scenario)> = Vec::new();
    for scenario in scenarios(context, MAIN) {
        cases.extend(ENGINES.map(|without| (System::Engine(without), scenario)));
        cases.extend(RULES.map(|(name, policy)| (System::Rule(name, policy), scenario)));
    }
    cases.extend(scenarios(context, DISK).map(|scenario| (System::Engine(ENGINES[0]), scenario)));
    let label = |system: System, scenario: &Scenario| {
        format!("{}, {} on {}", scenario.name, system.name(), scenario.drive.name())
    };
    let variants =
        cases.iter().map(|(system, scenario)| (label(*system, scenario), (*system, *scenario)));
    let measured =
        context.variants(variants, |variant, (system, scenario)| system.run(variant, &scenario))?;
    let measured = cases.into_iter().zip(measured).map(|((system, scenario), (kept, run))| {
        Measurement { stream: scenario.name, drive: scenario.drive, system, kept, run }
    });
    Ok(show(&measured.collect::<Vec<Measurement>>()))
}

/// Computes a figure of a system; `None` if it has none.
type Figure = fn(&Measurement) -> Option<f64>;

/// The tables of all systems: id, heading, unit, figure.
const TABLES: [(&str, &str, &str, Figure); 6] = [
    ("hits", "Requests that hit", "%", |measured| Some(measured.kept.all().hit_percent())),
    ("byte-hits", "Bytes that hit", "%", |measured| Some(measured.kept.all().byte_percent())),
    ("reads", "Reads of the drive for a request", "", |measured| {
        let figures = &measured.run.as_ref()?.figures;
        Some(figures.usage.reads.operations as f64 / figures.requests() as f64)
    }),
    ("writes", "Writes of the drive for an object stored", "", |measured| {
        let run = measured.run.as_ref()?;
        Some(run.figures.usage.writes.operations as f64 / run.objects as f64)
    }),
    ("written", "Bytes written to the drive for a byte stored", "B", |measured| {
        Some(measured.run.as_ref()?.amplification())
    }),
    ("disk-time", "Time of the drive for a request", "ms", |measured| {
        Some(measured.run.as_ref()?.figures.disk_ms())
    }),
];

fn show(all: &[Measurement]) -> Outcome {
    let mut outcome = Outcome::new(why(all)).table(goal(all)).table(popularity(all));
    for (id, title, unit, figure) in TABLES {
        let mut table = Table::new(id, title);
        for measured in all {
            if let Some(figure) = figure(measured) {
                table.row(measured.what(), unit, Stated::Nothing, figure);
            }
        }
        outcome = outcome.table(table);
    }
    let outcome = outcome.table(parts(all)).plot(bars(all));
    lines(all).into_iter().fold(outcome, Outcome::plot)
}

/// Returns the measurement of a system on the main drive.
fn find<'a>(all: &'a [Measurement], stream: &str, name: &str) -> Option<&'a Measurement> {
    all.iter().find(|measured| measured.is(stream, name))
}

fn goal(all: &[Measurement]) -> Table {
    let mut table = Table::new("goal", "Requests that hit, and how many should");
    for measured in all.iter().filter(|measured| measured.system.name() == LARDER) {
        table.row(measured.what(), "%", Stated::AtLeast(GOAL), measured.kept.all().hit_percent());
    }
    table
}

/// For the product, no part should be further below the first than with LRU.
fn popularity(all: &[Measurement]) -> Table {
    let title = "Points of hits by which the worst fifth is below the first";
    let mut table = Table::new("popularity", title);
    for measured in all {
        let lru = find(all, measured.stream, LRU).map_or(f64::NAN, |measured| measured.kept.fall());
        let most = match measured.system.name() {
            LARDER => Stated::AtMost(lru),
            _ => Stated::Nothing,
        };
        table.row(measured.what(), "points", most, measured.kept.fall());
    }
    table
}

fn parts(all: &[Measurement]) -> Table {
    let mut table = Table::new("fifths", "Requests that hit, by fifths of those counted");
    for measured in all {
        for (number, part) in (1..).zip(&measured.kept.parts) {
            let what = format!("{}, fifth {number}", measured.what());
            table.row(what, "%", Stated::Nothing, part.hit_percent());
        }
    }
    table
}

fn bars(all: &[Measurement]) -> Plot {
    let systems: Vec<&str> =
        ENGINES.iter().map(|(name, _)| *name).chain(RULES.iter().map(|(name, _)| *name)).collect();
    let y = Axis::linear("requests that hit (%)");
    let plot = Plot::bars("hits", "Requests that hit", systems.iter().copied(), y);
    STREAMS.iter().fold(plot, |plot, stream| {
        let percent = |name: &&str| {
            find(all, stream.name, name)
                .map_or(f64::NAN, |measured| measured.kept.all().hit_percent())
        };
        plot.ours_bars(stream.name, systems.iter().map(percent).collect::<Vec<f64>>())
    })
}

fn lines(all: &[Measurement]) -> Vec<Plot> {
    let one = |stream: &str| {
        let (id, title) = (format!("fifths-{stream}"), format!("Requests that hit: {stream}"));
        let (x, y) = (Axis::linear("fifth"), Axis::linear("requests that hit (%)"));
        let plot = Plot::lines(&id, &title, x, y);
        all.iter().filter(|measured| measured.is(stream, measured.system.name())).fold(
            plot,
            |plot, measured| {
                let points = (1..).zip(&measured.kept.parts);
                let points = points.map(|(number, part)| (f64::from(number), part.hit_percent()));
                plot.ours(measured.system.name(), points.collect::<Vec<_>>())
            },
        )
    };
    STREAMS.iter().map(|stream| one(stream.name)).collect()
}

fn why(all: &[Measurement]) -> String {
    let each = STREAMS.map(|stream| {
        let figures = |name: &str| {
            let kept = find(all, stream.name, name).map(|measured| measured.kept.all());
            kept.map_or([f64::NAN; 2], |all| [all.hit_percent(), all.byte_percent()])
        };
        let [hits, bytes] = figures(LARDER);
        let rules = RULES.map(|(name, _)| {
            let [hits, bytes] = figures(name);
            format!("{name} {hits:.1} ({bytes:.1})")
        });
        let changes = ENGINES.iter().skip(1).map(|(name, _)| {
            let [with, with_bytes] = figures(name);
            format!("{name} {:+.1} ({:+.1})", with - hits, with_bytes - bytes)
        });
        format!(
            "{}: Larder {hits:.1}% of the requests ({bytes:.1}% of the bytes); {}; points with \
             changes: {}",
            stream.name,
            rules.join(", "),
            changes.collect::<Vec<String>>().join(", "),
        )
    });
    format!(
        "No paper to compare with; the goal is {GOAL}% of the requests on both streams, and no \
         fifth further below the first than with LRU. {}. The rules have the bytes of the disk for \
         objects alone; the product has its journal, checkpoints, what is free for the next \
         clusters, and what is superseded among them.",
        each.join(". "),
    )
}
