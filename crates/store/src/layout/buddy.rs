//! BUDDY (systems M4): objects of one size lie together, so that a freed place fits the next object
//! of that size exactly.
//!
//! The precise rule: an object of n slots, up to the threshold, belongs to size class n. A class
//! owns *regions*, aligned stretches of the space that are divided into places of n slots. The
//! object takes the class's free place with the lowest position. If all are taken, the lowest
//! completely free region joins the class; a region without objects is returned. In the paper a
//! class is a file of its own and grows as the disk allows; here its regions form that chain.
//!
//! An object above the threshold, a separate file in the paper, is an extent: as many whole units
//! of [`UNIT`] slots as it needs, at the highest position where they are free side by side. Extents
//! grow from the end of the space and regions from its start, so they collide late.
//!
//! Slots that a class or an extent cannot use, at the end of a region or of the last unit, count as
//! lost. An object is refused if its class has no free place and no region is free, however many
//! places other classes have. This is the price of never moving data: the eviction that follows
//! must free a place of this class or a whole region.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{Layout, Run, SlotMap, Space};

/// Slots in a unit, the granularity of extents. A region is a multiple of it.
pub const UNIT: u32 = 8;

/// The use of a region.
#[derive(Clone, Copy, Default)]
struct Region {
    /// Slots in a place; 0 if the region belongs to no class.
    class: u16,
    /// Number of places in use.
    used: u16,
}

/// The BUDDY allocator. See the module documentation.
pub struct Buddy {
    space: Space,
    /// Slots in a place of the largest class.
    threshold: u32,
    /// Slots in a region.
    region: u32,
    map: SlotMap,
    /// Free units: those that belong to neither a region nor an extent.
    pool: SlotMap,
    regions: Vec<Region>,
    /// Class and number of each region of a class that has a free place.
    room: BTreeSet<(u16, u32)>,
    /// No region below this one is completely free.
    pool_from: u32,
    lost: u32,
}

/// Returns a suitable region size for a space, in slots. It is a thousandth of the space, so that
/// one half-empty region per class is acceptable, but at least one place of the largest class. It
/// is at most 2,048 unless the threshold requires more: with 2,048 slots, less than an eighth of a
/// region is lost in any class up to 256.
pub fn region_for(slots: u32, threshold: u32) -> u32 {
    let wished = (slots / 1024).max(1).next_power_of_two().min(2048);
    wished.max(threshold.next_multiple_of(UNIT))
}

impl Buddy {
    /// Returns an empty space with classes up to `threshold` slots and regions of `region` slots.
    /// `region` is at least the threshold, at most 65,528 and a multiple of `UNIT`.
    pub fn new(space: Space, threshold: u32, region: u32) -> Buddy {
        space.check();
        assert!(threshold > 0 && threshold <= region, "a region holds a place of every class");
        assert!(region.is_multiple_of(UNIT) && region <= 65_528, "a region of {region} slots");
        let mut buddy = Buddy {
            space,
            threshold,
            region,
            map: SlotMap::new(space.slots),
            pool: SlotMap::new(space.slots / UNIT),
            regions: vec![Region::default(); (space.slots / region) as usize],
            room: BTreeSet::new(),
            pool_from: 0,
            lost: 0,
        };
        buddy.lose(buddy.last_rest());
        buddy
    }

    /// Returns the slots at the end of the space that do not fill a unit.
    fn last_rest(&self) -> Run {
        let len = self.space.slots % UNIT;
        Run { first: self.space.slots - len, len }
    }

    fn lose(&mut self, rest: Run) {
        if rest.len > 0 {
            self.map.take(rest);
            self.lost += rest.len;
        }
    }

    fn find(&mut self, rest: Run) {
        if rest.len > 0 {
            self.map.give(rest);
            self.lost -= rest.len;
        }
    }

    /// Returns the units of a region.
    fn units_of(&self, region: u32) -> Run {
        let len = self.region / UNIT;
        Run { first: region * len, len }
    }

    /// Returns the slots of a region behind its last place.
    fn rest_of(&self, region: u32, class: u32) -> Run {
        let len = self.region % class;
        Run { first: (region + 1) * self.region - len, len }
    }

    /// Returns the lowest completely free region.
    fn free_region(&mut self) -> Option<u32> {
        let count = self.regions.len() as u32;
        while self.pool_from < count {
            if self.pool.is_free_run(self.units_of(self.pool_from)) {
                return Some(self.pool_from);
            }
            let behind = self.units_of(self.pool_from).end();
            let next = self.pool.next_free(behind);
            self.pool_from = next.map_or(count, |unit| unit * UNIT / self.region);
        }
        None
    }

    /// Assigns a completely free region to a class.
    fn open_region(&mut self, region: u32, class: u32) {
        self.pool.take(self.units_of(region));
        self.lose(self.rest_of(region, class));
        self.regions[region as usize] = Region { class: class as u16, used: 0 };
        self.room.insert((class as u16, region));
    }

    /// Takes a free place in a region of a class.
    fn take_place(&mut self, region: u32, run: Run) {
        self.map.take(run);
        let entry = &mut self.regions[region as usize];
        entry.used += 1;
        if u32::from(entry.used) == self.region / run.len {
            self.room.remove(&(entry.class, region));
        }
    }

