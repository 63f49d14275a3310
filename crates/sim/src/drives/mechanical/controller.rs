//! The electronics of a drive: overheads, bus, and the rules of the on-board cache.

/// Settings of a drive's controller. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Time of a request before any other activity.
    pub overheads: Overheads,
    /// Time of one sector on the bus.
    pub bus: f64,
    /// True if data stays in the buffer after a request.
    pub caching: bool,
    /// Number of segments in the buffer.
    pub segments: u32,
    /// Sectors per segment.
    pub segment: u64,
    /// The share of a read that must be in the buffer before the bus is used.
    pub read_watermark: f64,
    /// True if the watermark is a share of the request, false if of the segment.
    pub watermark_of_request: bool,
    /// How far the drive reads on after a read.
    pub read_ahead: ReadAhead,
    /// True if it reads ahead only after a read that continues the previous one.
    pub read_ahead_behind_reads: bool,
    /// Maximum number of sectors read ahead.
    pub read_ahead_most: u64,
    /// True if reading ahead may overwrite sectors that were requested.
    pub read_ahead_over_requested: bool,
    /// True if a read from the buffer restarts reading ahead that had ended.
    pub read_ahead_on_hit: bool,
    /// True if a new request stops reading ahead at once, false if at the end of the sector.
    pub stop_in_sector: bool,
    /// When a write is acknowledged.
    pub fast_write: FastWrite,
    /// True if sequential writes share a segment.
    pub combine_writes: bool,
    /// True if written sectors can be read from the buffer.
    pub read_written: bool,
}

/// Times of a request before any other activity. Pairs apply after a read and after a write.
#[derive(Clone, Debug)]
pub struct Overheads {
    /// Every request.
    pub request: f64,
    /// A read from the buffer.
    pub read_hit: [f64; 2],
    /// A read that needs the medium.
    pub read_miss: [f64; 2],
    /// A write acknowledged from the buffer.
    pub write_hit: [f64; 2],
    /// A write acknowledged from the medium.
    pub write_miss: [f64; 2],
    /// After the last sector of a read.
    pub read_completion: f64,
    /// After the last sector of a write.
    pub write_completion: f64,
}

/// How far an idle drive reads on after a read. While a request is being sent to the host, reading
/// continues until the segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// Until the segment is full.
    Segment,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastWrite {
    /// Once it is on the medium.
    Never,
    /// Once it is in the buffer.
    Always,
}
