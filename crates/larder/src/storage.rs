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

#[cfg(test)]
mod tests {
    use store::WritePolicy;

    use super::*;
    use crate::config::{File, Layer, Loaded};

    fn options_of(text: &str) -> Options {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        options(&loaded.unwrap_or_else(|problems| panic!("{problems}")).config, &[])
    }

    #[test]
    fn the_defaults_are_those_of_the_store() {
        let (ours, theirs) = (options_of(""), Options::default());
        assert_eq!(ours.memory, theirs.memory);
        assert_eq!(ours.write_policy, theirs.write_policy);
        assert_eq!(ours.read_unit, theirs.read_unit);
        assert_eq!(ours.durability_bound, theirs.durability_bound);
        assert_eq!(ours.flush_interval, theirs.flush_interval);
        assert_eq!(ours.stall_bound, theirs.stall_bound);
        assert_eq!(ours.object_max, theirs.object_max);
        assert_eq!(ours.one_timer_age, None);
        assert_eq!(ours.aging_mean, theirs.aging_mean);
    }

    #[test]
    fn a_preset_decides_what_is_not_given() {
        let ucfs = options_of("[store]\npreset = 'ucfs'");
        assert_eq!(ucfs.write_policy, WritePolicy::OnEvict);
        assert_eq!(ucfs.read_unit, store::ReadUnit::Cluster);
        assert_eq!(ucfs.one_timer_age, Some(Duration::from_secs(115 * 3600)));
        let text = "[store]\npreset = 'ucfs'\nread-unit = 'object'\none-timer-hours = 0";
        let mixed = options_of(text);
        assert_eq!(mixed.write_policy, WritePolicy::OnEvict);
        assert_eq!(mixed.read_unit, store::ReadUnit::Object);
        assert_eq!(mixed.one_timer_age, None);
        let hours = options_of("[store]\none-timer-hours = 115");
        assert_eq!(hours.one_timer_age, Some(Duration::from_secs(115 * 3600)));
    }
}
