//! Contents of a simulated device, as sparse pages that are shared copy-on-write. A device of a
//! terabyte costs only the bytes written to it, and a snapshot after a crash is a cheap clone. A
//! page keeps only its nonzero lines: where bodies are elided, that is a header or two.
//!
//! Guarantees: bytes that were never written, or were written as zeros, read as zero and take no
//! memory.

use std::rc::Rc;

/// Bytes of a page: the smallest unit that the engine writes.
const PAGE: usize = 4096;
/// Pages of a leaf, which is one allocation of the page table.
const LEAF: usize = 256;

/// Bytes of a line, the unit that a page keeps or omits.
const LINE: usize = PAGE / u64::BITS as usize;

#[derive(Clone)]
struct Lines {
    /// One bit for each nonzero line.
    mask: u64,
    /// The nonzero lines, in order.
    kept: Vec<[u8; LINE]>,
}

type Page = Rc<Lines>;
type Leaf = Rc<[Option<Page>; LEAF]>;

/// Contents of a linear space. A clone copies one pointer for each mebibyte.
#[derive(Clone, Default)]
pub struct Contents {
    leaves: Vec<Option<Leaf>>,
}

impl Contents {
    /// Returns contents that are all zero.
    pub fn new() -> Contents {
        Contents::default()
    }

    /// Reads the bytes at `offset` into `into`, at any alignment.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for part in parts(offset, into.len()) {
            let bytes = &mut into[part.range];
            match self.page(part.page) {
                Some(page) => page.read(part.within, bytes),
                None => bytes.fill(0),
            }
        }
    }

    /// Writes `from` at `offset`, at any alignment.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for part in parts(offset, from.len()) {
            let bytes = &from[part.range];
            if bytes.len() == PAGE {
                self.put(part.page, bytes.try_into().expect("a whole page"));
                continue;
            }
            let mut whole = [0; PAGE];
            if let Some(page) = self.page(part.page) {
                page.read(0, &mut whole);
            }
            whole[part.within..][..bytes.len()].copy_from_slice(bytes);
            self.put(part.page, &whole);
        }
    }

    /// Returns the number of pages that take memory.
    pub fn pages(&self) -> usize {
        self.leaves.iter().flatten().map(|leaf| leaf.iter().flatten().count()).sum()
    }

    /// Returns the number of bytes that the pages keep.
    pub fn bytes(&self) -> usize {
        let pages = self.leaves.iter().flatten().flat_map(|leaf| leaf.iter().flatten());
        pages.map(|page| page.kept.len() * LINE).sum()
    }

    fn page(&self, number: usize) -> Option<&Lines> {
        let leaf = self.leaves.get(number / LEAF)?.as_ref()?;
        leaf[number % LEAF].as_deref()
    }

    fn put(&mut self, number: usize, bytes: &[u8; PAGE]) {
        let mask = mask_of(bytes);
        if mask == 0 {
            if self.page(number).is_some() {
                *self.slot(number) = None;
            }
            return;
        }
        let slot = self.slot(number);
        // The page is not shared, so it is overwritten in place.
        match slot.as_mut().and_then(Rc::get_mut) {
            Some(page) => page.set(mask, bytes),
            None => {
                let mut page = Lines { mask: 0, kept: Vec::new() };
                page.set(mask, bytes);
                *slot = Some(Rc::new(page));
            }
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

impl Lines {
    /// Replaces the page with `bytes`; `mask` is the mask of its nonzero lines.
    fn set(&mut self, mask: u64, bytes: &[u8; PAGE]) {
        let (lines, _) = bytes.as_chunks::<LINE>();
        self.mask = mask;
        self.kept.clear();
        // There are many pages, so none keeps spare capacity.
        self.kept.shrink_to(mask.count_ones() as usize);
        self.kept.reserve_exact(mask.count_ones() as usize);
        match mask {
            u64::MAX => self.kept.extend_from_slice(lines),
            _ => self.kept.extend(bits(mask).map(|line| lines[line])),
        }
    }

    /// Reads the bytes at offset `within` of the page into `into`.
    fn read(&self, within: usize, into: &mut [u8]) {
        if self.mask == u64::MAX {
            into.copy_from_slice(&self.kept.as_flattened()[within..][..into.len()]);
            return;
        }
        into.fill(0);
        for (line, kept) in bits(self.mask).zip(&self.kept) {
            let at = line * LINE;
            let (from, to) = (at.max(within), (at + LINE).min(within + into.len()));
            if from < to {
                into[from - within..to - within].copy_from_slice(&kept[from - at..to - at]);
            }
        }
    }
}

/// Returns the mask of a page: one bit for each nonzero line.
fn mask_of(page: &[u8; PAGE]) -> u64 {
    let (lines, _) = page.as_chunks::<LINE>();
    (0..).zip(lines).fold(0, |mask, (number, line)| {
        let (words, _) = line.as_chunks::<8>();
        let any = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
        mask | u64::from(any != 0) << number
    })
}

/// Returns the positions of the set bits, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < u64::BITS as usize).then_some(bit)
    })
}

/// The part of a byte run that lies in one page.
struct Part {
    page: usize,
    /// Offset in the page.
    within: usize,
    /// Position of the part in the run.
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
            let len = if random.bool() { len } else { len.min(200) };
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
        assert_eq!((copy.bytes(), contents.bytes()), (3 * PAGE, PAGE));
        contents.write(4096 + 1000, &[7; 100]);
        assert_eq!(contents.bytes(), PAGE + 3 * LINE);
    }
}
