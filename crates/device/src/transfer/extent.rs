//! Extents (ranges of bytes on a device), and the geometry that determines which are allowed.

use std::io;

/// The alignment of all separate writes in bytes, even on devices that accept 512.
pub const WRITE_ALIGN: u32 = 4096;

/// A range of bytes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// Byte offset from the start of the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// Returns the position after the extent.
    pub fn end(self) -> u64 {
        self.offset + self.len
    }

    /// Returns the smallest extent of whole `align`-byte blocks that contains this one.
    pub fn aligned(self, align: u32) -> Extent {
        let align = u64::from(align);
        let offset = self.offset / align * align;
        let end = self.end().div_ceil(align) * align;
        Extent { offset, len: end - offset }
    }
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the device in bytes.
    pub len: u64,
    /// The alignment of offsets, lengths and buffer addresses, in bytes (a power of two).
    pub block: u32,
}

impl Geometry {
    /// Checks whether an operation may access `extent`, without a system call. The error is of kind
    /// `InvalidInput` and states the reason.
    pub fn check(self, extent: Extent) -> io::Result<()> {
        let Extent { offset, len } = extent;
        let block = u64::from(self.block);
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            let text = format!("{len} bytes at {offset}: not a multiple of the block, {block}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            let text = format!("{len} bytes at {offset}: beyond the device's {} bytes", self.len);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_misaligned_and_beyond_the_end() {
        let geometry = Geometry { len: 8192, block: 512 };
        let check = |offset, len| geometry.check(Extent { offset, len }).is_ok();
        assert!(check(0, 8192) && check(7680, 512) && check(512, 1024));
        assert!(!check(1, 512) && !check(0, 100) && !check(8192, 512) && !check(7680, 1024));
        assert!(!check(u64::MAX - 511, 512) && !check(512, u64::MAX - 511));
    }

    #[test]
    fn aligned_contains_and_is_smallest() {
        let extent = Extent { offset: 5000, len: 10 }.aligned(4096);
        assert_eq!(extent, Extent { offset: 4096, len: 4096 });
        let extent = Extent { offset: 4096, len: 4097 }.aligned(4096);
        assert_eq!(extent, Extent { offset: 4096, len: 8192 });
    }
}
