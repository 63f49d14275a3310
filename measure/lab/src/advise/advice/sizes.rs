//! The sizes of disk and memory: those that cost least together, within the limits.

use store::{CACHE_SIZE_MIN, FormatOptions, IndexOptions, MEAN_OBJECT};

use super::prices::{Priced, Prices};
use super::{Curves, Goal, HitRatio, Part, RECORD};
use workload::trace::statistics::Summary;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
/// The smallest memory that a server accepts.
const MEMORY_MIN: u64 = 16 * M;
/// The share of memory (1/32) that an oversized index may take without a mean object being advised.
const LITTLE: u64 = 32;
/// Smallest and largest mean object, in bytes, that a cache can be sized for.
const MEAN_OBJECTS: [u64; 2] = [512, 16 * M];

/// The limits within which sizes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of memory; `None`: as much as helps.
    pub memory: Option<u64>,
    /// Maximum bytes of disk; `None`: as much as helps.
    pub disk: Option<u64>,
    /// Size of the drive in bytes.
    pub drive: u64,
}

/// The limits leave nothing to advise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAdvice(pub(super) String);

/// The bound that determined a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// More would cost more than it saves.
    Price,
    /// The limit.
    Limit,
    /// The smallest size that works or that the index needs.
    Least,
}

/// The chosen sizes and the bounds that determined them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Size of the cache file in bytes.
    pub disk: u64,
    /// The bound of the disk size.
    pub disk_bound: Bound,
    /// Total bytes of memory.
    pub memory: u64,
    /// The bound of the memory size.
    pub memory_bound: Bound,
    /// Mean object in bytes to size the index for; `None`: the default is suitable.
    pub mean_object: Option<u32>,
    /// Mean size in bytes of the log's objects, with their records.
    pub mean: u64,
    /// Requests of a month, for the price of a size.
    pub monthly: f64,
    /// The disk sizes considered.
    pub disks: Vec<u64>,
    /// The memory sizes considered.
    pub memories: Vec<u64>,
}

/// The conditions of a choice.
struct Choice<'a> {
    curves: &'a Curves,
    limits: &'a Limits,
    goal: Goal,
    prices: &'a Prices,
    mean: u64,
    monthly: f64,
}

impl Choice<'_> {
    /// Returns the sizes that cost least, with an index for objects of `mean_object` bytes.
    fn sizes(&self, mean_object: Option<u32>) -> Result<Sizes, NoAdvice> {
        let least = MEMORY_MIN.max(CACHE_SIZE_MIN);
        let disk_max = self.limits.disk.unwrap_or(u64::MAX).min(self.limits.drive);
        let memory_max = self.limits.memory.unwrap_or(u64::MAX);
        for (name, most, least) in
            [("--max-disk", disk_max, least), ("--max-memory", memory_max, MEMORY_MIN)]
        {
            if most < least {
                return Err(NoAdvice(format!("{name} is {most} bytes; the minimum is {least}")));
            }
        }
        let footprint = self.curves.enough().max(least);
        let disks = grid(least, footprint.saturating_mul(4), disk_max);
        let mut cheapest: Option<(f64, Sizes)> = None;
        let mut possible = Vec::new();
        for disk in disks.iter().copied() {
            let memories = memories(disk, mean_object, memory_max);
            possible.extend((!memories.is_empty()).then_some(disk));
            for memory in memories.iter().copied() {
                let price = self.price(memory, disk, mean_object);
                if cheapest.as_ref().is_none_or(|(least, _)| price < *least) {
                    let sizes = self.of(disk, memory, mean_object, &memories);
                    cheapest = Some((price, sizes));
                }
            }
        }
        let (_, sizes) = cheapest.ok_or_else(|| {
            NoAdvice(format!(
                "the index of the smallest cache takes more than half of --max-memory {memory_max}"
            ))
        })?;
        Ok(Sizes { disk_bound: bound(sizes.disk, &possible), disks, ..sizes })
    }

    fn of(&self, disk: u64, memory: u64, mean_object: Option<u32>, memories: &[u64]) -> Sizes {
        Sizes {
            disk,
            disk_bound: Bound::Price,
            memory,
            memory_bound: bound(memory, memories),
            mean_object,
            mean: self.mean,
            monthly: self.monthly,
            disks: Vec::new(),
            memories: memories.to_vec(),
        }
    }

    fn price(&self, memory: u64, disk: u64, mean_object: Option<u32>) -> f64 {
        let hits = |size| self.goal.of(self.curves.at(size, Part::Second));
        let in_memory = objects_in(memory, disk, mean_object).min(disk);
        let (hits, memory_hits) = (hits(disk), hits(in_memory));
        self.prices.month(self.monthly, &Priced { hits, memory_hits, disk, memory })
    }
}

/// Returns the memory sizes beside a disk. There is none if its index does not fit: the server
/// refuses one that takes more than half of the memory.
fn memories(disk: u64, mean_object: Option<u32>, most: u64) -> Vec<u64> {
    let least = MEMORY_MIN.max((2 * index(disk, mean_object, 0)).next_multiple_of(M));
    let most = most.min(disk);
    if least <= most { grid(least, disk, most) } else { Vec::new() }
}

