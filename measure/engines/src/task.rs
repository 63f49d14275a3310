//! Messages between the program and the processes of the engines, as lines of JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::trace::{Item, Trace};

/// The engines, in the order of the table.
pub const ENGINES: [&str; 2] = ["larder", "foyer"];

/// The hidden command that runs a step of an engine.
pub const STEP_COMMAND: &str = "engine-step";

/// Measured figures by name. A figure that cannot be measured is absent.
pub type Figures = BTreeMap<String, f64>;

/// The parameters that both engines share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of the cache file; of all files together where an engine has several.
    pub file_size: u64,
    /// Bytes of memory given to the engine.
    pub memory: u64,
    /// Number of requests.
    pub requests: u64,
    /// Seed of the trace, of the order of reads and of the damage.
    pub seed: u64,
}

impl Plan {
    /// Generates the requests.
    pub fn trace(&self) -> Trace {
        Trace::new(self.file_size, self.requests, self.seed)
    }
}

/// The work of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Create the cache, replay the trace, hit memory, insert new objects, close.
    Load,
    /// Open the cache and replay the trace until the process is killed.
    Serve,
    /// Open the cache, report the first hit, read everything, close.
    Read,
}

/// A step of one engine, read from standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The engine, one of [`ENGINES`].
    pub engine: String,
    /// The work.
    pub step: Step,
    /// Directory of the cache.
    pub directory: PathBuf,
    /// The parameters.
    pub plan: Plan,
    /// Objects to look up until the first hit.
    pub probes: Vec<Item>,
}

/// A line on standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// [`Step::Serve`] is under load.
    Serving {
        /// Number of objects in the cache.
        held: u64,
        /// A random sample of them.
        probes: Vec<Item>,
    },
    /// The first hit of [`Step::Read`].
    FirstHit,
    /// The end of a step.
    Done(Figures),
}
