//! Reports events of the store in words on standard error.
//!
//! A recovery that takes longer than two seconds is reported every two seconds and when it ends.
//! Everything else is reported at once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::Level;
use store::Event;

/// Interval of progress reports.
const EVERY: Duration = Duration::from_secs(2);

/// Consequence for a transfer whose object is no longer pinned.
const CUT: &str = "if such an object is replaced, purged or evicted, its transfer is cut unless \
                   the origin server can send the rest";

/// Consequence of a device going out of use.
const UNCACHED: &str = "its share of the cache is served without caching";

/// Consequence of a write that hangs.
const STALLED: &str = "until it writes again, no response waits for the disk \
                       (`store.write-bound`), new objects are stored only if they fit in memory, \
                       and purges are refused as not durable";

/// Returns a listener for the store's events. `paths` are the caches in the store's order.
pub fn listener(paths: Vec<PathBuf>) -> impl Fn(Event) + Send + Sync + 'static {
    let due = Mutex::new(Instant::now() + EVERY);
    let reported = AtomicBool::new(false);
    move |event| {
        let path = |device: usize| {
            paths.get(device).map_or_else(|| format!("cache {device}"), |p| p.display().to_string())
        };
        match event {
            Event::Recovering { device, done, of } => {
                let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
                if *due <= Instant::now() {
                    *due = Instant::now() + EVERY;
                    reported.store(true, Ordering::Relaxed);
                    let percent = u64::from(done) * 100 / u64::from(of.max(1));
                    log::info!("{}: recovering, {percent}% of {of} clusters read", path(device));
                }
            }
            Event::Recovered { device, records } => {
                let is_reported = reported.load(Ordering::Relaxed);
                let level = if is_reported { Level::Info } else { Level::Debug };
                log::log!(level, "{}: recovery is complete, {records} records", path(device));
            }
            Event::DeviceError { device, operation, error } => {
                log::error!("{}: {operation} failed: {error}", path(device));
            }
            Event::Offline { device, reason } => {
                log::error!("{}: OUT OF USE, {UNCACHED}: {reason}", path(device));
            }
            Event::PurgesFull { device, entries, max, merged } => {
                purges_full(&path(device), entries, max, merged);
            }
            Event::WritesStalled { device, bound } => {
                log::warn!("{}: a write has taken longer than {bound:?}: {STALLED}", path(device));
            }
            Event::WritesResumed { device, after } => {
                log::info!("{}: the disk writes again after {after:.1?}", path(device));
            }
            Event::SuperblockRestored { device } => {
                log::warn!("{}: one superblock was damaged; the other is used", path(device));
            }
            Event::Shrunken { device, len, expected } => {
                log::warn!(
                    "{}: only {len} of its {expected} bytes are left and the rest of the cache is \
                     lost; set `--cache-size` to grow it again",
                    path(device)
                );
            }
            Event::HoldsRevoked { device, objects, transfers } => {
                let path = path(device);
                if objects > 0 {
                    log::warn!(
                        "{path}: {objects} large objects that clients are reading were unpinned, \
                         because together they exceeded `store.held-percent`; {CUT}"
                    );
                }
                if transfers > 0 {
                    log::warn!(
                        "{path}: {transfers} transfers of large objects took longer than \
                         `store.held-time` and were unpinned; {CUT}"
                    );
                }
            }
            Event::Restaged { device, objects } => restaged(&path(device), objects),
            Event::NoSharedMemory { device, error } => no_shared_memory(&path(device), &error),
            Event::StartedEmpty { device, reason } => {
                log::warn!("{}: the cache starts empty: {reason}", path(device));
            }
        }
    }
}

/// Reports the objects that the last process had not written yet.
fn restaged(path: &str, objects: usize) {
    log::info!("{path}: {objects} objects were kept in shared memory");
}

/// Reports that nothing keeps the objects that wait for their batch.
fn no_shared_memory(path: &str, error: &str) {
    log::warn!(
        "{path}: no memory that outlives the process ({error}): a kill loses the objects of the \
         last `store.durability-bound`; `store.shared-memory` names a directory in a tmpfs, or \
         \"none\""
    );
}

/// Reports that the table of purges is filling up, or that its oldest entries were merged.
fn purges_full(path: &str, entries: usize, max: usize, merged: bool) {
    if merged {
        log::warn!(
            "{path}: more than {max} purges by tag, host, prefix or pattern, or 512 by pattern, \
             were in force: the oldest quarter was merged into one purge of all objects of that \
             age, which will be fetched again"
        );
    } else {
        log::warn!(
            "{path}: {entries} purges by tag, host, prefix or pattern are in force, of at most \
             {max}: beyond that the oldest quarter is merged into one purge of all objects of that \
             age; use fewer, wider purges or a larger cache"
        );
    }
}
