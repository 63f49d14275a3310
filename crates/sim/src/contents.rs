//! What a simulated device holds: sparse pages that copies share until one of them changes, so that
//! a device of a terabyte costs what was written to it, and a crash is a copy.
//!
//! It promises: what was never written, or written as zeros, is zero and takes no memory.

use std::rc::Rc;

/// Bytes of a page: what the engine writes alone.
const PAGE: usize = 4096;
/// Pages of a leaf: one allocation of the table.
const LEAF: usize = 256;

type Page = Rc<[u8; PAGE]>;
type Leaf = Rc<[Option<Page>; LEAF]>;

/// Contents of a linear space. A clone costs a pointer for every mebibyte of it.
#[derive(Clone, Default)]
pub struct Contents {
    leaves: Vec<Option<Leaf>>,
}

impl Contents {
    /// Nothing but zeros.
    pub fn new() -> Contents {
        Contents::default()
    }

    /// Fills `into` with the bytes at `offset`; any alignment.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for part in parts(offset, into.len()) {
            let bytes = &mut into[part.range];
            match self.page(part.page) {
                Some(page) => bytes.copy_from_slice(&page[part.within..][..bytes.len()]),
                None => bytes.fill(0),
            }
        }
    }

    /// Puts `from` at `offset`; any alignment.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for part in parts(offset, from.len()) {
            let bytes = &from[part.range];
            if bytes.len() == PAGE {
                let page: &[u8; PAGE] = bytes.try_into().expect("a whole page");
                if is_zero(page) {
                    if self.page(part.page).is_some() {
                        *self.slot(part.page) = None;
                    }
                } else {
                    self.put(part.page, page);
                }
                continue;
            }
            let slot = self.slot(part.page);
            let page = slot.get_or_insert_with(|| Rc::new([0; PAGE]));
            Rc::make_mut(page)[part.within..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Pages that take memory.
    pub fn pages(&self) -> usize {
        self.leaves.iter().flatten().map(|leaf| leaf.iter().flatten().count()).sum()
    }

    fn page(&self, number: usize) -> Option<&[u8; PAGE]> {
        let leaf = self.leaves.get(number / LEAF)?.as_ref()?;
        leaf[number % LEAF].as_deref()
    }

    fn put(&mut self, number: usize, bytes: &[u8; PAGE]) {
        let slot = self.slot(number);
        // Nobody shares it: written in place.
        match slot.as_mut().and_then(Rc::get_mut) {
            Some(page) => page.copy_from_slice(bytes),
            None => *slot = Some(Rc::new(*bytes)),
        }
    }

    fn slot(&mut self, number: usize) -> &mut Option<Page> {
        let at = number / LEAF;
        if at >= self.leaves.len() {
            self.leaves.resize(at + 1, None);
        }
        let leaf = self.leaves[at].get_or_insert_with(|| Rc::new([const { None }; LEAF]));
        &mut Rc::make_mut(leaf)[number % LEAF]
    }
}

/// Whether a page is zero; looks at the first bytes that are not, mostly.
fn is_zero(page: &[u8; PAGE]) -> bool {
    page.chunks_exact(64).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

/// A part of a run that lies in one page.
struct Part {
    page: usize,
    /// Where in the page.
    within: usize,
    /// Which bytes of the run.
    range: std::ops::Range<usize>,
}

fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let range = done..len.min(done + PAGE - within);
        done = range.end;
        Some(Part { page: (at / PAGE as u64) as usize, within, range })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_writes_read_back_as_from_plain_memory() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut plain = vec![0_u8; 3 * PAGE * LEAF];
        let mut contents = Contents::new();
        for _ in 0..2_000 {
            let at = random.usize(..plain.len());
            let len = random.usize(..=(plain.len() - at).min(5 * PAGE));
            let byte = random.u8(..3);
            plain[at..at + len].fill(byte);
            contents.write(at as u64, &vec![byte; len]);
            let at = random.usize(..plain.len());
            let len = random.usize(..=(plain.len() - at).min(5 * PAGE));
            let mut back = vec![9; len];
            contents.read(at as u64, &mut back);
            assert!(back == plain[at..at + len], "{len} bytes at {at}");
        }
    }

    #[test]
    fn a_copy_keeps_the_old_bytes_and_zeros_take_no_memory() {
        let mut contents = Contents::new();
        contents.write((1 << 40) - 4096, &[1; 4096]);
        contents.write(4096, &[2; 8192]);
        let copy = contents.clone();
        assert_eq!(copy.pages(), 3);
        contents.write(4096, &[0; 8192]);
        contents.write(1 << 30, &[0; 1 << 20]);
        assert_eq!(contents.pages(), 1);
        let mut back = [0; 3];
        copy.read(12_286, &mut back);
        assert_eq!(back, [2, 2, 0]);
    }
}
