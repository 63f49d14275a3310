//! The bound of the machine of Secondary Storage Management, for any space manager: bytes divided
//! by bandwidth, and the unavoidable reads.
//!
//! Both are measured on the same file system and drive, in a file as long as the managers'. Stored
//! bytes are written once, in one long sequential write that wraps around in the file. Reads take
//! one positioning for all objects of a directory that are among [`TOGETHER`] reads in a row; ten
//! reads are in flight at a time and sorted by place, as in LAZY-READS. All other bytes are read at
//! the rate of a long sequential read. No manager reaches the bound: each moves the arm to write,
//! and keeps tables to find its objects.

use std::collections::VecDeque;
use std::rc::Rc;

use device::{Clock, Device, IoBuf, Nanos};
use fastrand::Rng;
use sim::ffs::FileDevice;
use sim::{Executor, Handle};

use super::scenario::{BESIDE, TOGETHER};
use crate::experiment::Failed;
use crate::experiments::markatos::machine::{Machine, Trace};
use crate::space::manager::SpaceError;
use workload::two_level::Operation;

/// Bytes per call of a long write or read.
const STEP: u64 = 1 << 20;
/// Bytes of a read of one object: a page of the file system.
const PAGE: u64 = 8_192;
/// Number of reads in flight at a time.
const BATCH: usize = 10;
const BATCHES: usize = 200;

/// The minimum time of a trace on the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Seconds for writing the stored bytes.
    pub(super) writing: f64,
    pub(super) reading: f64,
    stored: f64,
    /// Number of requests, memory hits included.
    gets: f64,
}

impl Bound {
    /// Returns the bound in gets per second, as for the managers.
    pub(super) fn gets_per_second(&self) -> f64 {
        self.gets / (self.writing + self.reading)
    }

    /// Returns the rate of a long sequential write in MB/s.
    pub(super) fn write_rate(&self) -> f64 {
        self.stored / self.writing / 1e6
    }
}

/// The minimum work: bytes stored, bytes read, and positionings.
#[derive(Default)]
struct Work {
    stored: u64,
    read: u64,
    positions: u64,
}

impl Work {
    fn of(trace: &Trace) -> Work {
        let mut work = Work::default();
        let mut last: VecDeque<(u32, u32)> = VecDeque::new();
        for operation in trace.operations() {
            match operation {
                Operation::Delete(_) => {}
                Operation::Store(object) => work.stored += object.size + BESIDE,
                Operation::Read(object) => {
                    let page = (object.site, object.group);
                    work.read += object.size + BESIDE;
                    work.positions += u64::from(!last.contains(&page));
                    last.push_back(page);
                    if last.len() > TOGETHER {
                        last.pop_front();
                    }
                }
            }
        }
        work
    }
}

/// Measures the bound for `trace` and a file with this `utilization`.
pub(super) fn of(machine: Machine, trace: &Trace, utilization: f64) -> Result<Bound, Failed> {
    let executor = Executor::new(None, 1_700_000_000);
    let clock = executor.handle();
    Ok(executor.run(measured(&clock, machine, trace, utilization))?)
}

async fn measured(
    clock: &Handle,
    machine: Machine,
    trace: &Trace,
    utilization: f64,
) -> Result<Bound, SpaceError> {
    let error = |error| SpaceError::file("use", "cache", error);
    let work = Work::of(trace);
    let ffs = machine.file_system(clock)?;
    let len = trace.file_len(utilization) / STEP * STEP;
    let file = Rc::new(FileDevice::reserve(&ffs, "cache", len).map_err(error)?);
    let begun = clock.now();
    write(&file, len, work.stored).await.map_err(error)?;
    let writing = clock.now() - begun;
    let there = work.stored.min(len);
    let position = positioning(clock, &file, there).await.map_err(error)?;
    let byte = sequential(clock, &file, there).await.map_err(error)?;
    let further = work.read.saturating_sub(work.positions * PAGE);
    let reading = work.positions as f64 * position + further as f64 * byte;
    let gets = trace.counts.gets as f64;
    let (writing, reading) = (writing as f64 / 1e9, reading / 1e9);
    Ok(Bound { writing, reading, stored: work.stored as f64, gets })
}

/// Writes `bytes` bytes, wrapping around in the file.
async fn write(file: &FileDevice, len: u64, bytes: u64) -> std::io::Result<()> {
    let zeros = IoBuf::zeroed(STEP as usize).freeze();
    for step in 0..bytes.div_ceil(STEP) {
        file.write(step * STEP % len, zeros.clone()).await?;
    }
    file.flush().await
}

/// Measures a read of a page at a random place, ten at a time, in nanoseconds.
async fn positioning(clock: &Handle, file: &Rc<FileDevice>, len: u64) -> std::io::Result<f64> {
    let mut random = Rng::with_seed(1);
    let begun = clock.now();
    for _ in 0..BATCHES {
        let reads: Vec<_> = (0..BATCH)
            .map(|_| {
                let (file, at) = (Rc::clone(file), random.u64(..len / PAGE) * PAGE);
                clock.spawn(async move { file.read(at, IoBuf::zeroed(PAGE as usize)).await.1 })
            })
            .collect();
        for read in reads {
            read.await?;
        }
    }
    Ok(per(clock.now() - begun, (BATCHES * BATCH) as u64))
}

/// Measures a long sequential read, in nanoseconds per byte.
async fn sequential(clock: &Handle, file: &FileDevice, len: u64) -> std::io::Result<f64> {
    let begun = clock.now();
    let steps = (len / STEP).min(64);
    for step in 0..steps {
        file.read(step * STEP, IoBuf::zeroed(STEP as usize)).await.1?;
    }
    Ok(per(clock.now() - begun, steps * STEP))
}

fn per(time: Nanos, count: u64) -> f64 {
    time as f64 / count.max(1) as f64
}
