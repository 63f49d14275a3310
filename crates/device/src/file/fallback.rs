//! Features that the operating system refused. No fallback is silent: each refusal is recorded, to
//! be printed at start-up and counted in a metric.

use std::fmt;

/// A feature of the operating system that the device can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// io_uring; without it, a pool of threads reads and writes.
    IoUring,
    /// O_DIRECT; without it, the page cache is used and takes memory.
    Direct,
    /// fallocate; without it, the file is sparse and a write may later find the disk full.
    Allocate,
}

/// A refusal and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The feature refused.
    pub feature: Feature,
    /// The reason, in the operating system's words.
    pub reason: String,
}

impl Feature {
    /// All features.
    pub const ALL: [Feature; 3] = [Feature::IoUring, Feature::Direct, Feature::Allocate];

    /// Returns the name used in messages and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Feature::IoUring => "io_uring",
            Feature::Direct => "O_DIRECT",
            Feature::Allocate => "fallocate",
        }
    }

    /// Returns a refusal of this feature.
    pub(crate) fn refused(self, reason: impl fmt::Display) -> Fallback {
        Fallback { feature: self, reason: reason.to_string() }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instead = match self.feature {
            Feature::IoUring => "a pool of threads does the input and output",
            Feature::Direct => "the page cache is in between",
            Feature::Allocate => "the file is sparse, so a full disk shows only when written",
        };
        write!(f, "{} refused ({}): {instead}", self.feature.name(), self.reason)
    }
}

impl std::error::Error for Fallback {}
