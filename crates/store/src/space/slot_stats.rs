//! Figures of the slots of a device.

/// Figures of the slots of one device: `free`, `live`, `waiting`, `bad` and `lost` are all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// Slots in all.
    pub slots: u64,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Slots that a record could take.
    pub free: u64,
    /// Slots of records that live.
    pub live: u64,
    /// Slots of dead records that wait for the journal, or for those who read there.
    pub waiting: u64,
    /// Slots that the device could not write.
    pub bad: u64,
    /// Slots that the layout's own division leaves over, or that are set aside for a record.
    pub lost: u64,
    /// Runs of free slots.
    pub free_pieces: usize,
    /// Records that live.
    pub records: usize,
    /// Records written in several runs since the store was opened.
    pub split_records: u64,
    /// All runs of those.
    pub split_runs: u64,
    /// Pages read because only a part of them was to be written.
    pub page_reads: u64,
}
