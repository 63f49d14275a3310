//! The content of a body: its bytes, or in a simulation an id in their place.
//!
//! It exists so that a simulation takes every decision that the engine takes without moving bodies
//! about. An elided content is named by its id: the address of its first byte in an endless run of
//! made-up bytes, so that a part of it has an id as well, two that follow each other are one, and
//! an id that is read back proves as much as the bytes would. In a record the ids stand where the
//! checksums of the body's chunks do; lengths, places and requests are those of real bytes.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::base::keyed_checksum::Secret;
use crate::base::record::CHUNK;

/// Chunks of fewer bytes are joined.
const SMALL: usize = 4096;
/// Bytes that follow from one number.
const WORD: u64 = 8;

/// See the module. Two are equal when they are the same bytes told in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes themselves.
    Bytes(Bytes),
    /// So many bytes that are made up when they are asked for, and are neither copied nor checked
    /// nor written.
    Elided {
        /// The address of the first byte.
        id: u64,
        /// Number of bytes.
        len: usize,
    },
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Content {
        Content::Bytes(bytes)
    }
}

impl Content {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Elided { len, .. } => *len,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a part of it.
    ///
    /// # Panics
    /// When `range` is not within it.
    pub fn slice(&self, range: Range<usize>) -> Content {
        match self {
            Content::Bytes(bytes) => Content::Bytes(bytes.slice(range)),
            Content::Elided { id, len } => {
                assert!(range.start <= range.end && range.end <= *len, "a range within the body");
                Content::Elided { id: id.wrapping_add(range.start as u64), len: range.len() }
            }
        }
    }

    /// Returns the bytes, made up where they are elided.
    pub fn bytes(&self) -> Bytes {
        match self {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Elided { id, len } => made_up(*id, *len),
        }
    }

    /// Returns whether its bytes are elided.
    pub(crate) fn is_elided(&self) -> bool {
        matches!(self, Content::Elided { .. })
    }

    /// Returns the entry of each chunk in a record: its checksum, or its id.
    pub(crate) fn checksums(&self, secret: &Secret) -> Vec<u64> {
        match self {
            Content::Bytes(bytes) => {
                bytes.chunks(CHUNK).map(|chunk| secret.checksum(chunk)).collect()
            }
            Content::Elided { id, len } => chunk_ids(*id, *len).collect(),
        }
    }

