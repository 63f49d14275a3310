//! The counts of a run of nodes.

use device::Nanos;

/// The source of a response, as seen by the node that the client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Memory,
    Disk,
    PeerMemory,
    PeerDisk,
    Origin,
    /// A running fetch that the request joined.
    Joined,
}

impl Source {
    /// Returns the source as seen by a node that got the response from this one.
    pub(super) fn of_peer(self) -> Source {
        match self {
            Source::Memory | Source::PeerMemory => Source::PeerMemory,
            Source::Disk | Source::PeerDisk => Source::PeerDisk,
            Source::Origin | Source::Joined => self,
        }
    }
}

/// The counts of a run; times are in virtual nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Completed requests of clients, failed ones included.
    pub(super) requests: u64,
    /// Requests by source, in the order of [`Source`].
    pub(super) sources: [u64; 6],
    /// Requests that found no source.
    pub(super) failed: u64,
    pub(super) disk_reads: u64,
    /// Number of requests to the origin, and the bytes of its responses.
    pub(super) origin: [u64; 2],
    /// Number of documents sent between nodes, and their bytes.
    pub(super) between: [u64; 2],
    /// Number of requests, notices and summaries between nodes, and their bytes.
    pub(super) messages: [u64; 2],
    /// Number of copies offered to a less busy node on eviction from memory.
    pub(super) offers: u64,
    /// Number of requests to other nodes without a response in time.
    pub(super) timeouts: u64,
    /// Response times of clients' requests in microseconds.
    pub(super) times: Vec<u32>,
    /// When counting started and ended.
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    /// Busy time of each node's processor, and of its disk.
    pub(super) processors: Vec<Nanos>,
    pub(super) disks: Vec<Nanos>,
    /// Number of responses by each node, to clients and to nodes.
    pub(super) answers: Vec<u64>,
    /// For each second: requests, and those of them that waited for the origin.
    pub(super) seconds: Vec<[u32; 2]>,
}

impl Counts {
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.elapsed()
    }

    /// Returns the percentage of requests served from these sources.
    pub(super) fn share(&self, sources: &[Source]) -> f64 {
        let sum: u64 = sources.iter().map(|source| self.sources[*source as usize]).sum();
        self.percent(sum)
    }

    /// Returns `count` as a percentage of the requests.
    pub(super) fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.requests.max(1) as f64
    }

    /// Returns the mean response time in milliseconds.
    pub(super) fn mean_ms(&self) -> f64 {
        let sum: u64 = self.times.iter().map(|time| u64::from(*time)).sum();
        sum as f64 / 1e3 / self.times.len().max(1) as f64
    }

    /// Returns this percentile of the response times in milliseconds.
    pub(super) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| f64::from(*time) / 1e3)
    }

    /// Returns the busy time of the busiest disk, in percent.
    pub(super) fn busiest_disk(&self) -> f64 {
        let most = self.disks.iter().copied().max().unwrap_or(0);
        100.0 * most as f64 / self.elapsed()
    }

    /// Returns the busy time of the busiest processor, in percent.
    pub(super) fn busiest_processor(&self) -> f64 {
        let most = self.processors.iter().copied().max().unwrap_or(0);
        100.0 * most as f64 / self.elapsed()
    }

    /// Returns the responses of the busiest node divided by the mean of all nodes.
    pub(super) fn imbalance(&self) -> f64 {
        let most = self.answers.iter().copied().max().unwrap_or(0) as f64;
        let sum: u64 = self.answers.iter().sum();
        most * self.answers.len() as f64 / sum.max(1) as f64
    }

    fn elapsed(&self) -> f64 {
        self.until.saturating_sub(self.from).max(1) as f64
    }
}
