//! The metadata of the store, in any of its forms; `encoding` defines the bytes.

use bytes::Bytes;

use crate::fields::validators::Selected;
use crate::fields::view::Fields;
use crate::stored::encoding::{Damaged, HEAD, MARKER, PART, SPARSE, SPELLED, VERSION, take};
use crate::stored::packed::{Flag, Packed};
use crate::stored::sparse::{PartHead, SparseHead};
use crate::stored::stored_head::StoredHead;
use crate::stored::vary_marker::VaryMarker;

/// Decoded metadata of the store.
#[derive(Clone, Debug, PartialEq)]
pub enum Meta {
    /// A response.
    Head(StoredHead),
    /// A marker: the variants are under [`crate::stored::cache_key::variant`].
    Marker(VaryMarker),
    /// A response stored in parts, which are under [`crate::stored::cache_key::part`].
    Sparse(SparseHead),
    /// A part of such a response.
    Part(PartHead),
}

impl Meta {
    /// Decodes any form. Header values share the memory of `bytes`.
    pub fn decode(bytes: &Bytes) -> Result<Meta, Damaged> {
        let mut rest = bytes.clone();
        match take(&mut rest, 2)?.as_ref() {
            [HEAD, VERSION | SPELLED] => StoredHead::decode_body(rest).map(Meta::Head),
            [MARKER, VERSION] => VaryMarker::decode_body(rest).map(Meta::Marker),
            [SPARSE, VERSION | SPELLED] => SparseHead::decode_body(rest).map(Meta::Sparse),
            [PART, VERSION] => PartHead::decode_body(rest).map(Meta::Part),
            _ => Err(Damaged),
        }
    }
}

/// Decodes only the facts of an encoded whole response; returns `None` for any other form.
pub fn facts(meta: &[u8]) -> Option<Packed> {
    let [HEAD, VERSION | SPELLED, rest @ ..] = meta else { return None };
    Packed::decode(rest.first_chunk()?)
}

/// The encoded head of a whole response, read without building a map of its fields.
#[derive(Clone, Copy, Debug)]
pub struct EncodedHead<'a> {
    /// The facts of the response.
    pub facts: Packed,
    meta: &'a [u8],
}

impl<'a> EncodedHead<'a> {
    /// Decodes the facts and checks that exactly the encoded fields follow them. Returns `None` for
    /// any other form and for a response with trailers. Does not validate the bytes of names and
    /// values again, since they were valid when the head was encoded.
    pub fn read(meta: &'a [u8]) -> Option<EncodedHead<'a>> {
        let facts = facts(meta)?;
        let count = meta.get(2 + Packed::LEN..)?.first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let lengths = fields(meta).map(|(name, value)| 6 + name.len() + value.len());
        let (found, length) = lengths.fold((0, 0), |(found, sum), one| (found + 1, sum + one));
        let is_whole = found == count && 2 + Packed::LEN + 2 + length == meta.len();
        (is_whole && !facts.is(Flag::Trailers)).then_some(EncodedHead { facts, meta })
    }

    /// Decodes the facts of bytes that [`EncodedHead::read`] has checked before. Checks nothing
    /// else.
    pub fn checked(meta: &'a [u8]) -> Option<EncodedHead<'a>> {
        Some(EncodedHead { facts: facts(meta)?, meta })
    }

    /// Returns the validators for evaluating conditions and `If-Range`.
    pub fn selected(&self) -> Selected<'_> {
        self.facts.selected(self)
    }

    /// Returns the name and value of each field, in the order in which they are sent.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        fields(self.meta)
    }
}

impl Fields for EncodedHead<'_> {
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields()
    }

    fn lines_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let is = move |known: &[u8]| known.eq_ignore_ascii_case(name.as_bytes());
        let lines = self.fields().filter(move |(known, _)| is(known));
        lines.map(|(_, value)| value)
    }
}

/// Returns the name and value of each field of an encoded response, whole or in parts, without
/// building a map. Names have their original spelling. Empty for any other form.
pub fn fields(meta: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let facts_at = match meta.first_chunk::<2>() {
        Some([HEAD, VERSION | SPELLED]) => 2,
        Some([SPARSE, VERSION | SPELLED]) => 2 + SparseHead::LAYOUT_LEN,
        _ => meta.len(),
    };
    let rest = meta.get(facts_at + Packed::LEN..).unwrap_or_default();
    let (count, mut rest) = rest.split_first_chunk::<2>().unwrap_or((&[0; 2], &[]));
    let mut left = u16::from_le_bytes(*count);
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (lengths, fields) = rest.split_first_chunk::<6>()?;
        let name_length = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let value_length = [lengths[2], lengths[3], lengths[4], lengths[5]];
        let value_length = usize::try_from(u32::from_le_bytes(value_length)).ok()?;
        let (name, values) = fields.split_at_checked(name_length)?;
        let (value, further) = values.split_at_checked(value_length)?;
        rest = further;
        Some((name, value))
    })
}
