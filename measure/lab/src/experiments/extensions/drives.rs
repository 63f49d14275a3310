//! The drives of the papers and of today, and the minimum cost of moving bytes on them.

use device::Nanos;
use fastrand::Rng;
use sim::drives::flash;
use sim::drives::mechanical::Config;
use sim::drives::striped::Striped;
use sim::drives::{Drive, Operation, Request, SECTOR};

use crate::experiment::Failed;
use crate::experiments::tfs::setup::stated_drive;
use crate::run::whole_cache::Region;
use crate::space::file_caches::{drive, write_through_drive};

/// Sectors per stripe: 64 KB.
const STRIPE: u64 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// C16: Atlas 10K with three times the sectors per track, write-through.
    Ucfs,
    /// T5: Atlas 10K on a bus of 40 MB/s, write cache on.
    Tfs,
    /// U8, low end: Seagate ST320414A.
    LowEnd,
    /// U8, high end: five Seagate ST39102LW, striped.
    HighEnd,
    Flash(&'static str),
    /// A disk that is held to 200 reads and 200 writes a second of any length, as a kernel or a
    /// cloud holds it.
    Held,
}

impl Model {
    pub(super) fn name(self) -> &'static str {
        match self {
            Model::Held => "held disk",
            Model::Ucfs => "Atlas 10K × 3",
            Model::Tfs => "Atlas 10K",
            Model::LowEnd => "ST320414A",
            Model::HighEnd => "5 ST39102LW",
            Model::Flash(name) => name,
        }
    }

    /// Returns whether the drive acknowledges writes from its buffer.
    pub(super) fn has_write_cache(self) -> bool {
        self != Model::Ucfs
    }

    pub(super) fn drive(self) -> Result<Box<dyn Drive>, Failed> {
        Ok(match self {
            Model::Held => Box::new(Held { free: [0; 2] }),
            Model::Ucfs => Box::new(write_through_drive("atlas10k_x3", Config::FastBus)?),
            Model::Tfs => Box::new(stated_drive()?),
            Model::LowEnd => Box::new(drive("st320414a", Config::Shipped)?),
            Model::HighEnd => {
                let one = || drive("st39102lw", Config::Shipped);
                let all = (0..5).map(|_| one()).collect::<Result<Vec<_>, _>>()?;
                Box::new(Striped::new(all, STRIPE).map_err(|why| why.to_string())?)
            }
            Model::Flash(name) => {
                let drive = flash::named(name);
                Box::new(drive.ok_or_else(|| format!("no flash drive {name} is shipped"))?)
            }
        })
    }
}

/// A disk of [`Model::Held`]: each operation takes its turn, and then 0.5 ns a byte.
struct Held {
    /// When the next read and the next write may begin.
    free: [Nanos; 2],
}

impl Drive for Held {
    fn sectors(&self) -> u64 {
        1 << 32
    }

    fn depth(&self) -> usize {
        256
    }

    fn serve(&mut self, now: Nanos, request: Request) -> Nanos {
        let free = match request.operation {
            Operation::Read => &mut self.free[0],
            Operation::Write => &mut self.free[1],
            Operation::Flush => return now,
        };
        *free = now.max(*free) + 5_000_000;
        *free + request.sectors * SECTOR / 2
    }
}

/// The minimum costs of a drive, measured before any cache runs on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// Nanoseconds of a 4 KB read at a random place of the region, one at a time.
    pub(super) position: f64,
    /// Nanoseconds per byte of a long sequential read.
    pub(super) read: f64,
    /// Nanoseconds per byte of a long sequential write.
    pub(super) write: f64,
    /// Nanoseconds of a 4 KB write right behind the previous one, after a random pause.
    pub(super) append: f64,
}

impl Prices {
    /// Measures the costs on `model` for a cache that is spread over `region`.
    pub(super) fn of(model: Model, region: Region) -> Result<Prices, Failed> {
        Ok(Prices {
            position: random(&mut *model.drive()?, region),
            read: sequential(&mut *model.drive()?, region, Operation::Read),
            write: sequential(&mut *model.drive()?, region, Operation::Write),
            append: append(&mut *model.drive()?, region),
        })
    }

    /// Returns the milliseconds of these numbers of positionings, bytes read and bytes written.
    pub(super) fn ms(&self, positions: f64, read: f64, written: f64) -> f64 {
        (positions * self.position + read * self.read + written * self.write) / 1e6
    }
}

/// Sectors of a 4 KB block.
const BLOCK: u64 = 4_096 / SECTOR;

/// Measures a random read, in nanoseconds.
fn random(drive: &mut dyn Drive, region: Region) -> f64 {
    const READS: u64 = 2_000;
    let mut random = Rng::with_seed(1);
    let blocks = region.spread / SECTOR / BLOCK;
    let mut now: Nanos = 0;
    for _ in 0..READS {
        let sector = region.start / SECTOR + random.u64(..blocks) * BLOCK;
        now = drive.serve(now, Request { operation: Operation::Read, sector, sectors: BLOCK });
    }
    now as f64 / READS as f64
}

/// Measures a write that continues where the last one ended, after a pause of up to a second, in
/// nanoseconds.
fn append(drive: &mut dyn Drive, region: Region) -> f64 {
    const WRITES: u64 = 2_000;
    let mut random = Rng::with_seed(1);
    let (mut now, mut took): (Nanos, Nanos) = (0, 0);
    for number in 0..WRITES {
        now += random.u64(..1_000_000_000);
        let sector = region.start / SECTOR + number * BLOCK;
        let end = drive.serve(now, Request { operation: Operation::Write, sector, sectors: BLOCK });
        took += end - now;
        now = end;
    }
    took as f64 / WRITES as f64
}

/// Measures the nanoseconds per byte of 64 MiB, 4 MiB at a time, from the beginning of the region.
fn sequential(drive: &mut dyn Drive, region: Region, operation: Operation) -> f64 {
    const REQUESTS: u64 = 16;
    let sectors = (4 << 20) / SECTOR;
    let mut now: Nanos = 0;
    for number in 0..REQUESTS {
        let sector = region.start / SECTOR + number * sectors;
        now = drive.serve(now, Request { operation, sector, sectors });
    }
    // Includes the flush of data that the drive acknowledged from its buffer.
    let flush = Request { operation: Operation::Flush, sector: 0, sectors: 0 };
    now = drive.serve(now, flush);
    now as f64 / (REQUESTS * (4 << 20)) as f64
}
