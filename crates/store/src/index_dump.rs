//! The index as it was at an orderly stop: a header block, then the buckets in steps of 4 MiB,
//! each with its checksum in the header.

use crate::areas::BLOCK;
use crate::index::Index;
use crate::secret::Secret;
use crate::wire::{Decoder, Encoder};

const MAGIC: u32 = u32::from_le_bytes(*b"LIDX");
const HEADER_LEN: usize = 32;
/// Bytes of a step.
const STEP: u64 = 4 << 20;

/// A run of bytes of the dump, counted from the first bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// The first block of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Buckets of the index.
    pub(crate) buckets: u64,
    /// One for each step.
    pub(crate) checksums: Vec<u64>,
}

impl Header {
    /// A header for an index of `buckets` buckets, its checksums still to be entered; `None` when
    /// they do not fit (more than 2 GiB: such an index is rebuilt from summaries).
    pub(crate) fn new(buckets: usize) -> Option<Header> {
        let bytes = buckets.checked_mul(Index::BUCKET_BYTES)? as u64;
        let steps = bytes.div_ceil(STEP) as usize;
        let fits = HEADER_LEN + 8 * steps <= BLOCK as usize;
        fits.then(|| Header { buckets: buckets as u64, checksums: vec![0; steps] })
    }

    /// The bytes of step `number`.
    pub(crate) fn step(&self, number: usize) -> Step {
        let start = number as u64 * STEP;
        let bytes = self.buckets * Index::BUCKET_BYTES as u64;
        Step { start, len: STEP.min(bytes.saturating_sub(start)) }
    }

    /// One block.
    pub(crate) fn encode(&self, secret: &Secret) -> Vec<u8> {
        let mut covered = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut covered);
        out.u64(self.buckets).u64(self.checksums.len() as u64);
        for checksum in &self.checksums {
            out.u64(*checksum);
        }
        covered.resize(BLOCK as usize - 16, 0);
        let mut bytes = Vec::with_capacity(BLOCK as usize);
        Encoder(&mut bytes).u32(MAGIC).u32(0).u64(secret.checksum(&covered)).bytes(&covered);
        bytes
    }

    /// Reads the block; `None` when it is damaged or none.
    pub(crate) fn decode(secret: &Secret, bytes: &[u8]) -> Option<Header> {
        let mut from = Decoder(bytes);
        if from.u32()? != MAGIC {
            return None;
        }
        from.u32()?;
        let checksum = from.u64()?;
        if secret.checksum(from.0) != checksum {
            return None;
        }
        let (buckets, steps) = (from.u64()?, from.u64()?);
        let checksums = (0..steps).map(|_| from.u64()).collect::<Option<Vec<u64>>>()?;
        let expected = Header::new(usize::try_from(buckets).ok()?)?;
        (expected.checksums.len() == checksums.len()).then_some(Header { buckets, checksums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        let secret = Secret::new([8; 32]);
        let mut header = Header::new(200_000).expect("fits");
        header.checksums.iter_mut().zip(1..).for_each(|(sum, value)| *sum = value);
        let mut bytes = header.encode(&secret);
        assert_eq!(Header::decode(&secret, &bytes), Some(header.clone()));
        let bytes_of_steps: u64 = (0..header.checksums.len()).map(|n| header.step(n).len).sum();
        assert_eq!(bytes_of_steps, 200_000 * Index::BUCKET_BYTES as u64);
        bytes[40] ^= 1;
        assert_eq!(Header::decode(&secret, &bytes), None);
    }
}