    fn place_in_class(&mut self, class: u32) -> Option<Run> {
        let key = class as u16;
        let region = match self.room.range((key, 0)..=(key, u32::MAX)).next() {
            Some((_, region)) => *region,
            None => {
                let region = self.free_region()?;
                self.open_region(region, class);
                region
            }
        };
        // Only whole places are taken, so the first free slot starts a place.
        let first = self.map.next_free(region * self.region)?;
        let run = Run { first, len: class };
        self.take_place(region, run);
        Some(run)
    }

    fn place_extent(&mut self, slots: u32) -> Option<Run> {
        let units = slots.div_ceil(UNIT);
        let mut from = self.pool.slots();
        while let Some(last) = from.checked_sub(1).and_then(|from| self.pool.previous_free(from)) {
            let first = self.pool.start_of_free(last);
            if last - first + 1 >= units {
                let run = Run { first: (last + 1 - units) * UNIT, len: slots };
                self.take_extent(run);
                return Some(run);
            }
            from = first;
        }
        None
    }

    /// Returns the units of an extent, and the unused slots of its last unit.
    fn units_and_rest(run: Run) -> (Run, Run) {
        let units = Run { first: run.first / UNIT, len: run.len.div_ceil(UNIT) };
        (units, Run { first: run.end(), len: units.len * UNIT - run.len })
    }

    fn take_extent(&mut self, run: Run) {
        let (units, rest) = Buddy::units_and_rest(run);
        self.pool.take(units);
        self.map.take(run);
        self.lose(rest);
    }

    fn release_extent(&mut self, run: Run) {
        let (units, rest) = Buddy::units_and_rest(run);
        self.find(rest);
        self.map.give(run);
        self.pool.give(units);
        self.pool_from = self.pool_from.min(run.first / self.region);
    }

    fn release_place(&mut self, run: Run) {
        let region = run.first / self.region;
        let entry = &mut self.regions[region as usize];
        let class = entry.class;
        assert!(u32::from(class) == run.len, "{run:?} is a place of class {class}");
        entry.used -= 1;
        self.map.give(run);
        if entry.used > 0 {
            self.room.insert((class, region));
            return;
        }
        *entry = Region::default();
        self.room.remove(&(class, region));
        self.find(self.rest_of(region, run.len));
        self.pool.give(self.units_of(region));
        self.pool_from = self.pool_from.min(region);
    }

    fn occupy_place(&mut self, run: Run) -> bool {
        let (region, offset) = (run.first / self.region, run.first % self.region);
        let Some(entry) = self.regions.get(region as usize) else { return false };
        let is_place = offset.is_multiple_of(run.len) && offset + run.len <= self.region;
        if !is_place || !self.map.is_free_run(run) {
            return false;
        }
        if entry.class == 0 {
            if !self.pool.is_free_run(self.units_of(region)) {
                return false;
            }
            self.open_region(region, run.len);
        } else if u32::from(entry.class) != run.len {
            return false;
        }
        self.take_place(region, run);
        true
    }
}

impl Layout for Buddy {
    /// Does nothing: an object's place follows from its size.
    fn seek(&mut self, _slots: u32) {}

    fn place(&mut self, bytes: u64, runs: &mut Vec<Run>) -> bool {
        assert!(bytes > 0, "an object has bytes");
        let Some(needed) = self.space.slots_for(bytes) else { return false };
        let run = if needed <= self.threshold {
            self.place_in_class(needed)
        } else {
            self.place_extent(needed)
        };
        runs.extend(run);
        run.is_some()
    }

    fn release(&mut self, run: Run) {
        if run.len <= self.threshold { self.release_place(run) } else { self.release_extent(run) }
    }

    /// Occupies a place or an extent. A place opens its region for its class if the region is
    /// completely free.
    fn occupy(&mut self, run: Run) -> bool {
        if run.len == 0 {
            return false;
        }
        if run.len <= self.threshold {
            return self.occupy_place(run);
        }
        let fits = run.first.is_multiple_of(UNIT) && self.map.is_free_run(run);
        let free = fits && self.pool.is_free_run(Buddy::units_and_rest(run).0);
        if free {
            self.take_extent(run);
        }
        free
    }

    /// Does nothing: this layout has no position.
    fn resume_at(&mut self, _slot: u32) {}

    fn grow(&mut self, slots: u32) {
        self.find(self.last_rest());
        self.map.grow(slots);
        self.pool.grow(slots / UNIT);
        self.regions.resize((slots / self.region) as usize, Region::default());
        self.space.slots = slots;
        self.lose(self.last_rest());
    }

    fn map(&self) -> &SlotMap {
        &self.map
    }

    fn lost_slots(&self) -> u32 {
        self.lost
    }

    fn memory_bytes(&self) -> usize {
        // Size of a set element, plus its share of a tree node that is two thirds full.
        let room = self.room.len() * size_of::<(u16, u32)>() * 3 / 2;
        let regions = self.regions.capacity() * size_of::<Region>();
        self.map.memory_bytes() + self.pool.memory_bytes() + regions + room
    }
}
