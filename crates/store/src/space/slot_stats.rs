//! Statistics of the slots of a device.

/// Statistics of the slots of one device. `free`, `live`, `waiting`, `bad` and `lost` add up to
/// `slots`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// Total number of slots.
    pub slots: u64,
    /// Size of a slot, in bytes.
    pub slot_bytes: u32,
    /// Slots that a record could take.
    pub free: u64,
    /// Slots of live records.
    pub live: u64,
    /// Slots of dead records that wait for the journal or for readers.
    pub waiting: u64,
    /// Slots that the device could not write.
    pub bad: u64,
    /// Slots that the layout's division leaves over, or that are reserved for a record.
    pub lost: u64,
    /// Number of runs of free slots.
    pub free_pieces: usize,
    /// Number of live records.
    pub records: usize,
    /// Records written in several runs since the store was opened.
    pub split_records: u64,
    /// Total number of runs of those records.
    pub split_runs: u64,
    /// Pages read because only a part of them was to be written.
    pub page_reads: u64,
}
