//! The slots of SQUIDML's memory-mapped files: five sizes, each with a clock hand.
//!
//! A size takes regions of the mapped space as it needs slots. When none is left it replaces its
//! own objects: the hand skips a slot that was used since its last pass, subtracting one use each
//! time, and takes the first slot without uses.
//!
//! This is pure bookkeeping.

use std::collections::HashMap;

/// Slot sizes in bytes.
pub(super) const SIZES: [u64; 5] = [512, 1_024, 2_048, 4_096, 8_192];

/// Bytes of a region that a size takes at a time.
pub(super) const REGION: u64 = 1 << 20;

/// Maximum number of uses counted per object.
const MOST_USES: u8 = 7;

pub(super) struct Segments {
    sizes: [Size; 5],
    /// Number of regions that sizes have taken.
    regions: u32,
    all_regions: u32,
    held: HashMap<u32, Held>,
}

#[derive(Default)]
struct Size {
    regions: Vec<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    object: u32,
    uses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) version: u32,
    size: usize,
    slot: u32,
}

/// The slot found for a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Offset in the mapped space, in bytes.
    pub(super) offset: u64,
    pub(super) replaced: bool,
}

impl Segments {
    /// Creates empty slots on `bytes` bytes, of which whole regions are used.
    pub(super) fn new(bytes: u64) -> Segments {
        let all_regions = u32::try_from(bytes / REGION).unwrap_or(u32::MAX);
        Segments { sizes: Default::default(), regions: 0, all_regions, held: HashMap::new() }
    }

    /// Returns the slot of an object, if it is there.
    pub(super) fn find(&self, object: u32) -> Option<Held> {
        self.held.get(&object).copied()
    }

    /// Returns the offset of a slot in the mapped space.
    pub(super) fn offset(&self, held: Held) -> u64 {
        let per_region = REGION / SIZES[held.size];
        let slot = u64::from(held.slot);
        let region = self.sizes[held.size].regions[(slot / per_region) as usize];
        u64::from(region) * REGION + slot % per_region * SIZES[held.size]
    }

    pub(super) fn touch(&mut self, held: Held) {
        if let Some(slot) = &mut self.sizes[held.size].slots[held.slot as usize] {
            slot.uses = (slot.uses + 1).min(MOST_USES);
        }
    }

    pub(super) fn remove(&mut self, object: u32) {
        let Some(held) = self.held.remove(&object) else { return };
        self.sizes[held.size].slots[held.slot as usize] = None;
        self.sizes[held.size].free.push(held.slot);
    }

    /// Finds a slot for an object that is not held. Returns `None` if it is larger than any slot,
    /// or if its size has no slot and no region is left.
    pub(super) fn place(&mut self, object: u32, version: u32, bytes: u64) -> Option<Placed> {
        let size = SIZES.iter().position(|size| bytes <= *size)?;
        let mut replaced = false;
        if self.sizes[size].free.is_empty() {
            if self.regions < self.all_regions {
                self.sizes[size].grow(self.regions, REGION / SIZES[size]);
                self.regions += 1;
            } else {
                let victim = self.sizes[size].victim()?;
                self.remove(victim);
                replaced = true;
            }
        }
        let slot = self.sizes[size].free.pop()?;
        self.sizes[size].slots[slot as usize] = Some(Slot { object, uses: 0 });
        let held = Held { version, size, slot };
        let before = self.held.insert(object, held);
        assert!(before.is_none(), "object {object} is not held");
        Some(Placed { offset: self.offset(held), replaced })
    }
}

impl Size {
    fn grow(&mut self, region: u32, slots: u64) {
        let first = self.slots.len() as u32;
        self.regions.push(region);
        self.slots.resize(self.slots.len() + slots as usize, None);
        // Reversed, so that the first slot is taken first.
        self.free.extend((first..first + slots as u32).rev());
    }

    /// Returns the object that the hand replaces next; all slots are used.
    fn victim(&mut self) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            match &mut self.slots[at] {
                Some(slot) if slot.uses > 0 => slot.uses -= 1,
                Some(slot) => return Some(slot.object),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_spares_what_was_used() {
        let mut segments = Segments::new(2 * REGION + 5);
        let slots = (REGION / 8_192) as u32;
        for object in 0..slots {
            let placed = segments.place(object, 0, 8_000).unwrap();
            assert_eq!(placed, Placed { offset: u64::from(object) * 8_192, replaced: false });
        }
        // Another size takes the other region; then none is left.
        assert_eq!(segments.place(1_000, 0, 500).unwrap().offset, REGION);
        assert_eq!(segments.place(1_001, 0, 1_000), None);
        for object in [0, 0, 2] {
            segments.touch(segments.find(object).unwrap());
        }
        let mut replace = |object| {
            let placed = segments.place(object, 0, 5_000).unwrap();
            assert!(placed.replaced);
            placed.offset / 8_192
        };
        assert_eq!([replace(2_000), replace(2_001), replace(2_002)], [1, 3, 4]);
        assert_eq!(segments.find(1), None);
        segments.remove(2_000);
        let placed = segments.place(2_003, 4, 8_192).unwrap();
        assert_eq!(placed, Placed { offset: 8_192, replaced: false });
        assert_eq!(segments.find(2_003).unwrap().version, 4);
        assert_eq!(segments.place(3_000, 0, 8_193), None);
    }
}
