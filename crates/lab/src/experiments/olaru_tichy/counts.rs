//! What is counted while nodes serve.

use device::Nanos;

/// Where an answer came from, as the node sees it that a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Its own memory.
    Memory,
    /// Its own disk.
    Disk,
    /// Another node's memory.
    PeerMemory,
    /// Another node's disk.
    PeerDisk,
    /// The origin.
    Origin,
    /// A fetch that was under way.
    Joined,
}

impl Source {
    /// The same as the node sees it that asked this one.
    pub(super) fn of_peer(self) -> Source {
        match self {
            Source::Memory | Source::PeerMemory => Source::PeerMemory,
            Source::Disk | Source::PeerDisk => Source::PeerDisk,
            Source::Origin | Source::Joined => self,
        }
    }
}

/// What was counted. Times are in virtual nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Clients' requests that were answered.
    pub(super) requests: u64,
    /// By where the answer came from, in the order of [`Source`].
    pub(super) sources: [u64; 6],
    /// Requests that nobody could answer.
    pub(super) failed: u64,
    /// Reads of disks.
    pub(super) disk_reads: u64,
    /// Times that the origin was asked, and bytes that it sent.
    pub(super) origin: [u64; 2],
    /// Documents that went from one node to another, and their bytes.
    pub(super) between: [u64; 2],
    /// Questions, notices and summaries between nodes, and their bytes.
    pub(super) messages: [u64; 2],
    /// Copies that were offered to a less busy node when they left memory.
    pub(super) offers: u64,
    /// Requests to other nodes that had no answer in time.
    pub(super) timeouts: u64,
    /// Response times of clients' requests in microseconds.
    pub(super) times: Vec<u32>,
    /// When counting began and ended.
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    /// How long each node's processor was busy, and its disk.
    pub(super) processors: Vec<Nanos>,
    pub(super) disks: Vec<Nanos>,
    /// Answers that each node gave, to clients and to nodes.
    pub(super) answers: Vec<u64>,
    /// In each second: requests, and those of them that waited for the origin.
    pub(super) seconds: Vec<[u32; 2]>,
}

impl Counts {
    /// Requests a second.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed()
    }

    /// Percent of the requests that came from one of these.
    pub(super) fn share(&self, sources: &[Source]) -> f64 {
        let sum: u64 = sources.iter().map(|source| self.sources[*source as usize]).sum();
        self.percent(sum)
    }

    /// Percent of the requests.
    pub(super) fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.requests.max(1) as f64
    }

    /// Mean response time in milliseconds.
    pub(super) fn mean_ms(&self) -> f64 {
        let sum: u64 = self.times.iter().map(|time| u64::from(*time)).sum();
        sum as f64 / 1e3 / self.times.len().max(1) as f64
    }

    /// The response time in milliseconds that so many percent do not exceed.
    pub(super) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| f64::from(*time) / 1e3)
    }

    /// Percent of the time that the busiest disk was busy.
    pub(super) fn busiest_disk(&self) -> f64 {
        let most = self.disks.iter().copied().max().unwrap_or(0);
        100.0 * most as f64 / self.elapsed()
    }

    /// Percent of the time that the busiest processor was busy.
    pub(super) fn busiest_processor(&self) -> f64 {
        let most = self.processors.iter().copied().max().unwrap_or(0);
        100.0 * most as f64 / self.elapsed()
    }

    /// Answers of the node that gave most by the mean of all.
    pub(super) fn imbalance(&self) -> f64 {
        let most = self.answers.iter().copied().max().unwrap_or(0) as f64;
        let sum: u64 = self.answers.iter().sum();
        most * self.answers.len() as f64 / sum.max(1) as f64
    }

    fn elapsed(&self) -> f64 {
        self.until.saturating_sub(self.from).max(1) as f64
    }
}
