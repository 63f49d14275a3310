//! The read unit `auto`: decides how much a read includes besides the requested record.
//!
//! The neighbours of a record were stored at about the same time, often for the same page. Reading
//! them along costs transfer, CPU and memory. It pays off if they are requested while they are
//! still in memory, because that saves a whole read. Both sides are measured: the device by
//! [`crate::read::device_cost`], the benefit here. The space before and behind a record is divided
//! into bands by distance, and each band tracks how many of the objects read from it were requested
//! later: those of the record's own group, which lie in one run with it, and the others. A read
//! includes as many bands on either side as pay for themselves: none on a flash drive
//! with random requests, a page's worth if pages are requested as they were stored, the whole
//! cluster on a disk where one more read costs as much as another megabyte.
//!
//! So that no band is excluded forever on old evidence, a small share of the cost of reads is spent
//! on reading more than pays off. One read in 64 has no neighbours, which keeps the measurement of
//! the device accurate. Pure and deterministic.

use std::ops::Range;

use device::Extent;

use crate::read::device_cost::ReadCost;

/// Number of bands on either side.
const BANDS: usize = 8;
/// Bytes from the record to the far end of the first band. Each further band reaches twice as far.
const FIRST: u64 = 16 * 1024;
/// CPU time per read, in nanoseconds: submission, wait, verification (measured:
/// docs/decisions/0005).
const CPU_PER_READ: f64 = 5_000.0;
/// CPU time per additional byte, in nanoseconds: reading it into memory and finding record
/// boundaries. Requested records are verified and copied later, as if they were read alone.
const CPU_PER_BYTE: f64 = 0.15;
/// Share of the cost of reads that is spent on exploration.
const EXPLORE: f64 = 1.0 / 64.0;
/// One read in this many has no neighbours.
const BARE: u64 = 64;
/// Number of readings of a band over which its statistics fade.
const MEMORY: f64 = 64.0;
/// Number of readings of a band that the initial guess counts as.
const GUESS_WEIGHT: f64 = 2.0;
/// Initial guess: hits per additional byte. In the UCFS paper (table 5), three of ten prefetched
/// objects of 12 KiB each were requested later.
const GUESS: f64 = 0.3 / (12.0 * 1024.0);

/// A band on one side of a record: the distance of a prefetched object, and whether it lies in the
/// record's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DistanceBand(u8);

impl DistanceBand {
    /// Returns the number of the band, below [`ALL_BANDS`].
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the band of a neighbour, relative to the requested record and its run. All ranges
    /// are in bytes from the same origin.
    pub(crate) fn of(neighbour: Range<u64>, record: Range<u64>, run: &Range<u64>) -> DistanceBand {
        let kin = if run.contains(&neighbour.start) { Kin::Run } else { Kin::Others };
        let (side, distance) = if neighbour.start >= record.start {
            (Side::Behind, neighbour.end.saturating_sub(record.end))
        } else {
            (Side::Before, record.start - neighbour.start)
        };
        let number = (0..BANDS).find(|band| distance <= reach(*band)).unwrap_or(BANDS - 1);
        DistanceBand(((kin as usize * 2 + side as usize) * BANDS + number) as u8)
    }
}

/// The relation of a neighbour to a record.
#[derive(Clone, Copy)]
enum Kin {
    /// In the record's run. Everything is where no runs are known.
    Run = 0,
    Others = 1,
}

#[derive(Clone, Copy)]
enum Side {
    /// At higher positions, stored later.
    Behind = 0,
    /// At lower positions, stored earlier.
    Before = 1,
}

/// Returns the distance from a record to the far end of a band, in bytes.
fn reach(band: usize) -> u64 {
    FIRST << band
}

fn width(band: usize) -> u64 {
    if band == 0 { FIRST } else { reach(band) - reach(band - 1) }
}

/// Bytes read from a band and hits on them. Both fade as more is read.
#[derive(Clone, Copy)]
struct Earnings {
    bytes: f64,
    hits: f64,
}

/// Number of bands on both sides, in runs and beyond them.
pub(crate) const ALL_BANDS: usize = 4 * BANDS;

