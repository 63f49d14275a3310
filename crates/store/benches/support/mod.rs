//! Common parts of the engine's benchmarks: the engine on a real file, loads of requests,
//! and a device that takes little memory.

// No benchmark uses all of it.
#![allow(dead_code)]

pub mod arm;
pub mod elided;
pub mod figures;
pub mod objects;
pub mod pages;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use device::{AnyDevice, CacheFile, Contents, Ring, SystemClock};
use larder_store::{FormatOptions, Options, Store, TierAdmission};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, LocalSet};

/// Processor seconds of this thread so far.
pub fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor seconds of this process so far.
pub fn process_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
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

/// Runs a task on a runtime of its own; an error when a signal came before its end. The task is
/// dropped then, with whatever takes things away when it goes.
pub fn on_runtime<T>(task: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let on = |kind| signal(kind).unwrap();
        let mut interrupt = on(SignalKind::interrupt());
        let mut terminate = on(SignalKind::terminate());
        let mut hangup = on(SignalKind::hangup());
        tokio::select! {
            value = task => Ok(value),
            _ = interrupt.recv() => Err("interrupted".to_owned()),
            _ = terminate.recv() => Err("terminated".to_owned()),
            _ = hangup.recv() => Err("hung up".to_owned()),
        }
    })
}

/// Runs so many sessions side by side until all have ended. Each is made of its number.
pub async fn side_by_side<F: Future<Output = ()> + 'static>(
    count: usize,
    session: impl FnMut(usize) -> F,
) {
    let mut sessions = JoinSet::new();
    for session in (0..count).map(session) {
        sessions.spawn_local(session);
    }
    while let Some(ended) = sessions.join_next().await {
        ended.unwrap();
    }
}

/// The admission to memory that is called so on the command line.
pub fn tier_admission(name: &str) -> TierAdmission {
    match name {
        "all" => TierAdmission::All,
        "second-use" => TierAdmission::SecondUse,
        other => panic!("expected all or second-use, got {other}"),
    }
}

/// A path where there is no file before and after.
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Takes away what is there.
    pub fn at(path: &Path) -> Result<TemporaryFile, String> {
        if path.exists() {
            if !path.is_file() {
                return Err(format!("{} is no regular file", path.display()));
            }
            std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(TemporaryFile(path.to_owned()))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub type Engine = Store<AnyDevice, SystemClock>;

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
        larder_store::format_with_seed(&*device, format, [7; 48], 0).await.unwrap();
    }
    let clock = SystemClock::new();
    let engine = Store::open(vec![Rc::clone(&device)], clock, options).await.unwrap();
    let background = engine.clone();
    tokio::task::spawn_local(async move { background.run_background().await });
    (engine, device)
}
