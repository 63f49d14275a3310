//! The settings that decide where objects lie and how they are read, one changed at a time, on
//! every kind of device and load: where the product's default is behind.
//!
//! Thirty-two clients send their next request when they have an answer. A request takes 40 µs of
//! one processor, a miss 1 ms of an origin server. Hits are worth something that requests a second
//! do not show, so only settings with as many hits, but for a point, count as better.

use std::rc::Rc;

use store::policy::AdmissionName;
use store::{CLUSTER_SIZES, ReadUnit, TierAdmission, TierShares, WritePolicy};

use super::drives::Model;
use crate::experiment::{
    Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot, Stated, Table, Variant,
};
use crate::run::whole_cache::{Clients, EngineCache, EngineOptions, Figures, Machine, Region};
use workload::generator::Workload;
use workload::generator::presets::Preset;
use workload::generator::streams::STREAMS;
use workload::request::{Method, Request};

/// The experiment `beyond-matrix`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-matrix",
    paper: Paper::Beyond,
    place: "the default among its settings",
    title: "One setting changed at a time, by device, load and size",
    parameters: &[
        Parameter {
            name: "devices",
            value: "a disk held to 200 reads and 200 writes a second of any length, the Atlas 10K \
                    with three times the sectors, sata_tlc, nvme_tlc (quick: the first and the \
                    last)",
            from: "ours",
        },
        Parameter {
            name: "loads",
            value: "pages-drift, zipf-600k, nlanr-uc; zipf-600k with all objects of 2,000 bytes, \
                    and of 262,144 bytes (quick: the first two)",
            from: "ours; each is made for the cache's size",
        },
        Parameter {
            name: "caches",
            value: "256 MiB of disk with 160 MiB of memory, 1 GiB with 160 MiB; a quarter of \
                    everything but the cluster (quick: an eighth of the first)",
            from: "ours: the sizes of `larder bench compare`",
        },
        Parameter {
            name: "requests",
            value: "as many as store twice the cache, then half as many again",
            from: "ours",
        },
    ],
    seconds: [20, 1_200],
    run,
};

const MIB: u64 = 1 << 20;
const CLIENTS: Clients = Clients { count: 32, processor: 40_000, origin: 1_000_000 };
const DEVICES: [Model; 4] =
    [Model::Held, Model::Flash("nvme_tlc"), Model::Ucfs, Model::Flash("sata_tlc")];
/// Disk and memory in bytes, undivided.
const SIZES: [(&str, u64, u64); 2] =
    [("256 MB", 256 * MIB, 160 * MIB), ("1 GB", 1024 * MIB, 160 * MIB)];
/// Points of hits that a setting may lose and still be better.
const FEWER_HITS: f64 = 1.0;
/// The goal: percent by which the default may be behind.
const GOAL: f64 = 5.0;

/// A setting: its name, and the change to the options.
type Setting = (&'static str, fn(&mut EngineOptions));

/// The product's default, and each change of it.
const SETTINGS: [Setting; 13] = [
    ("default", |_| {}),
    ("read-unit object", |engine| engine.options.read_unit = ReadUnit::Object),
    ("read-unit cluster", |engine| engine.options.read_unit = ReadUnit::Cluster),
    ("batch 0", |engine| engine.options.batch = 0),
    ("batch 16M", |engine| engine.options.batch = 16 << 20),
    ("clusters half as large", |engine| {
        engine.format.cluster_size = engine.format.cluster_size.map(|size| size / 2);
    }),
    ("clusters twice as large", |engine| {
        engine.format.cluster_size = engine.format.cluster_size.map(|size| size * 2);
    }),
    ("one level", |engine| engine.options.tier_shares = TierShares { hot: 0, medium: 0 }),
    ("tier-admission all", |engine| engine.options.tier_admission = TierAdmission::All),
    ("no fading", |engine| engine.options.reference_half_life = 0),
    ("second-hit", |engine| engine.options.admission = AdmissionName::SecondHit),
    ("read-batch 10", |engine| engine.options.read_batch = 10),
    ("on-evict", |engine| engine.options.write_policy = WritePolicy::OnEvict),
];

/// A load: its name, the workload, and the size of all objects if they have one.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    preset: Preset,
    size: Option<u64>,
}

impl Load {
    fn all() -> Vec<Load> {
        let [pages, zipf] = STREAMS;
        let mut all = vec![
            Load { name: "pages", preset: pages, size: None },
            Load { name: "zipf", preset: zipf, size: None },
        ];
        let uc = Preset::named("nlanr-uc").map(|preset| Load { name: "uc", preset, size: None });
        all.extend(uc);
        all.push(Load { name: "many small", preset: zipf, size: Some(2_000) });
        all.push(Load { name: "few large", preset: zipf, size: Some(256 << 10) });
        all
    }

    /// Returns the requests for a cache of `disk` bytes: those that store twice as much, then half
    /// as many again.
    fn requests(&self, disk: u64, seed: u64) -> [Vec<Request>; 2] {
        // The objects of the presets have 11 KB in the mean.
        let bytes = disk * 11_000 / self.size.unwrap_or(11_000);
        let workload = Workload::Preset(self.preset.for_disk(bytes));
        let sized = workload.iter(seed).filter(|one| one.method == Method::Get && !one.uncacheable);
        let size = self.size;
        let mut sized =
            sized.map(|request| Request { size: size.unwrap_or(request.size), ..request });
        let (mut seen, mut stored) = (std::collections::HashMap::new(), 0);
        let mut first = Vec::new();
        while stored < 2 * disk
            && let Some(request) = sized.next()
        {
            if seen.insert(request.object, request.version) != Some(request.version) {
                stored += request.size;
            }
            first.push(request);
        }
        let count = first.len() / 2;
        [first, sized.take(count).collect()]
    }
}

