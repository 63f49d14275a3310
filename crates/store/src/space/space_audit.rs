//! The account of a device's space: every byte reserved for records is recounted from the tables
//! and compared with the incrementally maintained figures.
//!
//! An engine without a cleaner must never leak space. Bytes that are neither used nor free are lost
//! until the next start, and no other check would notice.

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