/// Statistics of the memory tier on prefetched objects and on the price of memory. Counts are
/// totals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Prefetched objects that were requested later, by band.
    pub(crate) band_hits: [u64; ALL_BANDS],
    /// Bytes that entered memory because reads took them along.
    pub(crate) prefetched_bytes: u64,
    /// Bytes that entered the part of memory that read-ahead enters.
    pub(crate) entered_bytes: u64,
    /// Hits in its last part, which would be lost first.
    pub(crate) cold_hits: u64,
    /// Its capacity, in bytes.
    pub(crate) capacity: usize,
    /// Size of the last part, in percent of the capacity.
    pub(crate) cold_percent: u8,
}

/// Decides how much a read includes. See the module documentation.
pub(crate) struct ReadWindow {
    /// By kin, then by side, then by band.
    bands: [[[Earnings; BANDS]; 2]; 2],
    /// Maximum number of additional bytes on one side.
    most: u64,
    /// Remaining budget for exploration, in nanoseconds.
    budget: f64,
    turn: u64,
    /// The band to explore next.
    explored: usize,
    /// Mean size of a record, in bytes.
    record: f64,
    seen: Memory,
    /// The counts of [`Memory`], fading.
    entered_bytes: f64,
    cold_hits: f64,
    prefetched_bytes: f64,
    /// Bytes that reads took along since the last call of [`ReadWindow::observe`], and fading.
    taken: [f64; 2],
}

impl ReadWindow {
    /// Returns a window without evidence. A read may include up to `most` bytes on either side.
    pub(crate) fn new(most: u64) -> ReadWindow {
        let earnings = |band| {
            let bytes = GUESS_WEIGHT * width(band) as f64;
            Earnings { bytes, hits: bytes * GUESS }
        };
        let side: [Earnings; BANDS] = std::array::from_fn(earnings);
        ReadWindow {
            bands: [[side; 2]; 2],
            most,
            budget: 0.0,
            turn: 0,
            explored: 0,
            record: 8192.0,
            seen: Memory::default(),
            entered_bytes: 0.0,
            cold_hits: 0.0,
            prefetched_bytes: 0.0,
            taken: [0.0; 2],
        }
    }

    /// Sets the maximum number of bytes that a read may include on either side.
    pub(crate) fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    /// Returns the whole extent to read for `record`, which lies in `run`, within `bounds`, on a
    /// device of this cost.
    pub(crate) fn choose(
        &mut self,
        record: Extent,
        run: Extent,
        bounds: Extent,
        cost: ReadCost,
        memory: Memory,
    ) -> Extent {
        self.record += (record.len as f64 - self.record) / MEMORY;
        self.turn += 1;
        let price = self.observe(memory);
        let saved = cost.of(self.record) + CPU_PER_READ;
        let per_byte = cost.per_byte + CPU_PER_BYTE + price * saved;
        let (room, kin) = (sides(record, bounds), sides(record, run));
        let best = [0, 1].map(|side| self.best(side, room[side], kin[side], saved, per_byte));
        let chosen = if self.turn.is_multiple_of(BARE) { [0, 0] } else { best };
        let extent = around(record, bounds, chosen);
        self.budget += EXPLORE * cost.of(extent.len as f64);
        let explored = self.explore(record, bounds, best, per_byte, extent.len);
        explored.unwrap_or(extent)
    }

    /// Records that `extent` was read for `record`, which lies in `run`.
    pub(crate) fn read(&mut self, record: Extent, run: Extent, extent: Extent) {
        let (taken, kin) = (sides(record, extent), sides(record, run));
        self.taken[0] += (taken[0] + taken[1]) as f64;
        for side in [0, 1] {
            for number in 0..BANDS {
                let bytes = split(number, taken[side], kin[side]);
                for (bands, bytes) in self.bands.iter_mut().zip(bytes) {
                    let band = &mut bands[side][number];
                    let fade = (1.0 - bytes / (MEMORY * width(number) as f64)).max(0.0);
                    band.hits *= fade;
                    band.bytes = band.bytes * fade + bytes;
                }
            }
        }
    }

