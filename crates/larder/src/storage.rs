//! The caches of the configuration as the proxy's workers use them: devices for each worker, the
//! store's options, and what start-up tells of them.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::{AnyDevice, CacheFile, Ring};
use proxy::Devices;
use store::{Options, StoreShare};
use tokio::task::spawn_local;

use crate::caches::Cache;
use crate::config::{Config, Preset, ReadUnit};
use crate::progress;
use crate::units::about;

/// Operations in flight of one worker at most; more wait.
const PLACES: u32 = 256;

/// The files of the caches that can be used.
pub fn usable(caches: &[Cache]) -> Vec<Arc<CacheFile>> {
    let usable = caches.iter().filter(|cache| cache.unusable.is_none());
    usable.map(|cache| cache.file.clone()).collect()
}

/// Makes each worker's devices: one ring for all, threads where io_uring is refused.
pub fn devices(files: Vec<Arc<CacheFile>>) -> Box<Devices> {
    Box::new(move |_worker| {
        let ring = ring(&files);
        let attach = |file: &Arc<CacheFile>| file.attach(ring.as_ref()).map(Rc::new);
        files.iter().map(attach).collect::<io::Result<Vec<Rc<AnyDevice>>>>()
    })
}

fn ring(files: &[Arc<CacheFile>]) -> Option<Ring> {
    match Ring::new(PLACES) {
        Ok(ring) => {
            spawn_local(device::drive(ring.clone()));
            Some(ring)
        }
        Err(fallback) => {
            files.iter().for_each(|file| file.note(fallback.clone()));
            None
        }
    }
}

/// The store's options.
pub fn options(config: &Config, files: &[Arc<CacheFile>]) -> Options {
    let ours = &config.store;
    let preset = match ours.preset {
        Preset::Default => Options::default(),
        Preset::Ucfs => Options::ucfs(),
    };
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    Options {
        memory: config.memory,
        read_unit: match ours.read_unit {
            Some(ReadUnit::Object) => store::ReadUnit::Object,
            Some(ReadUnit::Cluster) => store::ReadUnit::Cluster,
            None => preset.read_unit,
        },
        durability_bound: ours.durability_bound,
        flush_interval: ours.flush_interval,
        stall_bound: ours.stall_bound,
        object_max: ours.max_object,
        one_timer_age: match ours.one_timer_hours {
            Some(0) => None,
            Some(hours) => Some(Duration::from_secs(hours * 3600)),
            None => preset.one_timer_age,
        },
        aging_mean: ours.aging_mean,
        on_event: Arc::new(progress::listener(paths)),
        ..preset
    }
}

/// One line on each cache: where, how large, how full, how it is reached.
pub fn describe(share: &StoreShare, files: &[Arc<CacheFile>]) -> Vec<String> {
    let lines = files.iter().zip(share.stats()).map(|(file, stats)| {
        let full = u64::from(stats.clusters_in_use) * 100 / u64::from(stats.clusters.max(1));
        let recovering = if stats.recovering { ", recovery goes on" } else { "" };
        let direct = if file.is_direct() { "O_DIRECT" } else { "page cache" };
        format!(
            "cache {}: {}, {full}% full, {} records{recovering} (clusters of {}, {direct})",
            file.path().display(),
            about(file.geometry().len),
            stats.index_entries,
            about(u64::from(stats.cluster_size)),
        )
    });
    lines.collect()
}
