//! The dump of the index at an orderly stop: a header block, then the buckets in steps of at most 4
//! MiB, whose checksums are in the header. The header's magic names the kind of index.

use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::index::{Index, IndexKind};

const HEADER_LEN: usize = 32;
/// Maximum length of a step in bytes.
const STEP: u64 = 4 << 20;

fn magic(kind: IndexKind) -> u32 {
    u32::from_le_bytes(*match kind {
        IndexKind::Compact => b"LIDX",
        IndexKind::Exact => b"LIDE",
    })
}

/// A range of bytes of the dump, counted from the first bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// The contents of the first block of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: IndexKind,
    /// Number of buckets of the index.
    pub(crate) buckets: u64,
    pub(crate) checksums: Vec<u64>,
}

impl Header {
    /// Creates the header for an index of `buckets` buckets, with checksums still to be filled in.
    /// Returns `None` when they do not fit (more than 2 GiB: such an index is rebuilt from
    /// summaries).
    pub(crate) fn new(kind: IndexKind, buckets: usize) -> Option<Header> {
        let mut header = Header { kind, buckets: buckets as u64, checksums: Vec::new() };
        let steps = header.buckets.checked_mul(header.bucket_bytes())?.div_ceil(header.step_len());
        let fits = HEADER_LEN as u64 + 8 * steps <= BLOCK;
        header.checksums = vec![0; if fits { steps as usize } else { 0 }];
        fits.then_some(header)
    }

    /// Returns the length of the whole dump on the device in bytes.
    pub(crate) fn dump_len(&self) -> u64 {
        BLOCK + (self.buckets * self.bucket_bytes()).next_multiple_of(BLOCK)
    }

    /// Returns the first bucket of step `number`.
    pub(crate) fn first_bucket(&self, number: usize) -> usize {
        (self.step(number).start / self.bucket_bytes()) as usize
    }

    fn bucket_bytes(&self) -> u64 {
        Index::bucket_bytes(self.kind) as u64
    }

    /// Returns the length of a step in bytes: whole buckets and whole blocks.
    fn step_len(&self) -> u64 {
        let unit = self.bucket_bytes() * BLOCK;
        STEP / unit * unit
    }

    /// Returns the byte range of step `number`.
    pub(crate) fn step(&self, number: usize) -> Step {
        let start = number as u64 * self.step_len();
        let bytes = self.buckets * self.bucket_bytes();
        Step { start, len: self.step_len().min(bytes.saturating_sub(start)) }
    }

    /// Encodes the header as one block.
    pub(crate) fn encode(&self, secret: &Secret) -> Vec<u8> {
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut covered);
        out.u64(self.buckets).u64(self.checksums.len() as u64);
        for checksum in &self.checksums {
            out.u64(*checksum);
        }
        covered.resize(BLOCK as usize - 16, 0);
        let mut bytes = Vec::with_capacity(BLOCK as usize);
        Encoder(&mut bytes)
            .u32(magic(self.kind))
            .u32(0)
            .u64(secret.checksum(&covered))
            .bytes(&covered);
        bytes
    }

    /// Decodes the header block; returns `None` when it is damaged or not one.
    pub(crate) fn decode(secret: &Secret, bytes: &[u8]) -> Option<Header> {
        let mut from = Decoder(bytes);
        let found = from.u32()?;
        let kind = IndexKind::ALL.into_iter().find(|kind| magic(*kind) == found)?;
        from.u32()?;
        let checksum = from.u64()?;
        if secret.checksum(from.0) != checksum {
            return None;
        }
        let (buckets, steps) = (from.u64()?, from.u64()?);
        let checksums = (0..steps).map(|_| from.u64()).collect::<Option<Vec<u64>>>()?;
        let expected = Header::new(kind, usize::try_from(buckets).ok()?)?;
        let fits = expected.checksums.len() == checksums.len();
        fits.then_some(Header { kind, buckets, checksums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        for kind in IndexKind::ALL {
            let secret = Secret::new([8; 32]);
            let mut header = Header::new(kind, 200_000).expect("fits");
            header.checksums.iter_mut().zip(1..).for_each(|(sum, value)| *sum = value);
            let mut bytes = header.encode(&secret);
            assert_eq!(Header::decode(&secret, &bytes), Some(header.clone()));
            let steps = 0..header.checksums.len();
            let all: u64 = steps.clone().map(|number| header.step(number).len).sum();
            assert_eq!(all, 200_000 * Index::bucket_bytes(kind) as u64);
            // Steps are written separately: each starts on a block and on a bucket.
            for number in steps {
                let start = header.step(number).start;
                assert!(start.is_multiple_of(BLOCK));
                let first = header.first_bucket(number) as u64;
                assert_eq!(first * Index::bucket_bytes(kind) as u64, start);
            }
            bytes[40] ^= 1;
            assert_eq!(Header::decode(&secret, &bytes), None);
        }
    }
}