    /// Returns how many bytes on one side pay for themselves, if `room` bytes are available there,
    /// `kin` of them in the run of the record.
    fn best(&self, side: usize, room: u64, kin: u64, saved: f64, per_byte: f64) -> u64 {
        let room = room.min(self.most);
        let (mut gain, mut most, mut best) = (0.0, 0.0, 0);
        for number in 0..BANDS {
            let inner = reach(number) - width(number);
            if room <= inner {
                break;
            }
            let bytes = split(number, room, kin);
            let earns = [0, 1].map(|kin| {
                let band = &self.bands[kin][side][number];
                (band.hits / band.bytes.max(1.0) * saved - per_byte) * bytes[kin]
            });
            // A band in which the run ends may pay as far as that.
            for (earned, end) in earns.into_iter().zip([kin.max(inner), reach(number)]) {
                gain += earned;
                if gain > most {
                    (most, best) = (gain, end.min(reach(number)).min(room));
                }
            }
        }
        best
    }

    /// Returns an extent larger than pays off, if the budget allows. Bands beyond the best take
    /// turns.
    fn explore(
        &mut self,
        record: Extent,
        bounds: Extent,
        best: [u64; 2],
        per_byte: f64,
        anyway: u64,
    ) -> Option<Extent> {
        let next = reach(self.explored).min(self.most);
        let extent = around(record, bounds, best.map(|bytes| bytes.max(next)));
        let is_wider = extent.len > anyway && best.iter().any(|bytes| *bytes < next);
        if next > bounds.len || !is_wider {
            self.explored = (self.explored + 1) % BANDS;
            return None;
        }
        let price = extent.len.saturating_sub(anyway) as f64 * per_byte;
        if price > self.budget {
            return None;
        }
        self.budget = (self.budget - price).min(price);
        self.explored = (self.explored + 1) % BANDS;
        Some(extent)
    }

    /// Updates the statistics from memory. Returns the hits lost per byte that a read takes along.
    /// A byte that enters memory occupies its space as long as any other, and in that time the same
    /// space at the end of the list would have had this many hits. Objects that are in memory
    /// already do not enter it again.
    fn observe(&mut self, now: Memory) -> f64 {
        let counts = now.band_hits.iter().zip(&self.seen.band_hits);
        let bands = self.bands.as_flattened_mut().as_flattened_mut();
        for (band, (new, old)) in bands.iter_mut().zip(counts) {
            band.hits += (new - old) as f64;
        }
        // Read-ahead may enter another part of memory than before.
        let entered = now.entered_bytes.saturating_sub(self.seen.entered_bytes) as f64;
        let hits = now.cold_hits.saturating_sub(self.seen.cold_hits) as f64;
        let prefetched = (now.prefetched_bytes - self.seen.prefetched_bytes) as f64;
        self.seen = now;
        let fade = (1.0 - entered / (2.0 * now.capacity.max(1) as f64)).max(0.0);
        self.entered_bytes = self.entered_bytes * fade + entered;
        self.cold_hits = self.cold_hits * fade + hits;
        self.prefetched_bytes = self.prefetched_bytes * fade + prefetched;
        self.taken = [0.0, self.taken[1] * fade + self.taken[0]];
        if self.entered_bytes < 1.0 || self.taken[1] < 1.0 {
            return 0.0;
        }
        let enters = (self.prefetched_bytes / self.taken[1]).min(1.0);
        let share = 100.0 / f64::from(now.cold_percent.max(1));
        enters * share * self.cold_hits / self.entered_bytes
    }
}

/// Returns the bytes of `extent` behind and before `record`.
fn sides(record: Extent, extent: Extent) -> [u64; 2] {
    [extent.end().saturating_sub(record.end()), record.offset.saturating_sub(extent.offset)]
}

/// Returns how many of the first `taken` bytes on a side lie in a band: within the first `kin`
/// bytes, and beyond.
fn split(band: usize, taken: u64, kin: u64) -> [f64; 2] {
    let inner = reach(band) - width(band);
    let within = |bytes: u64| bytes.saturating_sub(inner).min(width(band));
    let (all, run) = (within(taken), within(taken.min(kin)));
    [run as f64, (all - run) as f64]
}

