//! What a lookup may ask of the store's tiers: where to look, and what becomes of memory.
//!
//! The default is what a cache wants for itself. The others are for who stands above the store: a
//! node that asks the memory of all its peers before any disk, or that hands an object over to a
//! peer that will keep it.

/// Where a lookup looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tiers {
    /// In memory, then on the device.
    #[default]
    MemoryAndDisk,
    /// In memory alone: no device is touched, and no read under way is waited for. An object in
    /// pieces is found when its head and its first piece are in memory; its further pieces are
    /// read from where they are. A lookup that finds nothing is not counted: its caller goes on
    /// to another tier.
    Memory,
}

/// What a lookup does to the memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// What is found counts as asked for, and enters memory as the tier's admission says.
    #[default]
    Keep,
    /// What is found does not enter memory, nor does anything that lies beside it, and leaves it
    /// where the device has it as well: the caller sees to it that it is kept elsewhere. What is
    /// in memory alone stays there.
    Exclusive,
}

/// How a lookup is done; see [`crate::Store::lookup_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupOptions {
    /// Where it looks.
    pub tiers: Tiers,
    /// What it does to the memory tier.
    pub retention: Retention,
}

impl LookupOptions {
    /// Whether nothing but memory may be asked.
    pub(crate) fn memory_only(self) -> bool {
        self.tiers == Tiers::Memory
    }

    /// Whether what is found is not to be in memory afterwards.
    pub(crate) fn is_exclusive(self) -> bool {
        self.retention == Retention::Exclusive
    }

    /// The same for what is read on in an object that was found.
    pub(crate) fn for_pieces(self) -> LookupOptions {
        LookupOptions { tiers: Tiers::MemoryAndDisk, ..self }
    }
}
