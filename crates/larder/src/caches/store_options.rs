//! The caches of the configuration as the proxy's workers use them: devices for each worker, the
//! store's options, and what start-up tells of them.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use device::{AnyDevice, CacheFile, Ring};
use proxy::Devices;
use store::policy::{Admission, AdmissionName};
use store::{
    FormatOptions, IndexKind, IndexOptions, LayoutName, LocalityOptions, Options, Preset,
    StoreShare, TierShares,
};
use tokio::task::spawn_local;

use crate::caches::open_caches::Cache;
use crate::caches::progress;
use crate::config::loaded::{Config, Prefer, ReadUnit, TierAdmission, WritePolicy};
use crate::config::units::about;

/// Operations in flight of one worker at most; more wait.
const PLACES: u32 = 256;

/// Bytes of a locality buffer of which only the number was given.
const LOCALITY_SIZE: u32 = 64 << 10;

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

/// The preset that the configuration names.
fn preset(config: &Config) -> Preset {
    // The declaration of the setting lists the names, so a configuration has one of them.
    store::preset(&config.preset).unwrap_or_else(|| panic!("a preset {:?}", config.preset))
}

/// Which index the caches have, and how large.
pub fn index_options(config: &Config) -> IndexOptions {
    let (ours, preset) = (&config.store, preset(config).options.index);
    IndexOptions {
        kind: ours.index.as_deref().and_then(IndexKind::from_name).unwrap_or(preset.kind),
        entries: ours.index_entries.or(preset.entries),
    }
}

/// How memory is divided.
pub fn tier_shares(config: &Config) -> TierShares {
    let preset = preset(config).options.tier_shares;
    TierShares {
        hot: config.store.tier_hot.unwrap_or(preset.hot),
        medium: config.store.tier_medium.unwrap_or(preset.medium),
    }
}

/// The locality buffers, if there are to be any.
fn locality(config: &Config, preset: Option<LocalityOptions>) -> Option<LocalityOptions> {
    let buffers = config.store.locality_buffers.or(preset.map(|locality| locality.buffers))?;
    let bytes = config.store.locality_size.or(preset.map(|locality| locality.bytes));
    let bytes = bytes.unwrap_or(LOCALITY_SIZE);
    (buffers > 0).then_some(LocalityOptions { buffers, bytes })
}

/// What a new cache is created with.
pub fn format_options(config: &Config) -> FormatOptions {
    let (ours, preset) = (&config.store, preset(config).format);
    FormatOptions {
        superblock_far: true,
        labels: true,
        layout: config.layout.as_deref().and_then(LayoutName::from_name).unwrap_or(preset.layout),
        mean_object: ours.mean_object.or(preset.mean_object),
        memory: config.memory,
        cluster_size: ours.cluster_size.or(preset.cluster_size),
        index: index_options(config),
        slot_size: ours.slot_size.unwrap_or(preset.slot_size),
        buddy_threshold: ours.buddy_threshold.unwrap_or(preset.buddy_threshold),
        stream_runs: ours.stream_runs.unwrap_or(preset.stream_runs),
    }
}

fn admission(name: Option<&str>) -> Option<AdmissionName> {
    // The declaration of the setting lists the names, so a configuration has one of them.
    name.map(|name| name.parse().unwrap_or_else(|error| panic!("{error}")))
}

/// Bytes of memory that the admission policy takes for each cache.
pub fn admission_bytes(config: &Config) -> u64 {
    let name = admission(config.store.admission.as_deref());
    let name = name.unwrap_or(preset(config).options.admission);
    Admission::bytes(name, config.store.admission_keys)
}

/// The store's options.
pub fn options(config: &Config, files: &[Arc<CacheFile>]) -> Options {
    let ours = &config.store;
    let preset = preset(config).options;
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    Options {
        memory: config.memory,
        write_policy: match ours.write_policy {
            Some(WritePolicy::OnInsert) => store::WritePolicy::OnInsert,
            Some(WritePolicy::OnEvict) => store::WritePolicy::OnEvict,
            None => preset.write_policy,
        },
        read_unit: match ours.read_unit {
            Some(ReadUnit::Object) => store::ReadUnit::Object,
            Some(ReadUnit::Cluster) => store::ReadUnit::Cluster,
            None => preset.read_unit,
        },
        read_window_max: ours.read_window,
        read_batch: ours.read_batch.unwrap_or(preset.read_batch),
        read_batch_timeout: ours.read_batch_timeout,
        read_batch_split: ours.read_batch_split.unwrap_or(preset.read_batch_split),
        durability_bound: ours.durability_bound.unwrap_or(preset.durability_bound),
        flush_interval: ours.flush_interval,
        stall_bound: ours.stall_bound,
        held_percent: ours.held_percent,
        held_time: ours.held_time,
        object_max: ours.max_object.or(preset.object_max),
        admission: admission(ours.admission.as_deref()).unwrap_or(preset.admission),
        admission_keys: ours.admission_keys,
        one_timer_age: match ours.one_timer_hours {
            Some(0) => None,
            Some(hours) => Some(Duration::from_secs(hours * 3600)),
            None => preset.one_timer_age,
        },
        reference_half_life: ours.reference_half_life.unwrap_or(preset.reference_half_life),
        aging_mean: ours.aging_mean.unwrap_or(preset.aging_mean),
        young_percent: ours.young_percent.unwrap_or(preset.young_percent),
        prefer: match ours.prefer {
            Some(Prefer::Requests) => store::Prefer::Requests,
            Some(Prefer::Bytes) => store::Prefer::Bytes,
            None => preset.prefer,
        },
        index: index_options(config),
        tier_shares: tier_shares(config),
        tier_admission: match ours.tier_admission {
            Some(TierAdmission::All) => store::TierAdmission::All,
            Some(TierAdmission::SecondUse) => store::TierAdmission::SecondUse,
            None => preset.tier_admission,
        },
        group_share: ours.group_share.unwrap_or(preset.group_share),
        group_batch: ours.group_batch.unwrap_or(preset.group_batch),
        group_small: ours.group_small.unwrap_or(preset.group_small),
        group_slack: ours.group_slack.unwrap_or(preset.group_slack),
        policy: ours.policy.as_deref().and_then(|name| name.parse().ok()).unwrap_or(preset.policy),
        fill_percent: ours.fill_percent.or(preset.fill_percent),
        packet: ours.packet.unwrap_or(preset.packet),
        write_page: preset.write_page,
        evict_max: ours.evict_max.unwrap_or(preset.evict_max),
        batch: ours.batch.unwrap_or(preset.batch),
        locality: locality(config, preset.locality),
        purges: config.purge.entries,
        on_event: Arc::new(progress::listener(paths)),
        ..preset
    }
}

