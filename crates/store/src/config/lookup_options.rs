//! Options of a lookup: the tiers that it searches, and its effect on the memory tier.
//!
//! The defaults suit a single cache. The other values are for layers above the store: a node that
//! asks the memory of all its peers before any disk, or that hands an object over to a peer that
//! will keep it.

/// The tiers that a lookup searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiers {
    /// Memory, then the device.
    #[default]
    MemoryAndDisk,
    /// Memory only: the lookup starts no device access and waits for no read under way. An object
    /// in pieces is found when its head and its first piece are in memory; its other pieces are
    /// read from wherever they are. A lookup that finds nothing is not counted, because its caller
    /// goes on to another tier.
    Memory,
}

/// The effect of a lookup on the memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// The object counts as requested, and enters memory as the tier's admission decides.
    #[default]
    Keep,
    /// The object does not enter memory, nor does anything that lies beside it. It leaves memory if
    /// the device has it as well: the caller makes sure that it is kept elsewhere. An object that
    /// is in memory only stays there.
    Exclusive,
}

/// Options of [`crate::Store::lookup_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupOptions {
    /// The tiers to search.
    pub tiers: Tiers,
    /// The effect on the memory tier.
    pub retention: Retention,
}

impl LookupOptions {
    /// Returns whether only memory may be searched.
    pub(crate) fn memory_only(self) -> bool {
        self.tiers == Tiers::Memory
    }

    /// Returns whether the object must not be in memory afterwards.
    pub(crate) fn is_exclusive(self) -> bool {
        self.retention == Retention::Exclusive
    }

    /// Returns the options for reading the pieces of an object that was found.
    pub(crate) fn for_pieces(self) -> LookupOptions {
        LookupOptions { tiers: Tiers::MemoryAndDisk, ..self }
    }
}
