//! The account of a device's space: where every byte that is for records is, counted anew from the
//! tables and compared with the figures that are kept along the way.
//!
//! It exists because an engine without a cleaner lives on never losing a piece of its space: what
//! is neither used nor free is lost until the next start, and nobody would see it.

/// Where all bytes of one device are that are for records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// All of them.
    pub all: u64,
    /// In places that hold records, or take them now.
    pub used: u64,
    /// Nothing is there.
    pub free: u64,
    /// Given up, and not free before the journal is durable.
    pub quarantined: u64,
    /// Given up for good, and not free before the last reader is done.
    pub pinned: u64,
    /// The device could not write them.
    pub bad: u64,
}

impl Account {
    /// Whether the parts are the whole.
    pub fn balanced(&self) -> bool {
        self.all == self.used + self.free + self.quarantined + self.pinned + self.bad
    }
}
