//! The parts of the measurement.

use super::part_report::{PartReport, Watcher};
use super::plan::Plan;
use super::{background, connections, endurance, restart, workers};

/// A part of the measurement.
pub struct Part {
    /// The name on the command line.
    pub id: &'static str,
    /// One line about what it shows.
    pub about: &'static str,
    /// Runs the part.
    pub run: fn(&Plan, &mut Watcher) -> Result<PartReport, String>,
}

/// All parts.
pub const PARTS: [Part; 5] = [
    Part {
        id: "workers",
        about: "requests a second with more workers, and how long they hold the cache's lock",
        run: workers::run,
    },
    Part {
        id: "connections",
        about: "memory of idle connections, and requests over many busy ones",
        run: connections::run,
    },
    Part {
        id: "restart",
        about: "time to the first hit after an orderly stop and after kill -9, with many objects",
        run: restart::run,
    },
    Part {
        id: "background",
        about: "the slowest hits beside evictions, checkpoints and purges, and without",
        run: background::run,
    },
    Part {
        id: "endurance",
        about: "as much load as it carries, for long, with evictions, purges and upgrades: memory",
        run: endurance::run,
    },
];