    /// Copies the bytes to the front of `out`. An elided content leaves `out` as it is: those bytes
    /// are never read.
    pub(crate) fn write_to(&self, out: &mut [u8]) {
        if let Content::Bytes(bytes) = self {
            out[..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Puts a chunk behind `chunks`. Small ones are joined: a body may come byte by byte.
    pub(crate) fn push(self, chunks: &mut VecDeque<Content>) {
        let small = match self {
            Content::Bytes(bytes) if bytes.len() < SMALL => bytes,
            other => return chunks.push_back(other),
        };
        if chunks.is_empty() {
            // Most small bodies come in one piece.
            return chunks.push_back(Content::Bytes(small));
        }
        if let Some(Content::Bytes(last)) = chunks.back_mut().filter(|last| last.len() < SMALL) {
            match std::mem::take(last).try_into_mut() {
                Ok(mut joined) => {
                    joined.extend_from_slice(&small);
                    *last = joined.freeze();
                    return;
                }
                Err(shared) => *last = shared,
            }
        }
        let mut own = BytesMut::with_capacity(2 * SMALL);
        own.extend_from_slice(&small);
        chunks.push_back(Content::Bytes(own.freeze()));
    }

    /// Takes the first `len` bytes of `chunks` as one run, which is a copy: a chunk may be a small
    /// part of a large buffer, and would keep all of it in memory, where only its own bytes are
    /// counted.
    pub(crate) fn take(chunks: &mut VecDeque<Content>, len: usize) -> Content {
        let id = elided_run(chunks, len);
        let mut run = BytesMut::with_capacity(if id.is_some() { 0 } else { len });
        let mut left = len;
        while left > 0 {
            let Some(mut chunk) = chunks.pop_front() else { break };
            if chunk.len() > left {
                chunks.push_front(chunk.slice(left..chunk.len()));
                chunk = chunk.slice(0..left);
            }
            left -= chunk.len();
            if id.is_none() {
                run.extend_from_slice(&chunk.bytes());
            }
        }
        match id {
            Some(id) => Content::Elided { id, len },
            None => Content::Bytes(run.freeze()),
        }
    }
}

/// Returns the ids of the chunks of an elided content.
pub(crate) fn chunk_ids(id: u64, len: usize) -> impl Iterator<Item = u64> {
    (0..len.div_ceil(CHUNK)).map(move |number| id.wrapping_add((number * CHUNK) as u64))
}

/// Returns the id of the first `len` bytes of `chunks`, when all of them are elided and follow each
/// other.
fn elided_run(chunks: &VecDeque<Content>, len: usize) -> Option<u64> {
    let Content::Elided { id: first, .. } = chunks.front()? else { return None };
    let mut found = 0;
    for chunk in chunks {
        match chunk {
            _ if found >= len => break,
            Content::Elided { id, len } if *id == first.wrapping_add(found as u64) => found += len,
            _ => return None,
        }
    }
    (found >= len).then_some(*first)
}

fn made_up(id: u64, len: usize) -> Bytes {
    let skip = (id % WORD) as usize;
    let mut bytes = BytesMut::zeroed((skip + len).next_multiple_of(WORD as usize));
    for (number, word) in (id / WORD..).zip(bytes.chunks_exact_mut(WORD as usize)) {
        word.copy_from_slice(&mixed(number).to_le_bytes());
    }
    bytes.freeze().slice(skip..skip + len)
}

/// Mixes a number as splitmix64 does: every bit of the result depends on every bit of `x`.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elided(id: u64, len: usize) -> Content {
        Content::Elided { id, len }
    }

    #[test]
    fn parts_of_what_is_elided_are_parts_of_its_bytes() {
        let whole = elided(1_003, 500);
        let bytes = whole.bytes();
        assert_eq!(bytes.len(), 500);
        for range in [0..500, 0..0, 1..9, 5..6, 17..500, 500..500] {
            assert_eq!(whole.slice(range.clone()).bytes(), bytes.slice(range));
        }
        assert_ne!(elided(1_004, 500).bytes(), bytes);
    }

    #[test]
    fn what_follows_each_other_is_taken_as_one() {
        let whole = elided(77, 1_000);
        let mut chunks: VecDeque<Content> =
            [0..300, 300..301, 301..1_000].map(|range| whole.slice(range)).into();
        assert_eq!(Content::take(&mut chunks, 400), whole.slice(0..400));
        assert_eq!(Content::take(&mut chunks, 600), whole.slice(400..1_000));
        assert!(chunks.is_empty());
    }

    #[test]
    fn small_chunks_are_joined_and_large_ones_left_alone() {
        let body: Bytes = (0..100_000).map(|at| (at % 251) as u8).collect();
        for step in [1, 7, 4_095, 4_096, 50_000] {
            let mut chunks = VecDeque::new();
            let kept: Vec<Bytes> = (0..body.len())
                .step_by(step)
                .map(|at| body.slice(at..body.len().min(at + step)))
                .inspect(|chunk| Content::from(chunk.clone()).push(&mut chunks))
                .collect();
            // The first one stays as it came.
            assert!(chunks.len() <= 2 + body.len() / 4_096, "{} chunks of {step}", chunks.len());
            assert_eq!(kept.concat(), body, "what others hold is as it was");
            assert_eq!(Content::take(&mut chunks, body.len()), Content::Bytes(body.clone()));
        }
    }

    #[test]
    fn anything_else_is_taken_as_bytes() {
        let mut chunks: VecDeque<Content> =
            [elided(77, 10), Bytes::from_static(b"between").into(), elided(87, 10)].into();
        let taken = Content::take(&mut chunks, 20);
        let expected = [&elided(77, 10).bytes()[..], b"between", &elided(87, 3).bytes()].concat();
        assert_eq!(taken, Content::Bytes(expected.into()));
        assert_eq!(Content::take(&mut chunks, 7), elided(90, 7));
    }

    #[test]
    fn ids_of_chunks_name_what_they_hold() {
        let whole = elided(9, CHUNK + 10);
        let ids = whole.checksums(&Secret::new([1; 32]));
        assert_eq!(ids, [9, 9 + CHUNK as u64]);
        assert_eq!(elided(ids[1], 10), whole.slice(CHUNK..CHUNK + 10));
    }
}
