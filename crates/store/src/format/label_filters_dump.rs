//! The dump of the label filters at an orderly stop. It lies in the same area as the dump of the
//! index or of the records, behind that dump. A head on a block boundary is followed by the words
//! of all eras, in steps whose checksums are in the head.
//!
//! The head is bound to the generation of the superblocks, so that the dump of an earlier stop is
//! not accepted, and to the way labels are read. Without a head, or when it does not match, the
//! labels of stored objects are unknown until they have been read.

use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::purge::label_filters::{ERAS, LabelFilters};

const MAGIC: u32 = u32::from_le_bytes(*b"LBRS");
/// Length in bytes of the part before the covered bytes.
const PREFIX_LEN: usize = 16;
/// Maximum number of words in a step.
const STEP: usize = 512 << 10;

/// A range of words of an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) era: usize,
    pub(crate) first: usize,
    pub(crate) words: usize,
    /// Offset in bytes from the start of the dump.
    pub(crate) at: u64,
}

impl Step {
    pub(crate) fn encode(&self, label_filters: &LabelFilters) -> Vec<u8> {
        let words = &label_filters.eras()[self.era][self.first..self.first + self.words];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Sets the words of the step from its encoded bytes.
    pub(crate) fn decode(&self, bytes: &[u8], label_filters: &mut LabelFilters) {
        let words = &mut label_filters.eras_mut()[self.era][self.first..self.first + self.words];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        }
    }
}

/// Returns the maximum length in bytes of a dump of filters with `bytes` bytes in total, for this
/// many clusters.
pub(crate) fn bytes_for(bytes: u64, clusters: u64) -> u64 {
    let steps = bytes / 8 / STEP as u64 + ERAS as u64;
    let head = PREFIX_LEN as u64 + 128 + 24 * ERAS as u64 + clusters + 8 * steps;
    // The preceding dump may end within a block.
    BLOCK + head.next_multiple_of(BLOCK) + bytes + steps * BLOCK
}

pub(crate) struct Head {
    fields: Vec<u8>,
    pub(crate) steps: Vec<Step>,
    pub(crate) checksums: Vec<u64>,
}

impl Head {
    /// Creates the head for `label_filters`, with checksums still to be filled in. `version` is the
    /// version of the way labels are read.
    pub(crate) fn new(label_filters: &LabelFilters, version: u64) -> Head {
        let mut fields = Vec::new();
        Encoder(&mut fields).u64(version);
        label_filters.encode(&mut fields);
        let count: usize = label_filters.eras().iter().map(|era| era.len().div_ceil(STEP)).sum();
        let len = PREFIX_LEN + fields.len() + 8 * count;
        let steps = steps(label_filters, len as u64);
        Head { fields, steps, checksums: vec![0; count] }
    }

    /// Returns the length of the whole dump in bytes.
    pub(crate) fn dump_len(&self) -> u64 {
        let head = (PREFIX_LEN + self.fields.len() + 8 * self.checksums.len()) as u64;
        let end = self.steps.last().map_or(head, |step| step.at + step.words as u64 * 8);
        end.next_multiple_of(BLOCK)
    }

    pub(crate) fn encode(&self, secret: &Secret, generation: u64) -> Vec<u8> {
        let mut covered = self.fields.clone();
        for checksum in &self.checksums {
            Encoder(&mut covered).u64(*checksum);
        }
        let mut bytes = Vec::with_capacity(PREFIX_LEN + covered.len());
        let checksum = secret.checksum_at(generation, &covered);
        Encoder(&mut bytes).u32(MAGIC).u32(covered.len() as u32).u64(checksum).bytes(&covered);
        bytes
    }

    /// Returns the length in bytes of the head that starts with `block`; `None` when it is not one.
    pub(crate) fn encoded_len(block: &[u8]) -> Option<u64> {
        let mut from = Decoder(block);
        (from.u32()? == MAGIC).then_some(())?;
        Some(PREFIX_LEN as u64 + u64::from(from.u32()?))
    }

    /// Decodes the head of a dump, and the filters, still without their bits. Returns `None` when
    /// the head is damaged or does not match. It matches if its generation, its number of clusters
    /// and the `version` of its labels are these, and its filters have at most `bytes` bytes in
    /// total.
    pub(crate) fn decode(
        secret: &Secret,
        generation: u64,
        version: u64,
        bytes: u64,
        clusters: u32,
        head: &[u8],
    ) -> Option<(Head, LabelFilters)> {
        let mut from = Decoder(head);
        (from.u32()? == MAGIC).then_some(())?;
        let len = from.u32()? as usize;
        let checksum = from.u64()?;
        let covered = from.bytes(len)?;
        if secret.checksum_at(generation, covered) != checksum {
            return None;
        }
        let mut from = Decoder(covered);
        (from.u64()? == version).then_some(())?;
        let label_filters = LabelFilters::decode(&mut from, bytes, clusters)?;
        let mut head = Head::new(&label_filters, version);
        for checksum in &mut head.checksums {
            *checksum = from.u64()?;
        }
        from.0.is_empty().then_some((head, label_filters))
    }
}

