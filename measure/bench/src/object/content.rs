//! Bodies: bytes that are a function of object, version and position.
//!
//! A body consists of blocks of 512 bytes. The first eight bytes of each are a hash of object,
//! version and block number. The others are a piece of a table of random bytes, at an offset
//! determined by the hash. Any part of a body can thus be generated and verified at the speed of
//! copying and comparing. A wrong byte is always detected; a block of another object, version or
//! position matches by accident once in 2^64.

use std::sync::LazyLock;

use workload::contents::mix;

/// The body of one version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    key: u64,
}

impl Content {
    /// Returns the body of this version of an object.
    pub fn of(object: u64, version: u64) -> Content {
        Content { key: mix(mix(object) ^ version) }
    }
}

const BLOCK: usize = 512;
const STAMP: usize = 8;
/// Number of offsets in the table where a piece may begin: a power of two.
const PLACES: usize = 1 << 15;
/// Distance between the hashes of consecutive blocks.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let words = (0..(PLACES + BLOCK) as u64 / 8).map(|word| mix(word ^ 0x6c61_7264_6572));
    words.flat_map(u64::to_le_bytes).collect()
});

fn stamp(content: Content, block: u64) -> [u8; STAMP] {
    mix(content.key.wrapping_add(block.wrapping_mul(STEP))).to_le_bytes()
}

/// Returns the bytes of a block after its stamp.
fn piece(stamp: [u8; STAMP]) -> &'static [u8] {
    let place = (u64::from_le_bytes(stamp) >> 20) as usize % PLACES;
    &TABLE[place..place + BLOCK - STAMP]
}

/// Fills `bytes` with the body from `offset` on.
pub fn fill(content: Content, offset: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let (block, within) = place(offset + at as u64);
        let len = (BLOCK - within).min(bytes.len() - at);
        let stamp = stamp(content, block);
        let stamped = STAMP.saturating_sub(within).min(len);
        let (head, rest) = bytes[at..at + len].split_at_mut(stamped);
        head.copy_from_slice(&stamp[within.min(STAMP)..][..stamped]);
        let from = (within + stamped) - STAMP.min(within + stamped);
        rest.copy_from_slice(&piece(stamp)[from..from + rest.len()]);
        at += len;
    }
}

/// Returns the position in the body of the first wrong byte of `bytes`, which were read at
/// `offset`; `None` if all are right.
pub fn first_wrong(content: Content, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut at = 0;
    while at < bytes.len() {
        let (block, within) = place(offset + at as u64);
        let len = (BLOCK - within).min(bytes.len() - at);
        let stamp = stamp(content, block);
        let stamped = STAMP.saturating_sub(within).min(len);
        let (head, rest) = bytes[at..at + len].split_at(stamped);
        let from = (within + stamped) - STAMP.min(within + stamped);
        let ought = &piece(stamp)[from..from + rest.len()];
        if head != &stamp[within.min(STAMP)..][..stamped] || rest != ought {
            return Some(
                offset + at as u64 + wrong_in_block(content, block, within, &bytes[at..at + len]),
            );
        }
        at += len;
    }
    None
}

/// Returns the index of the first wrong byte in `bytes`, a part of a block that begins `within` it.
fn wrong_in_block(content: Content, block: u64, within: usize, bytes: &[u8]) -> u64 {
    let mut right = [0; BLOCK];
    fill(content, block * BLOCK as u64, &mut right);
    let ought = &right[within..within + bytes.len()];
    bytes.iter().zip(ought).position(|(is, ought)| is != ought).unwrap_or(0) as u64
}

/// Returns the block of a position, and the offset within it.
fn place(position: u64) -> (u64, usize) {
    (position / BLOCK as u64, (position % BLOCK as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(content: Content, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fill(content, 0, &mut bytes);
        bytes
    }

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let content = Content::of(7, 2);
        let whole = body(content, 3_001);
        for start in [0, 1, 7, 8, 9, 500, 511, 512, 515, 520, 1_024, 2_999] {
            for len in [0, 1, 2, 8, 9, 504, 512, 513, 1_100] {
                let end = (start + len).min(whole.len());
                let mut part = vec![0; end - start];
                fill(content, start as u64, &mut part);
                assert_eq!(part, whole[start..end], "{start}..{end}");
                assert_eq!(first_wrong(content, start as u64, &part), None, "{start}..{end}");
            }
        }
    }

    #[test]
    fn every_wrong_byte_is_found_where_it_is() {
        let content = Content::of(1, 0);
        let right = body(content, 1_100);
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 0x40;
            assert_eq!(first_wrong(content, 0, &wrong), Some(at as u64));
            let part = first_wrong(content, 3, &wrong[3..]);
            assert_eq!(part, (at >= 3).then_some(at as u64));
        }
    }

    #[test]
    fn bodies_of_others_are_wrong_in_every_block() {
        let right = body(Content::of(5, 1), 4_096);
        for other in [Content::of(6, 1), Content::of(5, 2), Content::of(5, 0)] {
            for at in (0..4_096).step_by(512) {
                let found = first_wrong(other, at as u64, &right[at..at + 512]);
                assert!(found.is_some_and(|found| found < at as u64 + 8), "{found:?}");
            }
        }
        // A block in place of another.
        assert!(first_wrong(Content::of(5, 1), 512, &right[1_024..1_536]).is_some());
    }
}