/// A device, a load and a size.
#[derive(Clone, Copy)]
struct Cell {
    device: Model,
    load: Load,
    size: (&'static str, u64, u64),
    /// Divisor of the sizes.
    scale: u64,
}

impl Cell {
    fn name(&self) -> String {
        format!("{}, {}, {}", self.device.name(), self.load.name, self.size.0)
    }

    fn run(&self, seed: u64, change: fn(&mut EngineOptions)) -> Result<Figures, Failed> {
        let (_, disk, memory) = self.size;
        let preset = store::preset("larder").ok_or("there is no preset of the product")?;
        let mut engine = EngineOptions::from(preset);
        engine.options.memory = memory / self.scale;
        engine.options.admission_keys = 1_000_000 / self.scale;
        // The size of a cluster is that of the undivided disk.
        let cluster = (disk / 1_024).clamp(64 << 10, u64::from(*CLUSTER_SIZES.end()));
        engine.format.cluster_size = Some(1 << cluster.ilog2());
        change(&mut engine);
        let len = disk / self.scale;
        let machine = Machine::new(self.device.drive()?);
        let region = Region { start: 0, spread: disk, len };
        let cache = Rc::new(EngineCache::create(&machine, region, &engine)?);
        let [first, rest] = self.load.requests(len, seed);
        CLIENTS.run(&machine, &cache, first.into())?;
        Ok(CLIENTS.run(&machine, &cache, rest.into())?)
    }
}

fn rate(figures: &Figures) -> f64 {
    figures.requests() as f64 * 1e9 / figures.elapsed.max(1) as f64
}

fn operations(figures: &Figures) -> f64 {
    let both = figures.usage.reads.operations + figures.usage.writes.operations;
    both as f64 / figures.requests().max(1) as f64
}

/// The fastest setting of a cell that does not lose hits, and by how many percent of its speed the
/// default is behind.
fn best(runs: &[Figures]) -> (&'static str, f64) {
    let default = &runs[0];
    let least = default.document_hit_rate() - FEWER_HITS;
    let as_good = SETTINGS.iter().zip(runs).filter(|(_, run)| run.document_hit_rate() >= least);
    let best = as_good.max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)));
    best.map_or((SETTINGS[0].0, 0.0), |((name, _), run)| {
        (*name, 100.0 * (1.0 - rate(default) / rate(run)))
    })
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let scale = context.size(16, 8, 4);
    let (devices, loads) = (context.pick(2, DEVICES.len()), context.pick(2, 5));
    let sizes = &SIZES[..context.pick(1, SIZES.len())];
    let mut cells = Vec::new();
    for device in &DEVICES[..devices] {
        for load in Load::all().into_iter().take(loads) {
            cells.extend(sizes.iter().map(|size| Cell {
                device: *device,
                load,
                size: *size,
                scale,
            }));
        }
    }
    let seed = context.seed();
    let variants = cells.iter().flat_map(|cell| {
        SETTINGS.map(|(name, change)| (format!("{}: {name}", cell.name()), (*cell, change)))
    });
    let runs = context.variants(variants, |_: &Variant, (cell, change)| cell.run(seed, change))?;
    let runs: Vec<&[Figures]> = runs.chunks(SETTINGS.len()).collect();
    Ok(show(&cells, &runs))
}

/// Computes a figure of a setting from its run and from that of the default.
type Figure = fn(&Figures, &Figures) -> f64;

/// The tables: id, heading, unit, figure.
const TABLES: [(&str, &str, &str, Figure); 4] = [
    ("rate", "Requests a second", "/s", |run, _| rate(run)),
    ("speed", "Requests a second, beside the default", "%", |run, default| {
        100.0 * (rate(run) / rate(default) - 1.0)
    }),
    ("hits", "Requests that hit", "%", |run, _| run.document_hit_rate()),
    ("operations", "Operations of the device for a request", "", |run, _| operations(run)),
];

fn show(cells: &[Cell], runs: &[&[Figures]]) -> Outcome {
    let mut behind =
        Table::new("behind", "Percent by which the default is behind the best setting");
    for (cell, runs) in cells.iter().zip(runs) {
        behind.row(cell.name(), "%", Stated::AtMost(GOAL), best(runs).1);
    }
    let mut outcome = Outcome::new(why(cells, runs)).table(behind);
    for (id, title, unit, figure) in TABLES {
        let mut table = Table::new(id, title);
        for (cell, runs) in cells.iter().zip(runs) {
            for ((name, _), run) in SETTINGS.iter().zip(*runs) {
                let what = format!("{}: {name}", cell.name());
                table.row(what, unit, Stated::Nothing, figure(run, &runs[0]));
            }
        }
        outcome = outcome.table(table);
    }
    let names: Vec<String> = cells.iter().map(Cell::name).collect();
    let y = Axis::linear("behind the best setting (%)");
    let title = "The default behind the best setting";
    let plot = Plot::bars("behind", title, names.iter().map(String::as_str), y);
    let percents: Vec<f64> = runs.iter().map(|runs| best(runs).1).collect();
    outcome.plot(plot.ours_bars("the default", percents))
}

fn why(cells: &[Cell], runs: &[&[Figures]]) -> String {
    let each = cells.iter().zip(runs).map(|(cell, runs)| {
        let (name, percent) = best(runs);
        let speed = rate(&runs[0]);
        format!("{}: {speed:.0}/s, best {name}, {percent:.1}% behind", cell.name())
    });
    format!(
        "No paper to compare with; the goal is to be at most {GOAL}% behind everywhere. Only \
         settings with at most a point fewer hits count as better. {}.",
        each.collect::<Vec<String>>().join(". ")
    )
}
