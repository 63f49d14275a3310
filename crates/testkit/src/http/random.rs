//! Seeded random numbers, and messages damaged by them.

use crate::body::mix;

/// Words that are inserted into a damaged message.
const WORDS: [&str; 26] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "\"",
    "\0",
    "\x7f",
    "\u{ff}",
    "0",
    "-1",
    "%00",
    "chunked",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Host: b\r\n",
    "Connection: host\r\n",
    "Range: bytes=0-0,-1\r\n",
    "Vary: *\r\n",
    "Cache-Control: max-age=60\r\n",
    "HTTP/1.1",
    "Expect: 100-continue\r\n",
    "Content-Range: bytes 0-1/1\r\n",
];

/// A generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns the generator of a seed.
    pub fn of(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next number, uniform over all values.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `bound`.
    pub fn below<N: TryFrom<u64> + TryInto<u64>>(&mut self, bound: N) -> N {
        let bound = bound.try_into().ok().expect("a bound that is not negative");
        (self.word() % bound).try_into().ok().expect("less than the bound")
    }

    /// Returns one of the values.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Damages a message: truncates it, drops, duplicates, swaps, changes or inserts bytes, or
    /// joins two of its lines.
    pub fn damage(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = message.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
                3 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                4 if end > at => bytes.swap(at, end - 1),
                5 => {
                    let lines: Vec<usize> = ends(&bytes);
                    if !lines.is_empty() {
                        let line = *self.one_of(&lines);
                        bytes.drain(line..line + 2);
                    }
                }
                _ => {
                    let word = self.one_of(&WORDS);
                    bytes.splice(at..at, word.chars().map(|c| c as u8));
                }
            }
        }
        bytes
    }

    /// Splits a message into a few pieces.
    pub fn split(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = message;
        let mut pieces = Vec::new();
        for _ in 0..self.below(4) {
            let (piece, behind) = rest.split_at(self.below(rest.len().max(1)));
            if !piece.is_empty() {
                pieces.push(piece.to_vec());
            }
            rest = behind;
        }
        pieces.push(rest.to_vec());
        pieces
    }
}

/// Returns the positions of line ends.
fn ends(bytes: &[u8]) -> Vec<usize> {
    bytes.windows(2).enumerate().filter(|(_, two)| *two == b"\r\n").map(|(at, _)| at).collect()
}