/// Returns the steps of a dump with a head of `len` bytes.
fn steps(label_filters: &LabelFilters, len: u64) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), len.next_multiple_of(BLOCK));
    for (era, words) in label_filters.eras().iter().enumerate() {
        for first in (0..words.len()).step_by(STEP) {
            let words = STEP.min(words.len() - first);
            steps.push(Step { era, first, words, at });
            at = (at + words as u64 * 8).next_multiple_of(BLOCK);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    /// Returns filters that have gone through a number of eras, and the labels that are borne. A
    /// single era is larger than all eras of the smallest filters, so that half of it is too
    /// little.
    fn label_filters(random: &mut fastrand::Rng, clusters: u32) -> (LabelFilters, Vec<u64>) {
        let mut label_filters = LabelFilters::new(1 << random.u32(13..18), clusters, 5);
        if clusters > 0 {
            let used = random.u32(..clusters);
            label_filters.recount_clusters(|cluster| cluster < used);
            (0..used).for_each(|cluster| label_filters.learnt(cluster, &[]));
        }
        let labels: Vec<u64> = (0..random.usize(..9_000)).map(|_| random.u64(..)).collect();
        labels.chunks(10).for_each(|labels| label_filters.scanned(labels));
        label_filters.all_scanned(77);
        (label_filters, labels)
    }

    fn loaded(head: &Head, secret: &Secret, dump: &[u8], clusters: u32) -> Option<LabelFilters> {
        let bytes = head.encode(secret, 4);
        assert_eq!(Head::encoded_len(&bytes), Some(bytes.len() as u64));
        let (head, mut label_filters) = Head::decode(secret, 4, 9, 1 << 18, clusters, &bytes)?;
        for (step, checksum) in head.steps.iter().zip(&head.checksums) {
            let bytes = &dump[step.at as usize..][..step.words * 8];
            assert_eq!(secret.checksum(bytes), *checksum);
            step.decode(bytes, &mut label_filters);
        }
        Some(label_filters)
    }

    #[test]
    fn filters_come_back_as_they_were() {
        let secret = Secret::new([8; 32]);
        for seed in seeds("bearers_dump::filters_come_back", 50) {
            let mut random = fastrand::Rng::with_seed(seed);
            let clusters = if random.bool() { 0 } else { random.u32(1..5_000) };
            let (label_filters, labels) = label_filters(&mut random, clusters);
            let mut head = Head::new(&label_filters, 9);
            let mut dump = vec![0; head.dump_len() as usize];
            for (step, checksum) in head.steps.iter().zip(&mut head.checksums) {
                assert!(step.at.is_multiple_of(BLOCK));
                let bytes = step.encode(&label_filters);
                *checksum = secret.checksum(&bytes);
                dump[step.at as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            let all = 8 * label_filters.eras().iter().map(|era| era.len() as u64).sum::<u64>();
            assert!(head.dump_len() + BLOCK <= bytes_for(all, clusters.into()));
            let mut back = loaded(&head, &secret, &dump, clusters).expect("whole");
            assert_eq!(back.eras(), label_filters.eras(), "seed {seed}");
            back.recount_slots(Some(6));
            assert!(labels.iter().all(|label| back.may_be_borne(*label)), "seed {seed}");
            let foreign = (0..1_000).filter(|_| back.may_be_borne(random.u64(..))).count();
            let full = labels.len() as u64 * 12 > all * 8;
            assert!(full || foreign < 200, "{foreign}, seed {seed}");
            // A head of another stop, read in another way, of other clusters, or too large is
            // rejected.
            let mut bytes = head.encode(&secret, 4);
            let decode = |generation, version, max, clusters, bytes: &[u8]| {
                Head::decode(&secret, generation, version, max, clusters, bytes).is_some()
            };
            assert!(decode(4, 9, 1 << 18, clusters, &bytes));
            assert!(!decode(3, 9, 1 << 18, clusters, &bytes));
            assert!(!decode(4, 8, 1 << 18, clusters, &bytes));
            assert!(!decode(4, 9, 1 << 18, clusters + 1, &bytes));
            assert!(!decode(4, 9, all / 2, clusters, &bytes));
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
            assert!(!decode(4, 9, 1 << 18, clusters, &bytes), "byte {at}, seed {seed}");
        }
    }
}
