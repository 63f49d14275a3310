//! The account of a device's space: every byte reserved for records is recounted from the tables
//! and compared with the incrementally maintained figures.
//!
//! An engine without a cleaner must never leak space. Bytes that are neither used nor free are lost
//! until the next start, and no other check would notice.

/// The first disagreement between two of the store's own tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The free map and the state of a cluster differ.
    #[error("the free map differs from the state of cluster {cluster}")]
    FreeMap {
        /// Number of the cluster.
        cluster: u32,
    },
    /// A free cluster has readers, or one that waits for its readers has none.
    #[error("cluster {cluster} has {readers} readers, which its state rules out")]
    Readers {
        /// Number of the cluster.
        cluster: u32,
        /// Number of its readers.
        readers: u32,
    },
    /// The clusters in each state are not as many as were counted.
    #[error("the states of clusters are {found:?} and were counted as {counted:?}")]
    States {
        /// Number of clusters in each state.
        found: Vec<u32>,
        /// The numbers as counted.
        counted: Vec<u32>,
    },
    /// A cluster is quarantined, and nothing will free it.
    #[error("cluster {cluster} is quarantined for ever")]
    Quarantine {
        /// Number of the cluster.
        cluster: u32,
    },
    /// An index entry leads to a granule that holds no record.
    #[error("an entry leads to granule {granule} of cluster {cluster}, which holds nothing")]
    Granule {
        /// Number of the cluster.
        cluster: u32,
        /// Number of the granule in the cluster.
        granule: u32,
    },
    /// An index entry leads to a slot that holds no record.
    #[error("an entry leads to slot {position}, where nothing lives")]
    Slot {
        /// Number of the slot.
        position: u32,
    },
    /// The records take another number of slots than counts as live.
    #[error("records take {listed} slots, {live} count as live")]
    Live {
        /// Slots of all records.
        listed: u64,
        /// Slots that count as live.
        live: u64,
    },
    /// The parts of the space do not add up.
    #[error("{0:?} does not add up")]
    Sum(Account),
}

/// The division of one device's bytes for records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// All bytes for records.
    pub all: u64,
    /// Bytes in places that hold records or accept them.
    pub used: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes given up, but not free before the journal is durable.
    pub quarantined: u64,
    /// Bytes given up with a durable journal, but not free before the last reader is done.
    pub pinned: u64,
    /// Bytes that the device could not write.
    pub bad: u64,
}

impl Account {
    /// Returns whether the parts add up to `all`.
    pub fn balanced(&self) -> bool {
        self.all == self.used + self.free + self.quarantined + self.pinned + self.bad
    }
}
