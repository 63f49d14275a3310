//! The electronics of a drive: overheads, bus, and the rules of the on-board cache.

/// The settings of a drive's controller. Times are milliseconds.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Time of a request before anything else happens.
    pub overheads: Overheads,
    /// For one sector over the bus.
    pub bus: f64,
    /// Whether data stays in the buffer after a request.
    pub caching: bool,
    /// Segments of the buffer.
    pub segments: u32,
    /// Sectors of a segment.
    pub segment: u64,
    /// The share of a read that must be in the buffer before the bus is used.
    pub read_watermark: f64,
    /// Whether that is a share of the request or else of the segment.
    pub watermark_of_request: bool,
    /// The extent of reading on after a read.
    pub read_ahead: ReadAhead,
    /// Whether it does so only after a read that continues the one before it.
    pub read_ahead_behind_reads: bool,
    /// The most sectors that it reads ahead.
    pub read_ahead_most: u64,
    /// Whether reading ahead may overwrite sectors that were asked for.
    pub read_ahead_over_requested: bool,
    /// Whether a read from the buffer restarts reading ahead that had ended.
    pub read_ahead_on_hit: bool,
    /// Whether reading ahead stops at once for a new request; else at the end of the sector.
    pub stop_in_sector: bool,
    /// The moment at which a write is acknowledged.
    pub fast_write: FastWrite,
    /// Whether sequential writes share a segment.
    pub combine_writes: bool,
    /// Whether what was written can be read from the buffer.
    pub read_written: bool,
}

/// Times of a request before anything else happens; pairs are for after a read, after a write.
#[derive(Clone, Debug)]
pub struct Overheads {
    /// Every request.
    pub request: f64,
    /// A read of what is in the buffer.
    pub read_hit: [f64; 2],
    /// A read that needs the medium.
    pub read_miss: [f64; 2],
    /// A write that is acknowledged from the buffer.
    pub write_hit: [f64; 2],
    /// A write that is acknowledged from the medium.
    pub write_miss: [f64; 2],
    /// After the last sector of a read.
    pub read_completion: f64,
    /// After the last sector of a write.
    pub write_completion: f64,
}

/// The extent of reading on after a read while the drive is idle. While a request is being sent to
/// the host, it goes on until the segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// Until the segment is full.
    Segment,
}

/// The moment at which a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastWrite {
    /// Once it is on the medium.
    Never,
    /// Once it is in the buffer.
    Always,
}
