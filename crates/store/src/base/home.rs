//! The tiers that store an object.

/// The tiers that store an inserted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// The device, and memory as memory admission decides.
    #[default]
    MemoryAndDisk,
    /// Memory only, until the object is evicted or the run ends: another node has it on its device.
    /// One that is too large for memory is not stored at all.
    Memory,
    /// The device only, until the object is requested: another node has it in memory.
    Disk,
}
