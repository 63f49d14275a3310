//! The bodies of the lab's objects: bytes that follow from object, version and position.
//!
//! Checking what a space manager returns needs no record of what was stored. Bytes of another
//! object, version or position never match by accident (except for one word in 2^64).

use bytes::{Bytes, BytesMut};
use store::Content;

use crate::request::Object;

/// The kind of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Bytes that follow from the object: copied, checksummed, stored, read back and compared.
    Bytes,
    /// A length and an id ([`store::Content`]): the same decisions and the same requests to the
    /// device, without copying, checksumming and comparing bytes.
    Elided,
}

impl Bodies {
    /// Returns the body of `object` in parts of at most `part` bytes.
    pub fn parts(self, object: &Object, part: usize) -> impl Iterator<Item = Content> + use<> {
        let (object, size) = (*object, object.size as usize);
        let bytes = if self == Bodies::Bytes { body(&object) } else { Bytes::new() };
        (0..size).step_by(part).map(move |at| {
            let len = part.min(size - at);
            match self {
                Bodies::Bytes => bytes.slice(at..at + len).into(),
                Bodies::Elided => Content::Elided { id: elided_id(&object, at as u64), len },
            }
        })
    }
}

/// Returns the id of an elided body from the byte at `offset` on; it is far from the id of any
/// other object.
fn elided_id(object: &Object, offset: u64) -> u64 {
    mix(u64::from(object.id) << 32 | u64::from(object.version)).wrapping_add(offset)
}

/// Works like [`first_wrong`], on bytes or a part of an elided body.
pub fn first_wrong_content(object: &Object, offset: u64, content: &Content) -> Option<u64> {
    match content {
        Content::Bytes(bytes) => first_wrong(object, offset, bytes),
        Content::Elided { id, .. } => (*id != elided_id(object, offset)).then_some(offset),
    }
}

/// Increment of the splitmix64 sequence.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes per word of the sequence.
const WORD: u64 = 8;

/// Returns the whole body of `object`.
pub fn body(object: &Object) -> Bytes {
    let mut bytes = BytesMut::zeroed(object.size as usize);
    for (number, word) in bytes.chunks_mut(WORD as usize).enumerate() {
        let value = word_at(object, number as u64).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
    bytes.freeze()
}

/// Compares `bytes`, which were read at `offset`, with the body of `object`. Returns the position
/// in the body of the first wrong byte, or `None` if all are right.
pub fn first_wrong(object: &Object, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut at = 0;
    while at < bytes.len() {
        let position = offset + at as u64;
        if position.is_multiple_of(WORD) {
            let (words, _) = bytes[at..].as_chunks::<{ WORD as usize }>();
            let right = |(number, word): &(u64, &[u8; 8])| {
                u64::from_le_bytes(**word) == word_at(object, *number)
            };
            let right = (position / WORD..).zip(words).take_while(right).count();
            at += right * WORD as usize;
            if at == bytes.len() {
                return None;
            }
        }
        let position = offset + at as u64;
        let word = word_at(object, position / WORD).to_le_bytes();
        let within = (position % WORD) as usize;
        let len = (word.len() - within).min(bytes.len() - at);
        let (is, ought) = (&bytes[at..at + len], &word[within..within + len]);
        if is != ought {
            let wrong = is.iter().zip(ought).position(|(is, ought)| is != ought);
            return Some(position + wrong.unwrap_or(0) as u64);
        }
        at += len;
    }
    None
}

/// Returns word `number` of the object's body.
fn word_at(object: &Object, number: u64) -> u64 {
    let seed = mix((u64::from(object.id) << 32) | u64::from(object.version));
    mix(seed.wrapping_add(number.wrapping_mul(STEP)))
}

/// The output function of splitmix64: every bit of the result depends on every bit of `x`.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;

    const OBJECT: Object =
        Object { id: 7, version: 2, site: 1, group: 1, size: 1_003, kind: Kind::Other };

    #[test]
    fn any_part_of_a_body_can_be_checked() {
        let body = body(&OBJECT);
        assert_eq!(body.len(), 1_003);
        for (start, end) in [(0, 1_003), (0, 0), (1, 9), (8, 16), (13, 14), (5, 1_003)] {
            assert_eq!(first_wrong(&OBJECT, start as u64, &body[start..end]), None);
        }
    }

    #[test]
    fn every_wrong_byte_is_found_where_it_is() {
        let right = body(&OBJECT);
        for at in 0..right.len() {
            let mut wrong = right.to_vec();
            wrong[at] ^= 1;
            assert_eq!(first_wrong(&OBJECT, 0, &wrong), Some(at as u64));
            assert_eq!(first_wrong(&OBJECT, 3, &wrong[3..]), (at >= 3).then_some(at as u64));
        }
    }

    #[test]
    fn bytes_of_another_object_version_or_place_are_wrong() {
        let right = body(&OBJECT);
        assert!(first_wrong(&Object { id: 8, ..OBJECT }, 0, &right).is_some());
        assert!(first_wrong(&Object { version: 3, ..OBJECT }, 0, &right).is_some());
        assert!(first_wrong(&OBJECT, 8, &right).is_some());
    }
}
