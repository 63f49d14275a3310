//! The part of a body that is in memory between the task that brings it and the clients that read
//! it.
//!
//! An origin may send a body in pieces of a single byte. So small pieces are collected in blocks,
//! and a piece is found by binary search: the cost of a body depends on its bytes, not on its
//! pieces. The window counts all that it occupies, its own bookkeeping included.

use std::collections::VecDeque;

use bytes::Bytes;

/// Pieces of fewer bytes are collected.
const SMALL: usize = 4 << 10;
/// Bytes of a block of small pieces.
const BLOCK: usize = 16 << 10;
/// Bytes that a piece occupies besides its own.
const OVERHEAD: u64 = 64;

/// A window on a body: consecutive pieces, the oldest of which are dropped.
#[derive(Default)]
pub(crate) struct Window {
    /// Where it begins in the body.
    begin: u64,
    /// Where it ends.
    end: u64,
    /// The pieces, each with the position in the body where it ends.
    pieces: VecDeque<(u64, Bytes)>,
    /// Small pieces, which follow all others.
    block: Vec<u8>,
    /// Bytes of the pieces with their overhead.
    occupied: u64,
}

impl Window {
    /// Returns where it begins in the body.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Returns where it ends in the body: so many bytes have come.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the bytes of memory that it occupies.
    pub fn occupied(&self) -> u64 {
        self.occupied + self.block.capacity() as u64
    }

    /// Appends a piece of the body.
    pub fn push(&mut self, piece: Bytes) {
        if piece.len() >= SMALL || self.block.len() + piece.len() > BLOCK {
            self.close_block();
        }
        self.end += piece.len() as u64;
        if piece.len() >= SMALL {
            self.append(piece);
        } else {
            self.block.extend_from_slice(&piece);
        }
    }

    /// Appends the last piece of the body: what is small is not collected for others.
    pub fn push_last(&mut self, piece: Bytes) {
        if self.block.is_empty() {
            self.end += piece.len() as u64;
            self.append(piece);
        } else {
            self.push(piece);
        }
    }

    /// Returns all of the body so far, if it is here and in one piece.
    pub fn whole(&self) -> Option<Bytes> {
        match self.pieces.front() {
            Some((end, piece)) if *end == self.end && *end == piece.len() as u64 => {
                Some(piece.clone())
            }
            None if self.end == 0 => Some(Bytes::new()),
            _ => None,
        }
    }

    /// Returns where the first piece ends that can be dropped as a whole; `None` for an empty
    /// window.
    pub fn first_end(&self) -> Option<u64> {
        match self.pieces.front() {
            Some((end, _)) => Some(*end),
            None => (!self.block.is_empty()).then_some(self.end),
        }
    }

    /// Drops the first piece.
    pub fn drop_first(&mut self) {
        if let Some((end, piece)) = self.pieces.pop_front() {
            self.begin = end;
            self.occupied -= piece.len() as u64 + OVERHEAD;
        } else {
            self.begin = self.end;
            self.block = Vec::new();
        }
    }

    /// Returns the bytes from `at` on, which must not lie before the window, at most up to `limit`;
    /// `None` when they have not come.
    pub fn read(&self, at: u64, limit: u64) -> Option<Bytes> {
        debug_assert!(self.begin <= at && at < limit);
        if at >= self.end {
            return None;
        }
        let found = self.pieces.partition_point(|(end, _)| *end <= at);
        let Some((end, piece)) = self.pieces.get(found) else {
            let begin = self.end - self.block.len() as u64;
            let range = (at - begin) as usize..(limit.min(self.end) - begin) as usize;
            return Some(Bytes::copy_from_slice(&self.block[range]));
        };
        let begin = end - piece.len() as u64;
        Some(piece.slice((at - begin) as usize..(limit.min(*end) - begin) as usize))
    }

    /// Appends a piece that ends where the window does.
    fn append(&mut self, piece: Bytes) {
        self.occupied += piece.len() as u64 + OVERHEAD;
        self.pieces.push_back((self.end, piece));
    }

    /// Makes a piece of the bytes that were collected.
    fn close_block(&mut self) {
        if !self.block.is_empty() {
            let block = std::mem::take(&mut self.block).into_boxed_slice();
            self.append(block.into());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns bytes of a body, each of which follows from its position.
    fn body(range: std::ops::Range<u64>) -> Bytes {
        range.map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn any_pieces_are_read_as_they_came() {
        let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("LARDER_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..50 {
            let mut window = Window::default();
            let most = [2, 300, 9_000][random.usize(..3)];
            for _ in 0..400 {
                let len = random.u64(1..=most);
                window.push(body(window.end()..window.end() + len));
                if random.u8(..4) == 0 {
                    let first = window.first_end().unwrap();
                    assert!(window.begin() < first && first <= window.end());
                    window.drop_first();
                    assert_eq!(window.begin(), first);
                }
                if window.begin() == window.end() {
                    assert_eq!((window.first_end(), window.occupied()), (None, 0));
                    continue;
                }
                let at = random.u64(window.begin()..window.end());
                let limit = random.u64(at + 1..=window.end() + 100);
                let read = window.read(at, limit).unwrap();
                assert!(!read.is_empty() && at + read.len() as u64 <= limit);
                assert_eq!(read, body(at..at + read.len() as u64));
                assert!(window.read(window.end(), u64::MAX).is_none());
            }
        }
    }

    #[test]
    fn small_pieces_are_joined() {
        let mut window = Window::default();
        (0..200_000).for_each(|at| window.push(body(at..at + 1)));
        assert!(window.occupied() < 220_000, "{}", window.occupied());
        let (mut at, mut reads) = (0, 0);
        while let Some(bytes) = window.read(at, u64::MAX) {
            at += bytes.len() as u64;
            reads += 1;
        }
        assert_eq!((at, reads), (200_000, 200_000_usize.div_ceil(BLOCK)));
    }
}
