//! The image of a slot space in a checkpoint: which old records live, and which young ones are
//! dead.
//!
//! A record found on the device lives if it is no younger than the checkpoint's mark and its
//! position is among the starts, or if it is younger and its death is not recorded. In both cases
//! the journal after the checkpoint may have recorded its death since. Everything up to the mark
//! had been flushed, so a record found at a start is the one that is meant.

use std::collections::BTreeMap;

use crate::base::wire::{Decoder, Encoder};

/// One bit per slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u8>);

impl Bits {
    fn new(slots: u32) -> Bits {
        Bits(vec![0; (slots as usize).div_ceil(8)])
    }

    pub(crate) fn set(&mut self, slot: u32) {
        self.0[slot as usize / 8] |= 1 << (slot % 8);
    }

    fn clear(&mut self, slot: u32) {
        if let Some(byte) = self.0.get_mut(slot as usize / 8) {
            *byte &= !(1 << (slot % 8));
        }
    }

    pub(crate) fn get(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 8).is_some_and(|byte| byte & 1 << (slot % 8) != 0)
    }
}

/// The image of a slot space. See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotImage {
    /// Every live record up to this sequence number had been flushed.
    pub(crate) reached: u64,
    /// The positions of those records.
    pub(crate) starts: Bits,
    /// Dead records beyond `reached`, by position: everything there up to the sequence number is
    /// dead.
    deaths: BTreeMap<u32, u64>,
    /// The positions of live objects whose replaced metadata had been flushed.
    with_meta: Bits,
    /// Objects whose replaced metadata had not been flushed: their position, and the sequence
    /// number of the newest metadata.
    refreshed: BTreeMap<u32, u64>,
}

impl SlotImage {
    pub(crate) fn new(slots: u32, reached: u64, deaths: Vec<(u32, u64)>) -> SlotImage {
        let mut image = SlotImage {
            reached,
            starts: Bits::new(slots),
            deaths: BTreeMap::new(),
            with_meta: Bits::new(slots),
            refreshed: BTreeMap::new(),
        };
        deaths.into_iter().for_each(|(position, sequence)| image.died(position, sequence));
        image
    }

    fn died(&mut self, position: u32, sequence: u64) {
        let last = self.deaths.entry(position).or_default();
        *last = (*last).max(sequence);
    }

    /// Applies the death of a record from the journal after the checkpoint.
    pub(crate) fn apply_death(&mut self, position: u32, sequence: u64) {
        if sequence <= self.reached {
            self.starts.clear(position);
        } else {
            self.died(position, sequence);
        }
    }

    /// Records that the object at `position` has new metadata, in the record with this sequence
    /// number.
    pub(crate) fn apply_refresh(&mut self, position: u32, sequence: u64) {
        if sequence <= self.reached {
            self.with_meta.set(position);
        } else {
            let newest = self.refreshed.entry(position).or_default();
            *newest = (*newest).max(sequence);
        }
    }

    /// Restricts the records up to this sequence number to those that start at these positions.
    /// Objects that must not be found without their new metadata stay so.
    pub(crate) fn restrict(&mut self, reached: u64, starts: impl Iterator<Item = u32>) {
        self.reached = reached;
        self.deaths.clear();
        self.starts.0.fill(0);
        starts.for_each(|position| self.starts.set(position));
    }

    /// Returns whether the object at `position` must not be found with its own metadata, or with
    /// those of the sequence number `meta`, because newer ones are missing. `object` is its own
    /// sequence number: a younger object has replaced the one that was refreshed.
    pub(crate) fn lacks_meta(&self, position: u32, object: u64, meta: Option<u64>) -> bool {
        let old = object <= self.reached && self.with_meta.get(position) && meta.is_none();
        let young = self
            .refreshed
            .get(&position)
            .is_some_and(|wanted| object < *wanted && meta.is_none_or(|meta| meta < *wanted));
        old || young
    }

    /// Returns whether a record with this sequence number, found at `position`, lives.
    pub(crate) fn lives(&self, position: u32, sequence: u64) -> bool {
        if sequence <= self.reached {
            self.starts.get(position)
        } else {
            self.deaths.get(&position).is_none_or(|dead| sequence > *dead)
        }
    }

