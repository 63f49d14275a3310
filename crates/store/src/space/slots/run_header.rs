//! The header of each run after the first, of a record that lies in several runs (systems M6). The
//! headers link the runs: each names the next. The first run's header is the record's own.

use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};
use crate::layout::Run;

/// Size of the header, in bytes.
pub(crate) const RUN_HEADER_LEN: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"LRUN");

/// Identifies the record that a run belongs to, and the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunHeader {
    pub(crate) sequence: u64,
    pub(crate) run: Run,
    /// The first slot of the next run.
    pub(crate) next: Option<u32>,
}

impl RunHeader {
    pub(crate) fn encode(&self, secret: &Secret) -> [u8; RUN_HEADER_LEN] {
        let mut covered = Vec::with_capacity(RUN_HEADER_LEN);
        let mut out = Encoder(&mut covered);
        out.u64(self.sequence).u32(self.run.len);
        out.u32(u32::from(self.next.is_some())).u32(self.next.unwrap_or(0));
        let sum = secret.checksum_at(u64::from(self.run.first), &covered);
        let mut bytes = Vec::with_capacity(RUN_HEADER_LEN);
        Encoder(&mut bytes).u32(MAGIC).u64(sum).bytes(&covered);
        bytes.try_into().expect("the fields are 32 bytes")
    }

    /// Decodes the header of the run that starts at slot `first`.
    pub(crate) fn decode(secret: &Secret, first: u32, bytes: &[u8]) -> Option<RunHeader> {
        let mut from = Decoder(bytes.get(..RUN_HEADER_LEN)?);
        if from.u32()? != MAGIC {
            return None;
        }
        let sum = from.u64()?;
        if secret.checksum_at(u64::from(first), from.0) != sum {
            return None;
        }
        let (sequence, len) = (from.u64()?, from.u32()?);
        let (more, next) = (from.u32()? == 1, from.u32()?);
        let run = Run { first, len };
        (len > 0).then_some(RunHeader { sequence, run, next: more.then_some(next) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_believed_where_it_was_written() {
        let secret = Secret::new([3; 32]);
        let run = Run { first: 9, len: 4 };
        for next in [None, Some(0), Some(70)] {
            let header = RunHeader { sequence: 1 << 41, run, next };
            let mut bytes = header.encode(&secret);
            assert_eq!(RunHeader::decode(&secret, 9, &bytes), Some(header));
            assert_eq!(RunHeader::decode(&secret, 8, &bytes), None);
            for at in 0..RUN_HEADER_LEN {
                bytes[at] ^= 4;
                assert_eq!(RunHeader::decode(&secret, 9, &bytes), None);
                bytes[at] ^= 4;
            }
        }
    }
}