/// Returns the record with these numbers of bytes behind and before it, within `bounds`.
fn around(record: Extent, bounds: Extent, [behind, before]: [u64; 2]) -> Extent {
    let offset = record.offset.saturating_sub(before).max(bounds.offset).min(record.offset);
    let end = (record.end() + behind).min(bounds.end()).max(record.end());
    Extent { offset, len: end - offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: ReadCost = ReadCost { per_operation: 80e3, per_byte: 0.3 };
    const DISK: ReadCost = ReadCost { per_operation: 5e6, per_byte: 20.0 };
    const CLUSTER: Extent = Extent { offset: 0, len: 1 << 20 };
    /// Size of an object in these tests, in bytes. Objects fill the cluster side by side.
    const OBJECT: u64 = 4096;

    /// Requests random pages of `page` adjacent objects each. Memory forgets each page before the
    /// next. Returns the mean size of the later reads, in bytes, and the reads per request.
    fn pages(cost: ReadCost, page: u64, seed: u64) -> (f64, f64) {
        pages_in(CLUSTER, cost, page, seed)
    }

    fn pages_in(cluster: Extent, cost: ReadCost, page: u64, seed: u64) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut window = ReadWindow::new(1 << 20);
        let (mut bytes, mut reads, turns) = (0, 0, 4000);
        let mut tier = Memory::default();
        for turn in 0..turns {
            // The objects of an earlier page have left memory.
            let mut memory = std::collections::BTreeMap::new();
            let first = random.u64(0..cluster.len / OBJECT / page) * page;
            for object in first..first + page {
                if let Some(band) = memory.remove(&object) {
                    let band: DistanceBand = band;
                    tier.band_hits[band.number()] += 1;
                    continue;
                }
                let record = Extent { offset: object * OBJECT, len: OBJECT };
                let extent = window.choose(record, cluster, cluster, cost, tier);
                window.read(record, cluster, extent);
                if turn >= turns / 2 {
                    bytes += extent.len;
                    reads += 1;
                }
                let range = |object: u64| object * OBJECT..(object + 1) * OBJECT;
                for other in extent.offset / OBJECT..extent.end() / OBJECT {
                    if other != object {
                        memory.insert(
                            other,
                            DistanceBand::of(range(other), range(object), &(0..cluster.len)),
                        );
                    }
                }
            }
        }
        (bytes as f64 / reads as f64, reads as f64 / (turns / 2 * page) as f64)
    }

    #[test]
    fn single_requests_on_flash_are_read_exactly() {
        for seed in crate::test_seed::seeds("single, flash", 5) {
            let (bytes, reads) = pages(FLASH, 1, seed);
            assert!(bytes < 3.0 * OBJECT as f64, "{bytes} bytes a read");
            assert!(reads > 0.99);
        }
    }

    #[test]
    fn what_lies_beyond_a_small_cluster_is_no_reason_to_read_all_of_it() {
        for seed in crate::test_seed::seeds("small cluster", 5) {
            let cluster = Extent { offset: 0, len: 128 * 1024 };
            let (bytes, _) = pages_in(cluster, FLASH, 1, seed);
            assert!(bytes < 3.0 * OBJECT as f64, "{bytes} bytes a read");
        }
    }

    #[test]
    fn pages_bring_their_neighbours_but_not_the_whole_cluster_on_flash() {
        for seed in crate::test_seed::seeds("pages, flash", 5) {
            let (bytes, reads) = pages(FLASH, 10, seed);
            assert!((30e3..200e3).contains(&bytes), "{bytes} bytes a read");
            assert!(reads < 0.3, "{reads} reads for each request");
        }
    }

    #[test]
    fn a_slow_disk_reads_whole_clusters_where_that_earns() {
        for seed in crate::test_seed::seeds("pages, disk", 5) {
            let (bytes, reads) = pages(DISK, 128, seed);
            assert!(bytes > 300e3, "{bytes} bytes a read");
            assert!(reads < 0.05, "{reads} reads for each request");
        }
    }

    #[test]
    fn a_slow_disk_without_locality_reads_little_too() {
        for seed in crate::test_seed::seeds("single, disk", 5) {
            let (bytes, _) = pages(DISK, 1, seed);
            assert!(bytes < 20e3, "{bytes} bytes a read");
        }
    }

    /// Objects lie alone, and one in two of the others in a cluster is requested soon.
    #[test]
    fn beyond_its_run_a_read_takes_what_pays_on_this_device() {
        for (cost, least, most) in [(DISK, 500_000, 1 << 20), (FLASH, 0, 20_000)] {
            let mut random = fastrand::Rng::with_seed(1);
            let mut window = ReadWindow::new(1 << 20);
            let (mut tier, mut bytes, turns) = (Memory::default(), 0, 2000);
            for turn in 0..turns {
                let record = Extent { offset: random.u64(..250) * OBJECT, len: OBJECT };
                let extent = window.choose(record, record, CLUSTER, cost, tier);
                window.read(record, record, extent);
                let range = |extent: Extent| extent.offset..extent.end();
                for other in 0..256 {
                    let other = Extent { offset: other * OBJECT, len: OBJECT };
                    let comes = other != record && range(extent).contains(&other.offset);
                    if comes && random.u8(..50) == 0 {
                        let band = DistanceBand::of(range(other), range(record), &range(record));
                        tier.band_hits[band.number()] += 1;
                    }
                }
                bytes += if turn >= turns / 2 { extent.len } else { 0 };
            }
            let mean = bytes / (turns / 2);
            assert!((least..most).contains(&mean), "{mean} bytes a read");
        }
    }

    #[test]
    fn lost_tier_hits_add_to_the_price_of_memory() {
        let mut window = ReadWindow::new(1 << 20);
        let record = Extent { offset: 512 * 1024, len: OBJECT };
        let mut memory = Memory { capacity: 1 << 24, cold_percent: 30, ..Memory::default() };
        let free = window.choose(record, CLUSTER, CLUSTER, DISK, memory);
        assert!(free.len > 100_000, "the first guess on a disk: {}", free.len);
        // Every 10 KB that enter memory push out objects that would have been hit twice.
        window.read(record, CLUSTER, free);
        memory.prefetched_bytes = free.len;
        memory.entered_bytes = 1 << 24;
        memory.cold_hits = 2 * (1 << 24) / 10_000;
        assert_eq!(window.choose(record, CLUSTER, CLUSTER, DISK, memory), record);
    }

    #[test]
    fn windows_stay_within_bounds_and_hold_the_record() {
        for seed in crate::test_seed::seeds("bounds", 20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut window = ReadWindow::new(1 << random.u32(0..24));
            for _ in 0..500 {
                let offset = random.u64(CLUSTER.len..2 * CLUSTER.len);
                let bounds = Extent { offset: CLUSTER.len, len: CLUSTER.len };
                let len = random.u64(1..=(bounds.end() - offset).min(100_000));
                let record = Extent { offset, len };
                let cost = if random.bool() { DISK } else { FLASH };
                let (before, behind) =
                    (random.u64(..=offset - bounds.offset), random.u64(..100_000));
                let len = (before + len + behind).min(bounds.end() - offset + before);
                let run = Extent { offset: offset - before, len };
                let extent = window.choose(record, run, bounds, cost, Memory::default());
                window.read(record, run, extent);
                assert!(extent.offset >= bounds.offset && extent.end() <= bounds.end());
                assert!(extent.offset <= record.offset && extent.end() >= record.end());
            }
        }
    }

    #[test]
    fn rings_reach_twice_as_far_each() {
        let record = 100_000..104_000;
        let of = |neighbour| {
            let band = DistanceBand::of(neighbour, record.clone(), &(95_000..110_000));
            (band.number() / BANDS, band.number() % BANDS)
        };
        assert_eq!(of(104_000..108_000), (0, 0));
        assert_eq!(of(95_000..100_000), (1, 0));
        assert_eq!(of(119_000..125_000), (2, 1));
        assert_eq!(of(90_000..94_000), (3, 0));
        assert_eq!(of(0..9_000), (3, 3));
    }
}
