//! C15 to C18: the systems, the machine and the traces of the paper's evaluation, scaled down.
//!
//! Memory, disk, lookup table, requests, warm-up and the age of one-timers are all divided by the
//! same number; the request rate is unchanged. The caches are spread over as much of the drive as
//! the paper's, so seeks have the same length. Figures 6 to 10 and tables 3 to 5 show the same
//! runs: each run is made once and kept until the process ends.

use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::ffs::Parameters;

use super::traces::{SJ, TRACES, Trace, TraceKind, UC};
use crate::experiment::{Context, Failed, Parameter, Scale, Variant};
use crate::experiments::shared_runs::Runs;
use crate::run::whole_cache;
use crate::run::whole_cache::{
    EngineCache, EngineOptions, Figures, FilesCache, Machine, Pace, Plan, Region,
};
use crate::space::file_caches;
use workload::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum System {
    Ucfs,
    /// Squid 2.4 on FFS.
    Squid,
    /// Squid 2.4 on FFS with all writes asynchronous.
    SquidAsync,
    /// Squid with a mapped file for small objects.
    SquidMl,
    Larder,
}

impl System {
    /// The systems of the paper, and the product.
    pub(super) const ALL: [System; 5] =
        [System::Squid, System::SquidAsync, System::SquidMl, System::Ucfs, System::Larder];
    /// The systems that UCFS is compared with.
    pub(super) const BASELINES: [System; 3] = [System::Squid, System::SquidAsync, System::SquidMl];

    pub(super) fn name(self) -> &'static str {
        match self {
            System::Ucfs => "UCFS",
            System::Squid => "SQUID/FFS",
            System::SquidAsync => "SQUID/FFS-async",
            System::SquidMl => "SQUIDML/FFS",
            System::Larder => "Larder",
        }
    }
}

/// The part of the drive that holds the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DrivePart {
    /// The part as large as the paper's cache: 16 or 26 GB.
    Paper,
    /// The first 6 GB, where the drive's mean times are the paper's (`ucfs-disk`).
    First6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    /// Index in [`TRACES`].
    pub(super) trace: usize,
    pub(super) system: System,
    /// Cluster size in bytes (UCFS).
    pub(super) cluster: u32,
    /// Memory for data in MB, at the paper's scale.
    pub(super) memory: u32,
    pub(super) place: DrivePart,
    /// True if writes are acknowledged from the drive's buffer.
    pub(super) write_cache: bool,
    pub(super) likeness: TraceKind,
    /// Divisor of the paper's set-up.
    pub(super) scale: u32,
    /// Divisor of the scaled trace's length; the first part is used.
    pub(super) part: u32,
}

/// Memory for data in MB (section 4.1).
pub(super) const MEMORY: u32 = 256;
/// Cluster size in bytes (section 4.1).
pub(super) const CLUSTER: u32 = 64 << 10;
/// Number of requests for warm-up (section 4.3.2).
const WARM_UP: u64 = 150_000;
pub(super) const SEED: u64 = 2_001;
/// Number of entries of the lookup table (section 2.3.2).
const ENTRIES: u64 = 4 << 20;
const MIB: u64 = 1 << 20;
const DRIVE: &str = "atlas10k_x3";
/// Bytes of SQUIDML's mapped file: as much as a 32-bit process can map (section 1.1.2, item 5).
const MAPPED: u64 = 2 << 30;
/// Share of a file system's disk that Squid fills with objects, in percent. The rest is for the 10%
/// that FFS reserves, inodes, some thousand directories (a large share of a small disk), unused
/// parts of blocks and fragments, and a margin without which allocations sometimes fail.
const SQUID_PERCENT: u64 = 70;

