//! A checkpoint: the state of the space at one moment of the journal, which is the cluster table
//! with its dead records, or the image of the slots.
//!
//! Two slots are written in turn, so that one complete checkpoint always exists. A checkpoint names
//! the journal position from which recovery continues. It holds no index: recovery rebuilds that
//! from the clusters' summaries, or reads the dump of an orderly stop.

use crate::base::digest::Digest;
use crate::base::keyed_checksum::Secret;
use crate::base::wire::{Decoder, Encoder};
use crate::format::device_layout::BLOCK;
use crate::purge::purges::Purges;

const MAGIC: u32 = u32::from_le_bytes(*b"LCHK");
const HEADER_LEN: usize = 48;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Incremented for each checkpoint; its parity selects the slot.
    pub(crate) number: u64,
    /// The first journal block that is not included.
    pub(crate) journal_block: u64,
    /// The encoded cluster table or image of the slots.
    pub(crate) space: Vec<u8>,
    /// Digests removed while an earlier recovery was under way, see `Fact::Removed`.
    pub(crate) removed: Vec<(Digest, u64)>,
    /// The encoded purges in force, and their number.
    pub(crate) purges: (Vec<u8>, u32),
}

impl Checkpoint {
    /// Returns a checkpoint of a space in which nothing was removed or purged.
    pub(crate) fn of_space(number: u64, journal_block: u64, space: Vec<u8>) -> Checkpoint {
        Checkpoint { number, journal_block, space, removed: Vec::new(), purges: (Vec::new(), 0) }
    }

    /// Encoded length in bytes of a removed digest.
    pub(crate) const REMOVED_LEN: u64 = 24;

    /// Returns the length in bytes of a checkpoint with `space` bytes of space, and with this many
    /// removed digests and purges.
    pub(crate) fn len(space: usize, removed: usize, purges: usize) -> usize {
        let len = HEADER_LEN + space + removed * Self::REMOVED_LEN as usize;
        let len = len + purges * Purges::ENTRY_LEN;
        len.next_multiple_of(BLOCK as usize)
    }

    /// Returns the slot to write this checkpoint to.
    pub(crate) fn slot(&self) -> usize {
        usize::from(!self.number.is_multiple_of(2))
    }

    /// Encodes the checkpoint in whole blocks.
    pub(crate) fn encode(&self, secret: &Secret) -> Vec<u8> {
        let mut covered = Vec::with_capacity(self.space.len() + 24 * self.removed.len() + 64);
        let mut out = Encoder(&mut covered);
        out.u64(self.number).u64(self.journal_block);
        out.u64(self.space.len() as u64).u64(self.removed.len() as u64);
        out.bytes(&self.space);
        for (digest, sequence) in &self.removed {
            out.bytes(&digest.0).u64(*sequence);
        }
        out.bytes(&self.purges.0);
        let mut bytes = Vec::with_capacity(covered.len() + 16 + BLOCK as usize);
        let checksum = secret.checksum_at(self.number, &covered);
        Encoder(&mut bytes).u32(MAGIC).u32(self.purges.1).u64(checksum).bytes(&covered);
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        bytes
    }

    /// Returns the length in bytes of the checkpoint that starts with `block`; `None` when it is
    /// not one.
    pub(crate) fn encoded_len(block: &[u8]) -> Option<u64> {
        let mut from = Decoder(block);
        if from.u32()? != MAGIC {
            return None;
        }
        let purges = u64::from(from.u32()?) * Purges::ENTRY_LEN as u64;
        from.bytes(24)?;
        let (clusters, removed) = (from.u64()?, from.u64()?);
        let len = removed.checked_mul(24)?.checked_add(clusters)?.checked_add(HEADER_LEN as u64)?;
        let len = len.checked_add(purges)?;
        len.checked_next_multiple_of(BLOCK)
    }

    /// Decodes a checkpoint; returns `None` when it is damaged or not one.
    pub(crate) fn decode(secret: &Secret, bytes: &[u8]) -> Option<Checkpoint> {
        let mut from = Decoder(bytes);
        if from.u32()? != MAGIC {
            return None;
        }
        // Not covered by the checksum, but the length of the covered bytes depends on it.
        let purges_count = from.u32()?;
        let checksum = from.u64()?;
        let mut fields = Decoder(from.0);
        let (number, journal_block) = (fields.u64()?, fields.u64()?);
        let (clusters_len, removed_len) = (fields.u64()?, fields.u64()?);
        let purges_len = u64::from(purges_count) * Purges::ENTRY_LEN as u64;
        let covered =
            32_u64.checked_add(clusters_len)?.checked_add(removed_len.checked_mul(24)?)?;
        let covered = covered.checked_add(purges_len)?;
        let covered = from.0.get(..usize::try_from(covered).ok()?)?;
        if secret.checksum_at(number, covered) != checksum {
            return None;
        }
        let space = fields.bytes(usize::try_from(clusters_len).ok()?)?.to_vec();
        let removed = (0..removed_len)
            .map(|_| Some((Digest(fields.array()?), fields.u64()?)))
            .collect::<Option<Vec<_>>>()?;
        let purges = (fields.bytes(usize::try_from(purges_len).ok()?)?.to_vec(), purges_count);
        Some(Checkpoint { number, journal_block, space, removed, purges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_round_trips_and_damage_is_noticed() {
        let secret = Secret::new([2; 32]);
        let checkpoint = Checkpoint {
            number: 7,
            journal_block: 99,
            space: vec![1; 9000],
            removed: vec![(Digest([1; 16]), 5), (Digest([2; 16]), 6)],
            purges: (vec![7; 3 * Purges::ENTRY_LEN], 3),
        };
        let mut bytes = checkpoint.encode(&secret);
        assert_eq!(checkpoint.slot(), 1);
        assert_eq!(Checkpoint::encoded_len(&bytes[..4096]), Some(bytes.len() as u64));
        assert_eq!(Checkpoint::decode(&secret, &bytes), Some(checkpoint));
        bytes[4] ^= 1;
        assert_eq!(Checkpoint::decode(&secret, &bytes), None, "another number of purges");
        bytes[4] ^= 1;
        bytes[5000] ^= 1;
        assert_eq!(Checkpoint::decode(&secret, &bytes), None);
        assert_eq!(Checkpoint::decode(&secret, &bytes[..4096]), None);
        assert_eq!(Checkpoint::decode(&secret, &[]), None);
    }
}