impl Sizes {
    /// Chooses the sizes.
    ///
    /// # Errors
    /// No size that works is within the limits.
    pub fn choose(
        curves: &Curves,
        summary: &Summary,
        limits: &Limits,
        goal: Goal,
        prices: &Prices,
    ) -> Result<Sizes, NoAdvice> {
        let mean = (summary.object_bytes / summary.objects.max(1) + RECORD)
            .clamp(MEAN_OBJECTS[0], MEAN_OBJECTS[1]);
        let monthly = prices.monthly(summary.requests, summary.seconds);
        let choice = Choice { curves, limits, goal, prices, mean, monthly };
        let mean_object = other_mean(mean);
        let sizes = choice.sizes(mean_object)?;
        // An index for smaller objects than the log has costs only memory. Where the cost is small,
        // the default is as good.
        if mean_object.is_some_and(|mean| mean > MEAN_OBJECT) {
            let plain = choice.sizes(None);
            if let Some(plain) = plain.ok().filter(|plain| {
                index(plain.disk, None, plain.memory) <= plain.memory / LITTLE
                    && plain.disk >= sizes.disk
            }) {
                return Ok(plain);
            }
        }
        Ok(sizes)
    }

    /// Returns the bytes of objects that this much memory holds beside the chosen disk. They are on
    /// the disk, too.
    pub fn objects_in(&self, memory: u64) -> u64 {
        objects_in(memory, self.disk, self.mean_object).min(self.disk)
    }

    /// Returns the hit ratio of this much memory alone, beside the chosen disk.
    pub fn memory_hits(&self, curves: &Curves, memory: u64, part: Part) -> HitRatio {
        curves.at(self.objects_in(memory), part)
    }
}

fn bound(size: u64, sizes: &[u64]) -> Bound {
    match (sizes.first(), sizes.last()) {
        (Some(first), _) if *first == size => Bound::Least,
        (_, Some(last)) if *last == size => Bound::Limit,
        _ => Bound::Price,
    }
}

/// Returns the powers of two and the midpoints between them, from `least` to `useful` or `most`,
/// both ends included.
fn grid(least: u64, useful: u64, most: u64) -> Vec<u64> {
    let end = useful.max(least).min(most);
    let mut sizes = vec![least.min(most)];
    let mut size = least.next_power_of_two();
    while size < end {
        sizes.extend([size, size + size / 2]);
        size = size.saturating_mul(2);
    }
    sizes.retain(|size| *size <= end);
    // The limit itself, in whole MiB, the unit in which sizes are printed.
    sizes.push(if end == most { end / M * M } else { end.next_power_of_two().min(most) });
    sizes.retain(|size| *size >= least.min(most));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the mean object to size the index for, where the default is off by more than a factor of
/// two. Rounded down, because an index that is full costs hits.
fn other_mean(mean: u64) -> Option<u32> {
    let default = u64::from(MEAN_OBJECT);
    if mean * 2 >= default && mean <= default * 2 {
        return None;
    }
    let rounded = match mean {
        0..K => mean / 512 * 512,
        _ => 1 << mean.ilog2(),
    };
    u32::try_from(rounded).ok()
}

/// Returns the bytes of the index with this much memory; with `memory` 0, it is as small as the
/// default makes it.
fn index(disk: u64, mean_object: Option<u32>, memory: u64) -> u64 {
    let format = FormatOptions { mean_object, memory, labels: false, ..FormatOptions::default() };
    IndexOptions::default().bytes(disk, format.mean_object_for(disk))
}

/// Returns the part of the memory that the engine leaves to objects. An eighth is for serving hits,
/// half of one for records that wait to be written, 4 MiB at most for a write of them, and one and
/// a half batches for their copies. The index and the doorkeeper take their parts, and an eighth of
/// the rest is for read-ahead (`docs/architecture.md`).
fn objects_in(memory: u64, disk: u64, mean_object: Option<u32>) -> u64 {
    let tables = index(disk, mean_object, memory) + memory / 1024;
    let eighth = memory / 8;
    let copies = (4 * M).min(eighth / 2) * 3 / 2 * 33 / 32;
    let reserved = eighth + eighth / 2 + eighth.min(4 * M) + copies;
    let rest = memory.saturating_sub(tables + reserved).max(eighth);
    rest - rest / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_end_at_their_limits() {
        assert_eq!(grid(8 * M, 30 * M, 1 << 40), [8, 12, 16, 24, 32].map(|size| size * M));
        assert_eq!(grid(8 * M, 1 << 40, 20 * M), [8, 12, 16, 20].map(|size| size * M));
        assert_eq!(grid(16 * M, M, 1 << 40), [16 * M]);
        assert_eq!(grid(50 * M, 90 * M, 90 * M), [50, 64, 90].map(|size| size * M));
    }

    #[test]
    fn the_index_is_sized_for_objects_far_from_the_usual() {
        assert_eq!(other_mean(12 << 10), None);
        assert_eq!(other_mean(20 << 10), None);
        assert_eq!(other_mean(300 << 10), Some(256 << 10));
        assert_eq!(other_mean(700), Some(512));
        assert_eq!(other_mean(5_000), Some(4_096));
    }

    #[test]
    fn memory_is_divided_as_the_engine_divides_it() {
        use crate::run::whole_cache::{EngineCache, EngineOptions, Machine, Region};
        for (memory, disk) in [(32 * M, 64 * M), (64 * M, 1 << 30), (256 * M, 8 << 30)] {
            let machine = Machine::new(Box::new(sim::Uniform::fast(16 << 30)));
            let mut options = EngineOptions::from(store::preset("larder").unwrap());
            options.options.memory = memory;
            let region = Region { start: 0, spread: disk, len: disk };
            let tier = EngineCache::create(&machine, region, &options).unwrap().shape().tier;
            let ours = objects_in(memory, disk, None);
            let off = (ours as f64 - tier as f64).abs() / tier as f64;
            assert!(off < 0.02, "{memory} + {disk}: {ours}, engine {tier}");
        }
    }
}