pub(super) const PARAMETERS: [Parameter; 8] = [
    Parameter {
        name: "drive",
        value: "Atlas 10K with three times the sectors per track; 160 MB/s bus; writes are \
                acknowledged by the medium",
        from: "section 4.1; section 2.4.5: a write takes as long as a read",
    },
    Parameter { name: "memory for data", value: "256 MB", from: "section 4.1" },
    Parameter { name: "disk cache", value: "16 GB; PA: 26 GB", from: "table 1" },
    Parameter { name: "cluster", value: "64 KB", from: "section 4.1" },
    Parameter { name: "largest object", value: "256 KB", from: "section 2.2" },
    Parameter { name: "warm-up", value: "150,000 requests, not counted", from: "section 4.3.2" },
    Parameter {
        name: "scale",
        value: "1/32 (SJ: 1/4) of memory, disk, table and requests, spread over the disk as at \
                full size (quick: SJ 1/32, the first eighth of UC 1/32)",
        from: "ours: time",
    },
    Parameter {
        name: "requests",
        value: "generated after table 2, at the rate of the traces",
        from: "the logs are no longer public",
    },
];

impl Case {
    /// Returns the case of a system on a trace, as in the paper.
    pub(super) fn new(context: &Context<'_>, trace: usize, system: System) -> Case {
        let (scale, part) = match (context.scale(), trace) {
            (Scale::Smoke, SJ) => (256, 4),
            (Scale::Smoke, _) => (256, 16),
            (Scale::Quick, SJ) => (32, 1),
            (Scale::Quick, _) => (32, 8),
            (Scale::Full, SJ) => (4, 1),
            (Scale::Full, _) => (32, 1),
        };
        let (cluster, memory, place) = (CLUSTER, MEMORY, DrivePart::Paper);
        let (write_cache, likeness) = (false, TraceKind::Published);
        Case { trace, system, cluster, memory, place, write_cache, likeness, scale, part }
    }

    pub(super) fn trace(&self) -> &'static Trace {
        &TRACES[self.trace]
    }

    fn scaled(&self, bytes: u64) -> u64 {
        (bytes / u64::from(self.scale)).next_multiple_of(MIB)
    }

    fn region(&self) -> Region {
        let disk = self.trace().disk / MIB * MIB;
        let spread = match self.place {
            DrivePart::Paper => disk,
            DrivePart::First6 => 6_000_000_000 / MIB * MIB,
        };
        let len = self.scaled(disk);
        Region { start: 0, spread: spread.max(len), len }
    }

    fn tier(&self) -> u64 {
        (u64::from(self.memory) << 20) / u64::from(self.scale)
    }

    pub(super) fn requests(&self) -> u64 {
        self.trace().requests / u64::from(self.scale) / u64::from(self.part)
    }

    fn drive(&self) -> Result<MechanicalDrive, Failed> {
        Ok(match self.write_cache {
            true => file_caches::drive(DRIVE, Config::FastBus)?,
            false => file_caches::write_through_drive(DRIVE, Config::FastBus)?,
        })
    }

    /// Returns the file system of a baseline, which has all of its memory.
    fn file_system(&self) -> Parameters {
        let parameters = Parameters::ucfs_ffs(self.tier());
        match self.system {
            System::SquidAsync => parameters.asynchronous(),
            _ => parameters,
        }
    }

    fn engine(&self) -> Result<EngineOptions, Failed> {
        let name = match self.system {
            System::Ucfs => "ucfs",
            _ => "larder",
        };
        let preset = store::preset(name).ok_or("the preset is gone")?;
        let mut engine = EngineOptions::from(preset);
        engine.tier = Some(self.tier());
        engine.options.memory = 2 * self.tier();
        // Objects that no cache of the paper stores are not stored by the product either.
        engine.options.object_max = Some(256 << 10);
        if self.system == System::Ucfs {
            engine.format.cluster_size = Some(self.cluster);
            let entries = Some(ENTRIES / u64::from(self.scale));
            engine.format.index.entries = entries;
            engine.options.index.entries = entries;
            let age = engine.options.one_timer_age.map(|age| age / self.scale);
            engine.options.one_timer_age = age;
        }
        Ok(engine)
    }

    fn plan(&self) -> Plan {
        let warm_up = WARM_UP / u64::from(self.scale);
        Plan { warm_up: warm_up.min(self.requests() / 2), pace: Pace::Stated }
    }

    fn run(&self, variant: &Variant) -> Result<Figures, Failed> {
        let machine = Machine::new(Box::new(self.drive()?));
        let requests =
            self.trace().requests(SEED, self.scale, self.likeness).take(self.requests() as usize);
        let requests = variant.watch(self.requests(), requests);
        self.serve(&machine, requests)
    }

    fn serve(
        &self,
        machine: &Machine,
        requests: impl Iterator<Item = Request>,
    ) -> Result<Figures, Failed> {
        let (plan, region) = (self.plan(), self.region());
        let disk = || machine.disk(region, 512);
        let capacity = region.len * SQUID_PERCENT / 100;
        let mapped = self.scaled(MAPPED).min(capacity / 2);
        let (clock, parameters) = (machine.clock(), self.file_system());
        match self.system {
            System::Squid | System::SquidAsync => {
                let squid = file_caches::squid_on_ffs(&clock, disk()?, parameters, capacity);
                let squid = machine.run(squid)??.cache;
                Ok(whole_cache::run(machine, &FilesCache::new(machine, squid), requests, &plan)?)
            }
            System::SquidMl => {
                let squid = file_caches::squid_ml(&clock, disk()?, parameters, capacity, mapped);
                let squid = machine.run(squid)??.cache;
                Ok(whole_cache::run(machine, &FilesCache::new(machine, squid), requests, &plan)?)
            }
            System::Ucfs | System::Larder => {
                let cache = EngineCache::create(machine, region, &self.engine()?)?;
                Ok(whole_cache::run(machine, &cache, requests, &plan)?)
            }
        }
    }
}

