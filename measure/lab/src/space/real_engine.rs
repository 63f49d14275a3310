//! The engine on a file of this machine: io_uring where available, real time.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use device::{AnyDevice, CacheFile, Clock, Nanos, Ring};
use store::{FormatOptions, Options};
use tokio::task::spawn_local;

use crate::space::engine::EngineSpace;
use crate::space::manager::SpaceError;

/// Maximum number of operations in flight.
const PLACES: u32 = 256;

/// Unix time at which the lab's runs begin, the same for all of them.
const EPOCH: u64 = 1_000_000_000;

/// Real time, with tokio's timer.
#[derive(Clone)]
pub struct RealClock(Instant);

impl RealClock {
    /// Starts a clock at zero.
    pub fn start() -> RealClock {
        RealClock(Instant::now())
    }
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }

    fn unix_seconds(&self) -> u64 {
        EPOCH + self.0.elapsed().as_secs()
    }

    async fn sleep_until(&self, deadline: Nanos) {
        tokio::time::sleep_until((self.0 + Duration::from_nanos(deadline)).into()).await;
    }
}

/// Creates a cache of `len` bytes in the new file `path`, and opens it. Must run in a `LocalSet`,
/// which runs the engine's background.
///
/// # Errors
/// The file cannot be created, or the engine cannot work with these parameters.
pub async fn create(
    path: &Path,
    len: u64,
    format: &FormatOptions,
    options: Options,
) -> Result<EngineSpace<AnyDevice, RealClock>, SpaceError> {
    let engine = |error: &dyn std::fmt::Display| SpaceError::Engine(error.to_string());
    let create = device::OpenOptions { create: Some(len), ..device::OpenOptions::default() };
    let file = CacheFile::open(path, &create).map_err(|error| engine(&error))?;
    let ring = Ring::new(PLACES).ok();
    if let Some(ring) = &ring {
        spawn_local(device::drive(ring.clone()));
    }
    let attached = file.attach(ring.as_ref()).map_err(|error| engine(&error))?;
    let device = Rc::new(attached);
    let counts = Rc::clone(&device);
    let counts = Rc::new(move || counts.counters().snapshot());
    let spawn = |background| _ = spawn_local(background);
    EngineSpace::create(device, RealClock::start(), format, options, counts, spawn).await
}
