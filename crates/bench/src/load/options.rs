//! Which workload, and its parameters.

use std::path::PathBuf;

use workload::generator;
use workload::generator::polymix::PolyMix;
use workload::generator::streams;
use workload::trace::ReadOptions;

use super::connections::RequestsPerConnection;
use super::sizes::Sizes;

/// Share of PolyMix-4's requests that robots abort, and of its answers that origins do.
pub const ABORTS: f64 = 0.001;

/// A workload.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Polygraph's proxy benchmark.
    PolyMix(PolyMix),
    /// A web server's benchmark, or what stands for a trace.
    Generated(generator::Workload),
    /// Unrelated objects by Zipf's law.
    Zipf {
        /// How many.
        objects: u32,
        /// The exponent; 0: all are as popular.
        alpha: f64,
    },
    /// Every request is for another object.
    Unique,
    /// Logs or traces.
    Replay {
        /// One after another.
        files: Vec<PathBuf>,
        /// How they are read.
        options: ReadOptions,
    },
}

impl Workload {
    /// Pages whose popularity drifts, for a cache of so many bytes.
    pub fn pages_for(cache: u64) -> Workload {
        Workload::Generated(generator::Workload::Preset(streams::pages_for(cache)))
    }

    /// Names and what they are, for the help.
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

    /// What a client does with connections in this workload, unless it is told otherwise.
    pub fn requests_per_connection(&self) -> RequestsPerConnection {
        match self {
            Workload::PolyMix(_) => RequestsPerConnection::Zipf(64),
            Workload::Generated(workload) => match workload.name() {
                // Of the time of HTTP/1.0.
                "webstone" | "specweb96" => RequestsPerConnection::Fixed(1),
                "specweb99" => RequestsPerConnection::Fixed(5),
                _ => RequestsPerConnection::Unlimited,
            },
            _ => RequestsPerConnection::Unlimited,
        }
    }

    /// Whether it has times of its own.
    pub fn has_times(&self) -> bool {
        matches!(self, Workload::Replay { .. })
    }

    /// Whether the origin takes its time, unless it is told otherwise.
    pub fn has_think_time(&self) -> bool {
        matches!(self, Workload::PolyMix(_))
    }

    /// Share of answers in whose middle origins close the connection.
    pub fn origin_aborts(&self) -> f64 {
        match self {
            Workload::PolyMix(mix) if mix.has_aborts() => ABORTS,
            _ => 0.0,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Which workload.
    pub workload: Workload,
    /// All chance follows from it.
    pub seed: u64,
    /// Sizes, where the workload has none of its own.
    pub sizes: Sizes,
    /// Mean seconds from one version of an object to the next, where the workload does not say; 0:
    /// none changes.
    pub lifetime: u32,
    /// Share of objects that must not be stored, where the workload does not say.
    pub uncacheable: f64,
    /// Share of requests for a part of an object.
    pub ranges: f64,
    /// Requests have the fields of a browser behind another proxy.
    pub browser: bool,
}
