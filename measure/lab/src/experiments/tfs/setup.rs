//! T5 and T6: the web server of the paper's evaluation, with and without TFS; scaled down for a
//! quick run.
//!
//! The documents are in a file system (FFS-async) on one part of the drive from the beginning. TFS
//! is the engine with the preset `tfs` on another part of the same drive. A document that is read
//! for the first time is copied there, and read from there until it changes. Both servers have the
//! same total memory.

use std::collections::BTreeMap;

use sim::drives::mechanical::{Config, Controller, MechanicalDrive};
use sim::ffs::{Metadata, Names, Parameters};

use crate::experiment::{Context, Failed, Parameter, Variant};
use crate::experiments::shared_runs::Runs;
use crate::run::whole_cache;
use crate::run::whole_cache::{
    Accelerated, EngineCache, EngineOptions, Figures, FilesCache, Machine, Pace, Plan, Region,
};
use crate::space::file_caches;
use crate::space::file_caches::Documents;
use crate::space::manager::SpaceError;
use workload::generator::Workload;
use workload::request::{Object, Request};

pub(super) struct Trace {
    pub(super) name: &'static str,
    preset: &'static str,
    /// Number of merged copies, each with documents of its own ("linear insertion").
    copies: u32,
}

pub(super) const TRACES: [Trace; 3] = [
    Trace { name: "UCBSep01", preset: "ucb-sep01", copies: 1 },
    Trace { name: "WorldCup98", preset: "worldcup98", copies: 8 },
    Trace { name: "ClarkNet", preset: "clarknet", copies: 5 },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bus {
    /// 40 MB/s, as the paper states.
    Stated,
    /// 5 MB/s, as in the drive's data file.
    DataFile,
}

/// The file system's metadata: which are kept in memory, and which are written by reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileSystem {
    /// True if inodes, directories and bitmaps lie in the buffers beside the data, as in kernels.
    /// False as in the paper's simulator (C15), where only the name cache spares their reads.
    pub(super) buffered: bool,
    /// True if a read changes the file's access time.
    pub(super) access_time: bool,
    /// True if every name is in the name cache, false for 65 of 100.
    pub(super) all_names: bool,
}

impl FileSystem {
    /// The choices of the paper's simulator.
    pub(super) const PAPER: FileSystem =
        FileSystem { buffered: false, access_time: true, all_names: false };

    fn parameters(self, memory: u64) -> Parameters {
        let mut parameters = Parameters::ucfs_ffs(memory).asynchronous();
        if self.buffered {
            parameters.metadata = Metadata::Buffered;
        }
        if self.all_names {
            parameters.names = Names::Rate { percent: 100, seed: 1 };
        }
        Parameters { access_time: self.access_time, ..parameters }
    }