/// One line on each cache: where, how large, how full, how it is reached.
pub fn describe(share: &StoreShare, files: &[Arc<CacheFile>]) -> Vec<String> {
    let lines = files.iter().zip(share.stats()).map(|(file, stats)| {
        let recovering = if stats.recovering { ", recovery goes on" } else { "" };
        let direct = if file.is_direct() { "O_DIRECT" } else { "page cache" };
        let unit = match &stats.slots {
            Some(slots) => format!("slots of {} bytes", slots.slot_bytes),
            None => format!("clusters of {}", about(u64::from(stats.cluster_size))),
        };
        format!(
            "cache {}: {}, {}% full, {} records{recovering} (layout {}, {unit}, {direct})",
            file.path().display(),
            about(file.geometry().len),
            stats.percent_full(),
            stats.index_entries,
            stats.layout,
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::loaded::{File, Layer, Loaded};

    fn options_of(text: &str) -> Options {
        options(&config_of(text), &[])
    }

    fn config_of(text: &str) -> Config {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        loaded.unwrap_or_else(|problems| panic!("{problems}")).config
    }

    /// All of it in words, so that a field that is added later is compared too.
    fn words(options: &Options) -> String {
        format!("{options:?}")
    }

    #[test]
    fn a_preset_alone_is_exactly_that_of_the_store() {
        assert_eq!(words(&options_of("")), words(&Options::default()));
        for name in store::PRESETS {
            let text = format!("preset = '{name}'");
            let theirs = store::preset(name).unwrap();
            assert_eq!(words(&options_of(&text)), words(&theirs.options), "{name}");
            let format = format_options(&config_of(&text));
            assert_eq!(format!("{format:?}"), format!("{:?}", theirs.format), "{name}");
        }
    }

    #[test]
    fn a_preset_decides_what_is_not_given() {
        let text = "preset = 'ucfs'\n[store]\nread-unit = 'object'\none-timer-hours = 0\n\
                    write-policy = 'on-insert'\nmax-object = '1M'\naging-mean = 3\n\
                    young-percent = 7\nprefer = 'bytes'\nindex = 'compact'\nindex-entries = 4000\n\
                    tier-hot = 10\ntier-medium = 60\n\
                    tier-admission = 'second-use'\ngroup-share = 25\ngroup-batch = 2\n\
                    group-small = 100\ngroup-slack = 200\nread-batch = 8\n\
                    read-batch-split = 4\nadmission = 'second-hit'\n\
                    admission-keys = 2000\n\
                    durability-bound = '2s'\npolicy = 's3-fifo'\n\
                    fill-percent = 80\npacket = '16K'\nevict-max = 9\n\
                    locality-buffers = 8";
        let expected = Options {
            read_unit: store::ReadUnit::Object,
            one_timer_age: None,
            write_policy: store::WritePolicy::OnInsert,
            object_max: Some(1 << 20),
            aging_mean: 3,
            young_percent: 7,
            prefer: store::Prefer::Bytes,
            index: IndexOptions { kind: IndexKind::Compact, entries: Some(4000) },
            tier_shares: TierShares { hot: 10, medium: 60 },
            tier_admission: store::TierAdmission::SecondUse,
            group_share: 25,
            group_batch: 2,
            group_small: 100,
            group_slack: 200,
            read_batch: 8,
            read_batch_split: 4,
            admission: AdmissionName::SecondHit,
            admission_keys: 2000,
            durability_bound: Duration::from_secs(2),
            policy: store::policy::PolicyName::S3Fifo,
            fill_percent: Some(80),
            packet: 16 << 10,
            evict_max: 9,
            locality: Some(LocalityOptions { buffers: 8, bytes: 64 << 10 }),
            ..Options::ucfs()
        };
        assert_eq!(words(&options_of(text)), words(&expected));
        let hours = options_of("[store]\none-timer-hours = 115");
        assert_eq!(hours.one_timer_age, Some(Duration::from_secs(115 * 3600)));
        let text = "preset = 'tfs'\n[store]\ncluster-size = '128K'\nmean-object = '5K'";
        let format = format_options(&config_of(text));
        assert_eq!((format.cluster_size, format.mean_object), (Some(128 << 10), Some(5 << 10)));
        let text = "layout = 'buddy'\n[store]\nslot-size = '1K'\nbuddy-threshold = '64K'\n\
                    stream-runs = 5";
        let format = format_options(&config_of(text));
        assert_eq!(format.layout, LayoutName::Buddy);
        assert_eq!((format.slot_size, format.buddy_threshold), (1 << 10, 64 << 10));
        assert_eq!(format.stream_runs, 5);
    }
}