    /// Returns whether no record that is found can live.
    pub(crate) fn is_empty(&self) -> bool {
        self.reached == u64::MAX
    }

    /// Returns the image of a space without live records.
    pub(crate) fn empty(slots: u32) -> SlotImage {
        SlotImage::new(slots, u64::MAX, Vec::new())
    }

    /// Grows the image to `slots` slots.
    pub(crate) fn grow(&mut self, slots: u32) {
        let len = (slots as usize).div_ceil(8);
        self.starts.0.resize(len, 0);
        self.with_meta.0.resize(len, 0);
    }

    /// Returns the size of an image with this many slots, and deaths and replaced metadata, in
    /// bytes.
    pub(crate) fn encoded_len(slots: u64, pairs: usize) -> usize {
        32 + 2 * slots.div_ceil(8) as usize + 12 * pairs
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let pairs = self.deaths.len() + self.refreshed.len();
        out.reserve(Self::encoded_len(self.starts.0.len() as u64 * 8, pairs));
        let mut fields = Encoder(out);
        fields.u64(self.reached).u64(self.starts.0.len() as u64);
        fields.u64(self.deaths.len() as u64).u64(self.refreshed.len() as u64);
        fields.bytes(&self.starts.0).bytes(&self.with_meta.0);
        for (position, sequence) in self.deaths.iter().chain(&self.refreshed) {
            fields.u32(*position).u64(*sequence);
        }
    }

    /// Decodes the image of a space of `slots` slots.
    pub(crate) fn decode(bytes: &[u8], slots: u32) -> Option<SlotImage> {
        let mut from = Decoder(bytes);
        let (reached, len) = (from.u64()?, from.u64()?);
        let (deaths, refreshed) = (from.u64()?, from.u64()?);
        if len != u64::from(slots).div_ceil(8) {
            return None;
        }
        let starts = Bits(from.bytes(len as usize)?.to_vec());
        let with_meta = Bits(from.bytes(len as usize)?.to_vec());
        let mut pairs = |count| {
            (0..count).map(|_| Some((from.u32()?, from.u64()?))).collect::<Option<BTreeMap<_, _>>>()
        };
        let (deaths, refreshed) = (pairs(deaths)?, pairs(refreshed)?);
        Some(SlotImage { reached, starts, deaths, with_meta, refreshed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_live_at_their_starts_and_the_young_until_told_dead() {
        let mut image = SlotImage::new(100, 50, vec![(7, 60), (7, 55)]);
        image.starts.set(3);
        image.starts.set(99);
        image.apply_refresh(3, 40);
        image.apply_refresh(9, 70);
        let mut bytes = Vec::new();
        image.encode(&mut bytes);
        assert_eq!(bytes.len(), SlotImage::encoded_len(100, 2));
        let mut image = SlotImage::decode(&bytes, 100).expect("whole");
        assert!(image.lives(3, 50) && image.lives(99, 1) && !image.lives(4, 50));
        assert!(!image.lives(7, 60) && image.lives(7, 61) && image.lives(8, 51));
        assert!(image.lacks_meta(3, 30, None) && !image.lacks_meta(3, 30, Some(40)));
        assert!(image.lacks_meta(9, 30, Some(69)) && !image.lacks_meta(9, 30, Some(70)));
        assert!(!image.lacks_meta(3, 51, None) && !image.lacks_meta(9, 71, None));
        image.apply_death(3, 50);
        image.apply_death(8, 51);
        assert!(!image.lives(3, 50) && !image.lives(8, 51) && image.lives(3, 51));
        let mut fewer = image.clone();
        fewer.restrict(90, [99].into_iter());
        assert!(fewer.lives(99, 1) && !fewer.lives(3, 51) && !fewer.lives(7, 61));
        assert!(fewer.lacks_meta(3, 30, None) && fewer.lives(8, 91));
        assert!(SlotImage::decode(&bytes, 101 + 8).is_none());
        assert!(SlotImage::decode(&bytes[..bytes.len() - 1], 100).is_none());
    }
}