    /// Formats "metadata buffered, access times, 65% of names".
    pub(super) fn text(self) -> String {
        format!(
            "metadata {}, {} access times, {} of names",
            if self.buffered { "buffered" } else { "not buffered" },
            if self.access_time { "with" } else { "without" },
            if self.all_names { "all" } else { "65%" },
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    /// Index in [`TRACES`].
    pub(super) trace: usize,
    /// TFS's share of the memory in percent; 0: no TFS.
    pub(super) share: u32,
    pub(super) bus: Bus,
    pub(super) cluster: u32,
    /// Total buffer memory in MB at full size.
    pub(super) memory: u64,
    pub(super) files: FileSystem,
    /// Divisor of documents and memory; 1: full size.
    pub(super) scale: u32,
    /// Number of requests for warm-up, and again for counting.
    pub(super) requests: u64,
}

/// Total buffer memory in MB (section 1).
const MEMORY: u64 = 256;
const SEED: u64 = 2_001;
const MIB: u64 = 1 << 20;
/// Bytes of each half of the drive: documents, TFS.
const HALF: u64 = 4_290 * MIB;

pub(super) const PARAMETERS: [Parameter; 8] = [
    Parameter {
        name: "drive",
        value: "Atlas 10K, 9.1 GB, write cache on; documents on its outer half, TFS on the inner",
        from: "section 3.1; the halves are ours",
    },
    Parameter { name: "bus", value: "40 MB/s", from: "section 3.1" },
    Parameter {
        name: "buffers",
        value: "256 MB in all, half of them TFS's",
        from: "section 1; the split is unstated, see the table \"open\"",
    },
    Parameter { name: "cluster", value: "64 KB", from: "section 2: 64 or 128 KB" },
    Parameter {
        name: "file system",
        value: "metadata not buffered, 65% of names in the name cache, access times written",
        from: "UCFS, section 2.4.5; the table \"files\" has the other choices",
    },
    Parameter {
        name: "copies of a trace",
        value: "UCBSep01 1, WorldCup98 8, ClarkNet 5",
        from: "section 3.1: expanded by linear insertions; how often is ours: to the same size",
    },
    Parameter {
        name: "scale",
        value: "the paper's (quick: 1/32 of documents, buffers and disk, spread over the disk as \
                at full size)",
        from: "section 3.1; quick is ours: time",
    },
    Parameter {
        name: "requests",
        value: "960,000 warm up, 960,000 count (quick: 15,000 each), one after another",
        from: "ours",
    },
];

impl Case {
    pub(super) fn new(context: &Context<'_>, trace: usize, share: u32) -> Case {
        let (scale, requests) = context.size((32, 1_000), (32, 15_000), (1, 960_000));
        let (bus, cluster, memory) = (Bus::Stated, 64 << 10, MEMORY);
        let files = FileSystem::PAPER;
        Case { trace, share, bus, cluster, memory, files, scale, requests }
    }

    /// Returns the requests of the trace with its copies.
    fn requests(&self) -> impl Iterator<Item = Request> + use<> {
        let Trace { preset, copies, .. } = TRACES[self.trace];
        let workload = Workload::named(preset).expect("the generator has the paper's traces");
        let all = workload.scaled(self.scale).copies(SEED, copies);
        all.take(2 * self.requests as usize).filter(|request| !request.uncacheable)
    }

    fn drive(&self) -> Result<MechanicalDrive, Failed> {
        Ok(match self.bus {
            Bus::Stated => stated_drive()?,
            Bus::DataFile => file_caches::drive("atlas10k", Config::Shipped)?,
        })
    }

    fn region(&self, start: u64) -> Region {
        let len = (HALF / u64::from(self.scale)).next_multiple_of(MIB);
        Region { start, spread: HALF, len }
    }

    fn run(&self, variant: &Variant) -> Result<Figures, Failed> {
        let machine = Machine::new(Box::new(self.drive()?));
        let requests = variant.watch(2 * self.requests, self.requests());
        self.serve(&machine, requests)
    }

    fn serve(
        &self,
        machine: &Machine,
        requests: impl Iterator<Item = Request>,
    ) -> Result<Figures, Failed> {
        let plan = Plan { warm_up: self.requests, pace: Pace::AtOnce };
        let memory = (self.memory << 20) / u64::from(self.scale);
        let tier = memory * u64::from(self.share) / 100;
        let parameters = self.files.parameters(memory - tier);
        let server = web_server(machine, self.region(0), parameters, self.requests())?;
        if self.share == 0 {
            return Ok(whole_cache::run(machine, &server, requests, &plan)?);
        }
        let preset = store::preset("tfs").ok_or("the preset is gone")?;
        let mut options = EngineOptions::from(preset);
        options.tier = Some(tier);
        options.options.memory = 2 * tier;
        options.format.cluster_size = Some(self.cluster);
        let front = EngineCache::create(machine, self.region(HALF), &options)?;
        Ok(whole_cache::run(machine, &Accelerated::new(front, server), requests, &plan)?)
    }
}

/// Returns the Atlas 10K on the bus that the paper states.
pub(crate) fn stated_drive() -> Result<MechanicalDrive, SpaceError> {
    // Milliseconds per sector at 40 MB/s.
    let change = |controller: &mut Controller| controller.bus = 0.0128;
    file_caches::changed_drive("atlas10k", Config::Shipped, change)
}

/// Returns a web server with a file system in this part of the drive. It has every document in the
/// version that is requested first.
pub(crate) fn web_server(
    machine: &Machine,
    region: Region,
    parameters: Parameters,
    requests: impl Iterator<Item = Request>,
) -> Result<FilesCache<'_, Documents>, Failed> {
    let mut documents: BTreeMap<u32, Object> = BTreeMap::new();
    for request in requests {
        documents.entry(request.object).or_insert_with(|| request.object());
    }
    let disk = machine.disk(region, 512)?;
    let documents = documents.into_values();
    let server = file_caches::web_server(&machine.clock(), disk, parameters, documents)?;
    Ok(FilesCache::new(machine, server.cache))
}

static RUNS: Runs<Case> = Runs::new();

/// Returns the results of the cases; runs those that are new.
pub(super) fn figures(context: &mut Context<'_>, cases: &[Case]) -> Result<Vec<Figures>, Failed> {
    RUNS.figures(context, cases, label, Case::run)
}

fn label(case: &Case) -> String {
    let Case { share, bus, cluster, memory, files, .. } = *case;
    let system = match share {
        0 => "FFS-async".to_owned(),
        share => format!("TFS with {share}%, {} KB", cluster >> 10),
    };
    let name = TRACES[case.trace].name;
    format!("{name}, {system}, {memory} MB, {}, {bus:?}", files.text())
}

pub(super) fn note(context: &Context<'_>) -> String {
    let sample = context.pick("One part in 32", "All");
    format!("{sample} of documents and memory, generated requests, a sample of the traces' length.")
}
