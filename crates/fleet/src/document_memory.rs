//! Fixed-size memory of documents' sizes and media types, by which the class of a document is known
//! before the next answer.
//!
//! A document takes eight bytes: a tag of 16 bits, the number of its media type, and its size.
//! Documents are forgotten, oldest first, and one in 8,000 unknown documents is taken for another
//! one. Both cost a lookup by the wrong class; what is kept of an answer follows from the answer
//! itself.

use crate::buckets::{Buckets, tag};
use crate::key::KeyHash;

/// Maximum number of distinct media types. Documents of further types have none that is known.
const TYPES_MAX: usize = u8::MAX as usize;
/// Maximum bytes of a media type that is kept (RFC 6838, 4.2).
const TYPE_BYTES_MAX: usize = 255;

/// Bits of a document's size, plus one; 0 is an unknown size.
const SIZE_BITS: u32 = 40;
const SIZE_MASK: u64 = (1 << SIZE_BITS) - 1;
/// Bits of the number of its type.
const TYPE_MASK: u64 = (u8::MAX as u64) << SIZE_BITS;
/// Position of its tag.
const TAG_SHIFT: u32 = SIZE_BITS + u8::BITS;

/// Size and media type of a document, where they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered<'a> {
    /// Body length in bytes; sizes above one terabyte count as one terabyte.
    pub size: Option<u64>,
    /// Media type without parameters, in lower case.
    pub content_type: Option<&'a str>,
}

/// A node's memory of documents.
#[derive(Clone, Debug)]
pub struct DocumentMemory {
    /// Each entry has, from its highest bit, the tag, the position of the type in `types` from 1,
    /// and the size. 0 is unused.
    documents: Buckets<u64>,
    types: Vec<Box<str>>,
}

impl DocumentMemory {
    /// Makes an empty memory of at most `bytes` bytes, but at least one bucket.
    pub fn new(bytes: usize) -> DocumentMemory {
        DocumentMemory { documents: Buckets::new(bytes), types: Vec::new() }
    }

    /// Returns the number of documents that fit.
    pub fn capacity(&self) -> usize {
        self.documents.capacity()
    }

    /// Records the size and the `Content-Type` of a document. One that is unknown stays as it was.
    pub fn note(&mut self, key: KeyHash, size: Option<u64>, content_type: Option<&str>) {
        let before = self.entry(key).unwrap_or(0);
        let number = content_type.map_or(before & TYPE_MASK, |kind| self.number(kind) << SIZE_BITS);
        let size = size.map_or(before & SIZE_MASK, |size| size.saturating_add(1).min(SIZE_MASK));
        if number == 0 && size == 0 {
            return;
        }
        let entry = number | size | (u64::from(tag(key)) << TAG_SHIFT);
        self.documents.put(key, entry, |known| is_of(*known, key));
    }

    /// Returns what is remembered of a document.
    pub fn get(&self, key: KeyHash) -> Option<Remembered<'_>> {
        let entry = self.entry(key)?;
        let number = (entry & TYPE_MASK) >> SIZE_BITS;
        let content_type = (number as usize).checked_sub(1).and_then(|at| self.types.get(at));
        let size = (entry & SIZE_MASK).checked_sub(1);
        Some(Remembered { size, content_type: content_type.map(|known| &**known) })
    }

    fn entry(&self, key: KeyHash) -> Option<u64> {
        self.documents.of(key).iter().copied().find(|entry| is_of(*entry, key))
    }

    /// Returns the number of a media type, assigning one if needed; 0 if all are taken.
    fn number(&mut self, content_type: &str) -> u64 {
        let essence = content_type.split(';').next().unwrap_or("").trim_ascii();
        if essence.is_empty() || essence.len() > TYPE_BYTES_MAX {
            return 0;
        }
        let known = self.types.iter().position(|known| known.eq_ignore_ascii_case(essence));
        if known.is_none() && self.types.len() < TYPES_MAX {
            self.types.push(essence.to_ascii_lowercase().into());
            return self.types.len() as u64;
        }
        known.map_or(0, |at| at as u64 + 1)
    }
}

/// Returns whether a used entry has the tag of this key.
fn is_of(entry: u64, key: KeyHash) -> bool {
    entry & (TYPE_MASK | SIZE_MASK) != 0 && entry >> TAG_SHIFT == u64::from(tag(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_facts_of_a_document_are_remembered() {
        let mut memory = DocumentMemory::new(0);
        let key = KeyHash::from_bits;
        let of = |memory: &DocumentMemory, bits| {
            let known = memory.get(key(bits));
            known.map(|known| (known.size, known.content_type.map(str::to_owned)))
        };
        assert_eq!(of(&memory, 0), None);
        memory.note(key(0), Some(0), None);
        memory.note(key(1), Some(1_023), Some("Image/PNG; a=b"));
        memory.note(key(2), None, Some("image/png"));
        memory.note(key(3), None, None);
        assert_eq!(of(&memory, 0), Some((Some(0), None)));
        assert_eq!(of(&memory, 1), Some((Some(1_023), Some("image/png".to_owned()))));
        assert_eq!(of(&memory, 2), Some((None, Some("image/png".to_owned()))));
        assert_eq!(of(&memory, 3), None);
        memory.note(key(1), Some(u64::MAX), Some("text/html"));
        assert_eq!(of(&memory, 1), Some((Some(SIZE_MASK - 1), Some("text/html".to_owned()))));
        memory.note(key(1), None, Some("image/png"));
        assert_eq!(of(&memory, 1), Some((Some(SIZE_MASK - 1), Some("image/png".to_owned()))));
        assert_eq!(memory.types.len(), 2);
        (4..11).for_each(|bits| memory.note(key(bits), Some(1), None));
        assert_eq!((of(&memory, 0), of(&memory, 2)), (None, None), "the oldest make way");
        assert!(of(&memory, 1).is_some());
    }

    #[test]
    fn a_document_takes_eight_bytes_and_types_are_bounded() {
        let mut memory = DocumentMemory::new(1 << 20);
        assert_eq!(memory.capacity(), (1 << 20) / 8);
        for kind in 0..=TYPES_MAX as u64 {
            let name = format!("x/{kind}");
            memory.note(KeyHash::from_bits(kind << 16), Some(kind), Some(&name));
        }
        assert_eq!(memory.types.len(), TYPES_MAX);
        let of = |kind: u64| memory.get(KeyHash::from_bits(kind << 16));
        assert_eq!(of(TYPES_MAX as u64), Some(Remembered { size: Some(255), content_type: None }));
    }
}
