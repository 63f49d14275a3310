//! Metadata of a response that is stored in parts.
//!
//! The key of the whole holds a *sparse* object: the head of the whole, its length, and an epoch.
//! Its own body, if it has one, is the *trunk*: the first bytes of the whole, as an interrupted
//! fetch left them. All other bytes are in *parts*, objects of their own under
//! [`crate::cache_key::part`]. Their keys contain the epoch, so removing or replacing the sparse
//! object makes all of them unreachable, as a marker does for variants.
//!
//! A part holds a contiguous range of its *window*, one of the equal sections of the whole. A
//! window has at most one part.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::fields::range::ByteRange;
use crate::stored::encoding::{Damaged, PART, SPARSE, VERSION, take};
use crate::stored::packed::Packed;
use crate::stored::stored_head::StoredHead;

/// The head of a response that is stored in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseHead {
    /// The division into windows; the keys of the parts contain its epoch.
    pub layout: Layout,
    /// The head of a 200 with the whole body.
    pub head: StoredHead,
}

/// The division of a response into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Must be new and unguessable for every sparse object.
    pub epoch: u128,
    /// Length of the whole in bytes.
    pub length: u64,
    /// Size of a window in bytes, at least 1; the last window ends with the whole.
    pub window: u32,
}

impl Layout {
    /// Returns the number of the window that contains the byte at `position`.
    pub fn number(&self, position: u64) -> u64 {
        position / u64::from(self.window)
    }

    /// Returns window `number`; `None` if it lies past the end.
    pub fn window(&self, number: u64) -> Option<ByteRange> {
        let start = number.checked_mul(u64::from(self.window))?;
        let end = start.saturating_add(u64::from(self.window)).min(self.length);
        (start < end).then_some(ByteRange { start, end })
    }

    /// Returns the window that contains the byte at `position`, which must be less than the length.
    pub fn around(&self, position: u64) -> ByteRange {
        let start = position - position % u64::from(self.window);
        let end = start.saturating_add(u64::from(self.window)).min(self.length);
        ByteRange { start, end }
    }
}

impl SparseHead {
    /// Size of the encoded layout in bytes.
    pub(crate) const LAYOUT_LEN: usize = 28;

    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32 + Packed::LEN + self.head.fields_size());
        out.put_slice(&[SPARSE, self.head.version()]);
        out.put_u128_le(self.layout.epoch);
        out.put_u64_le(self.layout.length);
        out.put_u32_le(self.layout.window);
        self.head.encode_body(&mut out);
        out.freeze()
    }

    pub(crate) fn decode_body(mut rest: Bytes) -> Result<SparseHead, Damaged> {
        let epoch = take(&mut rest, 16)?.get_u128_le();
        let length = take(&mut rest, 8)?.get_u64_le();
        let window = take(&mut rest, 4)?.get_u32_le();
        let head = StoredHead::decode_body(rest)?;
        let layout = Layout { epoch, length, window };
        if window > 0 { Ok(SparseHead { layout, head }) } else { Err(Damaged) }
    }
}

/// The head of a part, stored beside its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// Position of the first byte of the part in the whole.
    pub start: u64,
}

impl PartHead {
    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(10);
        out.put_slice(&[PART, VERSION]);
        out.put_u64_le(self.start);
        out.freeze()
    }

    pub(crate) fn decode_body(mut rest: Bytes) -> Result<PartHead, Damaged> {
        let start = take(&mut rest, 8)?.get_u64_le();
        if rest.is_empty() { Ok(PartHead { start }) } else { Err(Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meta;
    use crate::fixture::stored;

    const LAYOUT: Layout = Layout { epoch: u128::MAX - 7, length: 2500, window: 1000 };

    #[test]
    fn sparse_heads_and_parts_come_back_as_they_were() {
        let head = stored(&["Cache-Control: max-age=60", "X-Many: 1", "X-Many: 2"]);
        let sparse = SparseHead { layout: LAYOUT, head };
        assert_eq!(Meta::decode(&sparse.encode()), Ok(Meta::Sparse(sparse.clone())));
        assert_eq!(StoredHead::decode(&sparse.encode()), Err(Damaged));
        let part = PartHead { start: 1 << 40 };
        assert_eq!(Meta::decode(&part.encode()), Ok(Meta::Part(part)));
        for whole in [sparse.encode(), part.encode()] {
            for length in 0..whole.len() {
                assert_eq!(Meta::decode(&whole.slice(..length)), Err(Damaged), "{length}");
            }
            let longer = Bytes::from([&whole[..], b"x"].concat());
            assert_eq!(Meta::decode(&longer), Err(Damaged));
        }
        let without_window = SparseHead { layout: Layout { window: 0, ..LAYOUT }, ..sparse };
        assert_eq!(Meta::decode(&without_window.encode()), Err(Damaged));
    }

    #[test]
    fn windows_cover_the_whole_and_nothing_else() {
        let ends = |number| LAYOUT.window(number).map(|window| (window.start, window.end));
        assert_eq!(ends(0), Some((0, 1000)));
        assert_eq!(ends(2), Some((2000, 2500)));
        assert_eq!(ends(3), None);
        assert_eq!(ends(u64::MAX), None);
        for position in [0, 999, 1000, 2499] {
            let window = LAYOUT.around(position);
            assert_eq!(LAYOUT.window(LAYOUT.number(position)), Some(window), "{position}");
            assert!((window.start..window.end).contains(&position));
        }
    }
}
