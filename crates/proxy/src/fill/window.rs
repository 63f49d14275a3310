//! Part of a body in memory, between the task that receives it and the clients that read it.
//!
//! An origin may send a body one byte at a time. Small pieces are therefore collected in blocks,
//! and a piece is found by binary search: the cost of a body depends on its bytes, not on the
//! number of pieces. The window counts all memory that it occupies, including its own bookkeeping.

use std::collections::VecDeque;

use bytes::Bytes;

/// Size in bytes below which pieces are collected in a block.
const SMALL: usize = 4 << 10;
/// Size of a block of small pieces, in bytes.
const BLOCK: usize = 16 << 10;
/// Bookkeeping bytes per piece.
const OVERHEAD: u64 = 64;

/// Consecutive pieces of a body, dropped oldest first.
#[derive(Default)]
pub(crate) struct Window {
    /// Position in the body where the window begins.
    begin: u64,
    /// Position in the body where the window ends.
    end: u64,
    /// The pieces, each with the position in the body where it ends.
    pieces: VecDeque<(u64, Bytes)>,
    /// Small pieces, collected; they follow all others.
    block: Vec<u8>,
    /// Bytes of the pieces, including their overhead.
    occupied: u64,
}

impl Window {
    /// Returns the position in the body where the window begins.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Returns the position in the body where the window ends: the number of bytes received.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the bytes of memory that the window occupies.
    pub fn occupied(&self) -> u64 {
        self.occupied + self.block.capacity() as u64
    }

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

    /// Appends the last piece of the body. It is not collected, even if small, unless a block is
    /// open.
    pub fn push_last(&mut self, piece: Bytes) {
        if self.block.is_empty() {
            self.end += piece.len() as u64;
            self.append(piece);
        } else {
            self.push(piece);
        }
    }

    /// Returns the body received so far, if the window holds all of it in one piece.
    pub fn whole(&self) -> Option<Bytes> {
        match self.pieces.front() {
            Some((end, piece)) if *end == self.end && *end == piece.len() as u64 => {
                Some(piece.clone())
            }
            None if self.end == 0 => Some(Bytes::new()),
            _ => None,
        }
    }

    /// Returns where the first droppable piece ends; `None` for an empty window.
    pub fn first_end(&self) -> Option<u64> {
        match self.pieces.front() {
            Some((end, _)) => Some(*end),
            None => (!self.block.is_empty()).then_some(self.end),
        }
    }

    pub fn drop_first(&mut self) {
        if let Some((end, piece)) = self.pieces.pop_front() {
            self.begin = end;
            self.occupied -= piece.len() as u64 + OVERHEAD;
        } else {
            self.begin = self.end;
            self.block = Vec::new();
        }
    }

    /// Returns bytes from `at` on, at most up to `limit`; `None` if they have not arrived. `at`
    /// must not lie before the window.
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

    /// Appends a piece that ends where the window ends.
    fn append(&mut self, piece: Bytes) {
        self.occupied += piece.len() as u64 + OVERHEAD;
        self.pieces.push_back((self.end, piece));
    }

    /// Makes a piece of the collected bytes.
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

    /// Returns bytes of a body whose content follows from the position.
    fn body(range: std::ops::Range<u64>) -> Bytes {
        range.map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn any_pieces_are_read_back_in_order() {
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
