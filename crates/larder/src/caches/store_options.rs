//! Prepares the configured caches for the proxy's workers: devices for each worker, the store's
//! options, and the description at startup.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use cli::units::about;
use device::{AnyDevice, CacheFile, Ring, SharedMemory};
use proxy::Devices;
use store::policy::Admission;
use store::{Options, SharedMemorySource, StoreShare};
use tokio::task::spawn_local;

use crate::caches::open_caches::Cache;
use crate::caches::progress;
use crate::config::configuration::Config;

/// Maximum operations in flight per worker; more wait.
const PLACES: u32 = 256;

pub fn usable(caches: &[Cache]) -> Vec<Arc<CacheFile>> {
    caches.iter().filter_map(Cache::usable).cloned().collect()
}

/// Returns a function that creates each worker's devices: one ring for all of them, or threads if
/// io_uring is refused.
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

/// Returns the bytes of memory that the admission policy uses for each cache.
pub fn admission_bytes(config: &Config) -> u64 {
    Admission::bytes(config.store.admission, config.store.admission_keys)
}

/// Returns a function that opens the memory of the caches at `paths` in `directory`. In place of
/// the default it takes the runtime directory of a service manager, which knows when the service
/// ends for good; the shared memory of its user may go with each process.
fn shared_memory(mut directory: PathBuf, paths: Vec<PathBuf>) -> SharedMemorySource {
    if directory == Path::new("/dev/shm")
        && let Some(given) = std::env::var_os("RUNTIME_DIRECTORY")
        && let Some(first) = std::env::split_paths(&given).next()
    {
        directory = first;
    }
    Arc::new(move |device, uuid, len| {
        let cache = paths.get(device).ok_or(io::ErrorKind::NotFound)?;
        memory_of_cache(&directory, cache, uuid, len)
    })
}

/// Opens the memory of the cache `uuid` at the path `cache`: the file `larder-PATH-UUID`, where
/// PATH is a hash. Removes the memory of earlier caches at this path. The names of two caches
/// differ even if containers share `directory` and have the same paths.
fn memory_of_cache(
    directory: &Path,
    cache: &Path,
    uuid: &[u8; 16],
    len: usize,
) -> io::Result<SharedMemory> {
    let canonical = cache.canonicalize().unwrap_or_else(|_| cache.to_owned());
    let prefix = format!("larder-{:016x}-", fnv_1a(canonical.as_os_str().as_bytes()));
    let name = format!("{prefix}{:032x}", u128::from_be_bytes(*uuid));
    SharedMemory::remove_unused(directory, |other| {
        other.as_bytes().starts_with(prefix.as_bytes()) && other != name.as_str()
    });
    let path = directory.join(name);
    SharedMemory::open(&path, len)
        .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", path.display())))
}

fn fnv_1a(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

pub fn options(config: &Config, files: &[Arc<CacheFile>]) -> Options {
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    let shared_memory =
        config.shared_memory.clone().map(|directory| shared_memory(directory, paths.clone()));
    let on_event = Arc::new(progress::listener(paths));
    // The other nodes of a fleet follow the purges of this node.
    let purge_log = config.fleet.listen.is_some() || config.stream.is_some();
    let memory = config.memory;
    Options { memory, on_event, purge_log, shared_memory, ..config.store.clone() }
}

/// Returns one line for each cache: path, size, fill level, and the kind of its device.
pub fn describe(share: &StoreShare, files: &[Arc<CacheFile>]) -> Vec<String> {
    let lines = files.iter().zip(share.stats()).map(|(file, stats)| {
        let recovering = if stats.recovering { ", recovery is running" } else { "" };
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
    use std::time::Duration;

    use store::policy::AdmissionName;
    use store::{IndexKind, IndexOptions, LayoutName, LocalityOptions, TierShares};

    use crate::config::file::File;
    use crate::config::layers::Layer;
    use crate::config::loaded::Loaded;

    fn options_of(text: &str) -> Options {
        options(&config_of(text), &[])
    }

    fn config_of(text: &str) -> Config {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        loaded.unwrap_or_else(|problems| panic!("{problems}")).config
    }

    /// Formats all options, so that fields added later are compared too.
    fn words(options: &Options) -> String {
        format!("{options:?}")
    }

    #[test]
    fn the_memory_of_an_earlier_cache_at_the_path_is_removed() {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
            eprintln!("SKIPPED: no /dev/shm");
            return;
        };
        let open = |cache: &str, uuid| {
            memory_of_cache(directory.path(), Path::new(cache), &[uuid; 16], 4096)
        };
        let mut kept = open("/cache/a", 1).unwrap();
        kept.write(0, b"kept");
        drop(kept);
        // A copy of the cache at another path does not get its objects.
        assert_eq!(open("/cache/b", 1).unwrap().read(0, 4), [0; 4]);
        assert_eq!(open("/cache/a", 1).unwrap().read(0, 4), b"kept");
        assert_eq!(open("/cache/a", 2).unwrap().read(0, 4), [0; 4]);
        assert_eq!(directory.path().read_dir().unwrap().count(), 2);
        let used = open("/cache/a", 2).unwrap();
        assert!(open("/cache/a", 3).is_ok(), "another process, in a container with the same path");
        assert!(open("/cache/a", 2).is_err(), "in use");
        used.remove();
    }

    #[test]
    fn a_preset_alone_is_exactly_that_of_the_store() {
        assert_eq!(words(&options_of("")), words(&Options::default()));
        for name in store::PRESETS {
            let text = format!("preset = '{name}'");
            let theirs = store::preset(name).unwrap();
            assert_eq!(words(&options_of(&text)), words(&theirs.options), "{name}");
            let format = (config_of(&text)).format_options();
            assert_eq!(format!("{format:?}"), format!("{:?}", theirs.format), "{name}");
        }
    }

    #[test]
    fn a_preset_decides_what_is_not_given() {
        let text = "preset = 'ucfs'\nlayout = 'stream'\n[store]\n\
                    read-unit = 'object'\none-timer-hours = 0\n\
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
        let format = (config_of(text)).format_options();
        assert_eq!((format.cluster_size, format.mean_object), (Some(128 << 10), Some(5 << 10)));
        let text = "layout = 'buddy'\n[store]\nslot-size = '1K'\nbuddy-threshold = '64K'\n\
                    stream-runs = 5";
        let format = (config_of(text)).format_options();
        assert_eq!(format.layout, LayoutName::Buddy);
        assert_eq!((format.slot_size, format.buddy_threshold), (1 << 10, 64 << 10));
        assert_eq!(format.stream_runs, 5);
    }
}
