//! A log replayed on the product's engine: the result of these requests with a given layout, memory
//! and disk.
//!
//! Each [`Setup`] is a cache of its own on a new drive, as `larder serve` would create it: the
//! memory is all that it may use, the disk is the cache file. The cache starts empty. Requests come
//! at the log's times or one after another ([`Pace`]), in both cases one at a time. A miss is
//! stored as if the origin had responded at once. (`crate::run::replay` differs: it feeds one
//! operation stream to space managers of any kind.)
//!
//! For a sampled log (SHARDS), memory and disk shrink with the sample, the cache is spread over the
//! part of the drive that the whole one would take, and counts are extrapolated to the whole. Times
//! of disk hits are those of the sample.
//!
//! Guarantees: equal logs and setups give equal figures, however many run concurrently.

mod measured;
mod setup;
mod timed;

use crate::advise::access_log::AccessLog;
use crate::disks::choice::DriveChoice;
use crate::experiment::{Context, Failed, Meter, Scale, Variant};
use crate::run::whole_cache;
use crate::run::whole_cache::{CacheError, EngineCache, Machine, Pace, Plan, Region};

pub use measured::Measured;
pub use setup::{Setup, System, UnknownSystem, combinations};
use timed::Timed;

const MIB: u64 = 1 << 20;
/// Bytes of memory below which the engine's buffers alone exceed their share.
const MEMORY_MIN: u64 = 2 * MIB;

/// Options for replaying a log.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The drive.
    pub drive: DriveChoice,
    /// When requests come.
    pub pace: Pace,
    /// Percentage of the requests, from the start, that fill the cache and do not count: 0 to 99.
    pub warm_up: u8,
    /// Number of setups that run concurrently, at least 1.
    pub jobs: usize,
    /// True if memory and disk of a sample are raised to the least with which the engine works;
    /// else such a setup is refused.
    pub raises_sizes: bool,
}

/// The result of one setup.
#[derive(Clone, Debug)]
pub struct Row {
    /// The setup.
    pub setup: Setup,
    /// The figures, or the reason why this setup cannot be served.
    pub result: Result<Measured, String>,
}

/// Replays the log on every setup. Rows are in the order of the setups.
///
/// # Errors
/// None of its own; the signature is that of all work in parallel variants.
pub fn replay(
    log: &AccessLog,
    setups: &[Setup],
    options: &ReplayOptions,
    meter: &Meter,
) -> Result<Vec<Row>, Failed> {
    let mut context = Context::new("replay", Scale::Full, options.jobs, meter);
    let variants = setups.iter().map(|setup| (setup.to_string(), *setup));
    context.variants(variants, |variant, setup| {
        let result = run(log, &setup, options, variant).map_err(|why| why.to_string());
        Ok(Row { setup, result })
    })
}

fn run(
    log: &AccessLog,
    setup: &Setup,
    options: &ReplayOptions,
    variant: &Variant,
) -> Result<Measured, CacheError> {
    let sampling = log.sampling();
    let drive = options.drive.drive().map_err(|why| CacheError(why.to_string()))?;
    let [disk_least, memory_least] = match options.raises_sizes {
        true => [store::CACHE_SIZE_MIN, MEMORY_MIN],
        false => [0; 2],
    };
    let disk = sampling.shrink(setup.disk).max(disk_least);
    let region = region(setup, disk, options.drive.bytes())?;
    let mut engine = setup.engine()?;
    engine.options.memory = sampling.shrink(setup.memory).max(memory_least);
    if engine.options.memory < MEMORY_MIN {
        return Err(CacheError(format!(
            "a sample of {} of the objects leaves {} bytes of memory, too few to represent the \
             whole: use a larger --sample or more --memory",
            sampling.rate(),
            engine.options.memory
        )));
    }
    let machine = Machine::new(drive);
    let cache = EngineCache::create(&machine, region, &engine)?;
    let requests = log.requests();
    let warm_up = requests.len() as u64 * u64::from(options.warm_up.min(99)) / 100;
    let plan = Plan { warm_up, pace: options.pace };
    let timed = Timed::new(cache, machine.clock(), warm_up);
    let counted = variant.watch(requests.len() as u64, requests.iter().copied());
    let figures = whole_cache::run(&machine, &timed, counted, &plan)?;
    Ok(Measured::of(&figures, timed.times(), setup, log))
}

/// Returns the location of the cache on a drive of `most` bytes: `len` bytes, spread over the size
/// that the setup asks for.
fn region(setup: &Setup, len: u64, most: u64) -> Result<Region, CacheError> {
    if setup.disk > most {
        return Err(CacheError(format!(
            "the cache of {} bytes is larger than the drive, which holds {most}: use a smaller \
             --disk or another --drive",
            setup.disk
        )));
    }
    if len < store::CACHE_SIZE_MIN {
        return Err(CacheError(format!(
            "{len} bytes are too few for a cache, {} is the minimum: use a larger --disk{}",
            store::CACHE_SIZE_MIN,
            if len < setup.disk { ", or a larger --sample" } else { "" }
        )));
    }
    let len = len / MIB * MIB;
    Ok(Region { start: 0, spread: (setup.disk / MIB * MIB).max(len), len })
}

#[cfg(test)]
mod tests;