static RUNS: Runs<Case> = Runs::new();

/// Returns the results of the cases; runs those that are new.
pub(super) fn figures(context: &mut Context<'_>, cases: &[Case]) -> Result<Vec<Figures>, Failed> {
    RUNS.figures(context, cases, label, Case::run)
}

fn label(case: &Case) -> String {
    let Case { cluster, memory, .. } = *case;
    let name = format!("{}, {}", case.system.name(), case.trace().name);
    let cluster = match cluster {
        CLUSTER => String::new(),
        bytes => format!(", {} KB", bytes >> 10),
    };
    let memory = match memory {
        MEMORY => String::new(),
        megabytes => format!(", {megabytes} MB"),
    };
    let place = match case.place {
        DrivePart::Paper => "",
        DrivePart::First6 => ", first 6 GB",
    };
    let cache = if case.write_cache { ", write cache" } else { "" };
    let likeness = match case.likeness {
        TraceKind::Published => "",
        TraceKind::Small => ", small objects",
        TraceKind::Alone => ", no sessions",
        TraceKind::Whole => ", whole pages",
        TraceKind::Pages => ", nothing but whole pages",
        TraceKind::Reckoned => ", nothing but whole pages of small objects",
    };
    format!("{name}{cluster}{memory}{place}{cache}{likeness}")
}

/// Returns the traces of a run: all, or in a quick run the smallest and that of figure 8.
pub(super) fn traces(context: &Context<'_>) -> Vec<usize> {
    match context.scale() {
        Scale::Smoke | Scale::Quick => vec![SJ, UC],
        Scale::Full => (0..TRACES.len()).collect(),
    }
}

pub(super) fn note(context: &Context<'_>) -> String {
    let sample = context.pick(
        "Of memory, disk and requests one part in 32; of UC the first eighth of that.",
        "Of memory, disk and requests one part in 32 (SJ: in 4).",
    );
    format!("{sample} Generated requests; the cache is spread over the disk as at full size.")
}
