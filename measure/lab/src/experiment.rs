//! Experiments: how each figure and table of the papers is reproduced and run.
//!
//! An experiment is one file below [`crate::experiments`]. It has a constant [`Experiment`], which
//! names what it reproduces, its parameters and its run time, and a function from a [`Context`] to
//! an [`Outcome`]. The outcome has tables with the paper's numbers beside ours, plots with the
//! paper's points and ours in one chart, and a paragraph on what differs and why. Progress, files,
//! the report and the check of golden numbers need no further code.
//!
//! Guarantees: equal seeds and scales give equal outcomes, however many variants run concurrently.
//! `docs/research/lab.md` shows how to add an experiment.

mod context;
mod outcome;
mod record;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use context::{Context, Meter, Scale, Variant};
pub use outcome::{Deviation, Outcome, Row, Stated, TOLERATED, Table};
pub use plot::{Axis, AxisScale, Kind, Plot, Series, Source};
pub use record::{Record, RecordError};

/// The paper that an experiment reproduces.
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
    /// No paper: present-day questions.
    Beyond,
}

impl Paper {
    /// All papers, in the order of the report.
    pub const ALL: [Paper; 6] = [
        Paper::Markatos,
        Paper::Ucfs,
        Paper::Tfs,
        Paper::Unified,
        Paper::OlaruTichy,
        Paper::Beyond,
    ];

    /// Returns the prefix of the names of its experiments.
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

    /// Returns the heading in the report.
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

    /// Returns authors, title, venue and year; for `Beyond`, a description of these experiments.
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
            Paper::Beyond => "The engine's own defaults, and other settings",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A parameter of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name, such as `memory`.
    pub name: &'static str,
    /// The value with its unit; both values if `--quick` has another one.
    pub value: &'static str,
    /// The paper's section, or the reason for the value if the paper does not state it.
    pub from: &'static str,
}

/// An experiment: a figure, a table, or a statement that is checked.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The paper's name, a hyphen, and the subject: `ucfs-fig-8`, `unified-table-3`, `ucfs-disk`.
    pub name: &'static str,
    /// The paper.
    pub paper: Paper,
    /// The place in the paper: `figure 8`, `table 3`, `section 3.2`.
    pub place: &'static str,
    /// The title in one line.
    pub title: &'static str,
    /// The parameters, most important first.
    pub parameters: &'static [Parameter],
    /// Approximate seconds of a quick and of a full run on two cores.
    pub seconds: [u32; 2],
    /// Runs the experiment.
    pub run: fn(&mut Context<'_>) -> Result<Outcome, Failed>,
}

/// Why an experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

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
