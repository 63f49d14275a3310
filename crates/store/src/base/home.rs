//! Where an object is kept.

/// The tiers that keep an object that is inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// The device, and memory as its admission says.
    #[default]
    MemoryAndDisk,
    /// Memory alone, until it leaves that for room or at the end of the run: the device of another
    /// node has it. An object that is too large for one record, or for memory, is not kept at all.
    Memory,
    /// The device alone, until it is asked for: the memory of another node has it.
    Disk,
}
