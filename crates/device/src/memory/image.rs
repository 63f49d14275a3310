//! The contents of a device held in memory: sparse pages that copies share until one of them
//! changes, so that a test can fork a device at every step of a history.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: usize = 64 << 10;

/// Contents of a linear space. Bytes that were never written are zero.
#[derive(Clone, Default)]
pub(crate) struct Image {
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// Fills `into` with the bytes at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (page, within, part) in parts(offset, into.len()) {
            match self.pages.get(&page) {
                Some(bytes) => {
                    let len = part.len();
                    into[part].copy_from_slice(&bytes[within..within + len]);
                }
                None => into[part].fill(0),
            }
        }
    }

    /// Writes `from` at `offset`.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for (page, within, part) in parts(offset, from.len()) {
            let bytes = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            let len = part.len();
            Arc::make_mut(bytes)[within..within + len].copy_from_slice(&from[part]);
        }
    }
}

/// Splits a range at page boundaries: page number, offset within the page, part of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = done..len.min(done + PAGE - within);
        done = part.end;
        Some((at / PAGE as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_over_page_boundaries_reads_back_and_a_fork_keeps_the_old_bytes() {
        let mut image = Image::default();
        let bytes: Vec<u8> = (0..3 * PAGE).map(|i| (i % 251) as u8).collect();
        image.write(PAGE as u64 - 7, &bytes);
        let fork = image.clone();
        image.write(2 * PAGE as u64, &[0xee; 10]);
        let mut back = vec![1; bytes.len() + 14];
        fork.read(PAGE as u64 - 14, &mut back);
        assert_eq!(back[..7], [0; 7]);
        assert_eq!(back[7..7 + bytes.len()], bytes);
        image.read(2 * PAGE as u64, &mut back[..11]);
        assert_eq!(back[..10], [0xee; 10]);
        assert_eq!(back[10], bytes[PAGE + 7 + 10]);
    }
}
