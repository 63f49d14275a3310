//! The choice of a workload, and its parameters.

use std::path::PathBuf;
use std::sync::Arc;

use workload::generator;
use workload::generator::polymix::PolyMix;
use workload::generator::streams;
use workload::trace::ReadOptions;

use super::connections::RequestsPerConnection;
use super::sizes::Sizes;
use crate::object::Ask;

/// Share of PolyMix-4's requests that clients abort, and of its responses that origins abort.
pub const ABORTS: f64 = 0.001;

/// The purpose of a phase; some workloads depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseKind {
    /// The cache is being filled.
    Fill,
    /// Any other phase.
    Steady,
}

/// A workload.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Polygraph's proxy benchmark.
    PolyMix(PolyMix),
    /// A web server benchmark, or a model of a trace.
    Generated(generator::Workload),
    /// Unrelated objects by Zipf's law.
    Zipf {
        /// Number of objects.
        objects: u32,
        /// The exponent; 0: all are equally popular.
        alpha: f64,
        /// Number of requests after which an object takes the place of another one.
        drift: Option<u64>,
    },
    /// Every request is for another object.
    Unique,
    /// The files of a web server, which responds without an origin.
    Site {
        /// Number of pages.
        pages: u32,
    },
    /// These requests, again and again.
    Listed(Arc<[Ask]>),
    /// Logs or traces.
    Replay {
        /// The files, in order.
        files: Vec<PathBuf>,
        /// How the files are read.
        options: ReadOptions,
    },
}

impl Workload {
    /// Returns pages with drifting popularity, for a cache of `cache` bytes.
    pub fn pages_for(cache: u64) -> Workload {
        Workload::Generated(generator::Workload::Preset(streams::pages_for(cache)))
    }

    /// Names and descriptions, for the help.
    pub const NAMES: [(&str, &str); 10] = [
        ("polymix-3", "Web Polygraph's proxy benchmark"),
        ("polymix-4", "the same, which prefers small objects, with POST and HEAD"),
        ("webstone", "WebStone 2's standard list of five files"),
        ("specweb96", "SPECweb96: four classes of files in directories of 5 MB"),
        ("specweb99", "SPECweb99's static part: directories by Zipf's law"),
        ("olaru-tichy", "classes of 50, 35, 14 and 1% of the requests, 1 GB of files"),
        ("zipf", "unrelated objects by Zipf's law: --objects, --alpha, --sizes"),
        ("unique", "every request for another object: --sizes"),
        ("pages", "pages and what is embedded in them, whose popularity drifts"),
        ("replay", "a log or a trace: larder bench … --workload replay FILE"),
    ];

    /// Returns the default number of requests per connection in this workload.
    pub fn requests_per_connection(&self) -> RequestsPerConnection {
        match self {
            Workload::PolyMix(_) => RequestsPerConnection::Zipf(64),
            Workload::Generated(workload) => match workload.name() {
                // These date from HTTP/1.0.
                "webstone" | "specweb96" => RequestsPerConnection::Fixed(1),
                "specweb99" => RequestsPerConnection::Fixed(5),
                _ => RequestsPerConnection::Unlimited,
            },
            _ => RequestsPerConnection::Unlimited,
        }
    }

    /// Returns whether the target responds without the origin of this program.
    pub fn has_no_origin(&self) -> bool {
        matches!(self, Workload::Site { .. })
    }

    /// Returns whether the workload has its own request times.
    pub fn has_times(&self) -> bool {
        matches!(self, Workload::Replay { .. })
    }

    /// Returns whether the origin has a think time by default.
    pub fn has_think_time(&self) -> bool {
        matches!(self, Workload::PolyMix(_))
    }

    /// Returns the share of responses in which origins close the connection midway.
    pub fn origin_aborts(&self) -> f64 {
        match self {
            Workload::PolyMix(mix) if mix.has_aborts() => ABORTS,
            _ => 0.0,
        }
    }
}

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The workload.
    pub workload: Workload,
    /// The seed of all random choices.
    pub seed: u64,
    /// Object sizes, for workloads without their own.
    pub sizes: Sizes,
    /// Mean seconds between two versions of an object, for workloads that do not define it; 0:
    /// objects never change.
    pub lifetime: u32,
    /// Share of objects that must not be stored, for workloads that do not define it.
    pub uncacheable: f64,
    /// Share of requests for a part of an object.
    pub ranges: f64,
    /// True if requests have the fields of a browser behind another proxy.
    pub browser: bool,
}
