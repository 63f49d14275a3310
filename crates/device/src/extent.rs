//! Places on a device: an extent is a run of bytes, a geometry says what runs are allowed.

/// The alignment of everything that is written on its own, even where the device takes 512.
pub const WRITE_ALIGN: u32 = 4096;

/// A run of bytes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// Byte offset from the start of the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// The first byte after the extent.
    pub fn end(self) -> u64 {
        self.offset + self.len
    }

    /// The smallest extent of whole `align`-byte blocks that contains this one.
    pub fn aligned(self, align: u32) -> Extent {
        let align = u64::from(align);
        let offset = self.offset / align * align;
        let end = self.end().div_ceil(align) * align;
        Extent { offset, len: end - offset }
    }
}

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the device in bytes.
    pub len: u64,
    /// Offsets, lengths and buffer addresses are multiples of this many bytes (a power of two).
    pub block: u32,
}
