//! Experiments: what each figure and table of the papers is here, and how it is run.
//!
//! An experiment is one file below [`crate::experiments`]: a constant [`Experiment`] that says what
//! it reproduces, with which parameters and for how long, and a function that takes a [`Context`]
//! and gives an [`Outcome`]. The outcome has tables with the paper's numbers beside ours, plots
//! with the paper's points and ours in one chart, and a paragraph on what differs and why. All
//! else (progress, files, the report, the check of golden numbers) follows from it.
//!
//! It promises: equal seeds and scales give equal outcomes, however many variants run at a time.
//! `docs/research/lab.md` shows how one is added.

mod context;
mod outcome;
mod record;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use context::{Context, Meter, Scale, Variant};
pub use outcome::{Deviation, Outcome, Row, Stated, TOLERATED, Table};
pub use plot::{Axis, AxisScale, Kind, Plot, Series, Source};
pub use record::{Record, RecordError};

/// Whose experiment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Secondary Storage Management for Web Proxies.
    Markatos,
    /// UCFS, a user-space, customized file system for web proxy servers.
    Ucfs,
    /// A light-weight, temporary file system for large-scale web servers.
    Tfs,
    /// Improve web proxy performance by alleviating disk I/O overhead.
    Unified,
    /// Request distribution-aware caching in cluster-based web servers.
    #[serde(rename = "olaru-tichy")]
    OlaruTichy,
    /// No paper: questions of today.
    Beyond,
}

impl Paper {
    /// All, in the order of the report.
    pub const ALL: [Paper; 6] = [
        Paper::Markatos,
        Paper::Ucfs,
        Paper::Tfs,
        Paper::Unified,
        Paper::OlaruTichy,
        Paper::Beyond,
    ];

    /// What the names of its experiments begin with.
    pub fn as_str(self) -> &'static str {
        match self {
            Paper::Markatos => "markatos",
            Paper::Ucfs => "ucfs",
            Paper::Tfs => "tfs",
            Paper::Unified => "unified",
            Paper::OlaruTichy => "olaru-tichy",
            Paper::Beyond => "beyond",
        }
    }

    /// What it is called in a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Paper::Markatos => "Space managers for a proxy's disk",
            Paper::Ucfs => "UCFS",
            Paper::Tfs => "TFS",
            Paper::Unified => "UNIFIED",
            Paper::OlaruTichy => "Caching in a fleet of nodes",
            Paper::Beyond => "Beyond the papers",
        }
    }

    /// Authors, title, where and when; or, of none, what these experiments are.
    pub fn citation(self) -> &'static str {
        match self {
            Paper::Markatos => {
                "Markatos, Katevenis, Pnevmatikatos, Flouris: Secondary Storage Management for Web \
                 Proxies, USITS 1999"
            }
            Paper::Ucfs => {
                "Wang, Min, Zhu, Hu: UCFS – a user-space, customized file system for web proxy \
                 servers, IEEE Transactions on Computers 2002"
            }
            Paper::Tfs => {
                "Wang, Cai, Hu: A light-weight, temporary file system for large-scale web servers"
            }
            Paper::Unified => {
                "Chang, Lai: Improve web proxy performance by alleviating disk I/O overhead"
            }
            Paper::OlaruTichy => {
                "Olaru, Tichy: Request distribution-aware caching in cluster-based web servers"
            }
            Paper::Beyond => "Policies, flash and disks of today, and the engine's own defaults",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an experiment is run with.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Such as `memory`.
    pub name: &'static str,
    /// With its unit; where `--quick` has another one, both.
    pub value: &'static str,
    /// The paper's section, or why it is so where the paper says nothing.
    pub from: &'static str,
}

/// A figure, a table, or a statement that is checked.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The paper's name, a hyphen, and what it is: `ucfs-fig-8`, `unified-table-3`, `ucfs-disk`.
    pub name: &'static str,
    /// Whose.
    pub paper: Paper,
    /// Where in the paper: `figure 8`, `table 3`, `section 3.2`.
    pub place: &'static str,
    /// One line.
    pub title: &'static str,
    /// In the order in which they matter.
    pub parameters: &'static [Parameter],
    /// Seconds that a quick and a full run take on two cores, roughly.
    pub seconds: [u32; 2],
    /// Does it.
    pub run: fn(&mut Context<'_>) -> Result<Outcome, Failed>,
}

/// Why an experiment came to no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed(why)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Failed {
        Failed(why.to_owned())
    }
}
