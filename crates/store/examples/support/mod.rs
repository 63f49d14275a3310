//! What the benchmarks of the engine share: a clock, the engine on a real file, and a device that
//! takes little memory.

// No benchmark uses all of it.
#![allow(dead_code)]

pub mod arm;
pub mod elided;
pub mod objects;
pub mod recovery;

use std::path::Path;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use device::{AnyDevice, CacheFile, Clock, Contents, Nanos, Ring};
use store::{FormatOptions, Options, Store};

/// Real time, through tokio's timer.
#[derive(Clone)]
pub struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }
    fn unix_seconds(&self) -> u64 {
        1_700_000_000 + self.0.elapsed().as_secs()
    }
    async fn sleep_until(&self, deadline: Nanos) {
        tokio::time::sleep_until((self.0 + Duration::from_nanos(deadline)).into()).await;
    }
}

impl TokioClock {
    /// A clock that starts now.
    pub fn new() -> TokioClock {
        TokioClock(Instant::now())
    }
}

/// Processor seconds of this thread so far.
pub fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process had resident, in bytes.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Lets the other tasks of the thread go on first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub type Engine = Store<AnyDevice, TokioClock>;

/// Opens the cache on `path`, creating one of `size` bytes as `format` says where
/// there is none, with its background running.
pub async fn open(
    path: &Path,
    size: u64,
    format: &FormatOptions,
    options: Options,
) -> (Engine, Rc<AnyDevice>) {
    let create = device::OpenOptions { create: Some(size), ..device::OpenOptions::default() };
    let file = CacheFile::open(path, &create).unwrap();
    let ring = Ring::new(256).unwrap();
    tokio::task::spawn_local(device::drive(ring.clone()));
    let device = Rc::new(file.attach(Some(&ring)).unwrap());
    if file.was_created() || matches!(file.contents(), Ok(Contents::Blank)) {
        store::format(&*device, format, [7; 48], 0).await.unwrap();
    }
    let clock = TokioClock::new();
    let engine = Store::open(vec![Rc::clone(&device)], clock, options).await.unwrap();
    let background = engine.clone();
    tokio::task::spawn_local(async move { background.run_background().await });
    (engine, device)
}
