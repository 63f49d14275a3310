//! Sizes that Larder chooses if they are not configured.
//!
//! The decisions are pure functions of the machine's sizes; the few functions at the end query the
//! machine.

use std::fs;
use std::io;
use std::path::Path;

use cli::units::about;
use nix::sys::statvfs::{Statvfs, statvfs};

use crate::config::cgroup;

const M: u64 = 1 << 20;

/// The default size of a new cache in bytes.
pub const DEFAULT_CACHE_SIZE: u64 = 10 << 30;

/// The default memory in bytes, if the machine has enough.
pub const DEFAULT_MEMORY: u64 = 256 * M;

/// The largest default memory in bytes for bodies that wait for slow clients.
const CLIENT_BUFFERS_MAX: u64 = 64 * M;

pub const MEMORY_MIN: u64 = 16 * M;

/// The default maximum number of client connections.
const DEFAULT_CONNECTIONS: usize = 16_384;

/// Descriptors reserved for other uses than connections: cache, log, listeners, rings, and spares.
const OTHER_DESCRIPTORS: u64 = 128;

/// Returns the default size of a new cache in a file system with `free` bytes:
/// [`DEFAULT_CACHE_SIZE`], but at most a tenth of the free space, in whole MiB. `caches` caches
/// that are created together share the tenth.
pub fn default_cache_size(free: u64, caches: u64) -> u64 {
    let share = free / 10 / caches.max(1);
    DEFAULT_CACHE_SIZE.min(share) / M * M
}

/// Returns the default memory for a process that may use `available` bytes: [`DEFAULT_MEMORY`], but
/// at most half of these, in whole MiB. The other half is for connections, bodies in transit and
/// the page cache.
pub fn default_memory(available: Option<u64>) -> u64 {
    let half = available.map_or(DEFAULT_MEMORY, |available| available / 2 / M * M);
    half.clamp(MEMORY_MIN, DEFAULT_MEMORY)
}

/// Returns the default memory in bytes for bodies that wait for slow clients.
pub fn client_buffers(memory: u64) -> u64 {
    (memory / 4).min(CLIENT_BUFFERS_MAX)
}

/// Returns an error message if an index of `index` bytes would use more than half of `memory`.
pub fn check_index(index: u64, memory: u64) -> Result<(), String> {
    if index <= memory / 2 {
        return Ok(());
    }
    Err(format!(
        "the index of the cache takes {}, more than half of the {} of memory: give at least \
         --memory {}M, or use a smaller cache, a larger store.mean-object or fewer \
         store.index-entries",
        about(index),
        about(memory),
        (index * 2).div_ceil(M),
    ))
}

/// Returns an error message if an admission policy would use more than a quarter of `memory`.
pub fn check_admission(bytes: u64, memory: u64) -> Result<(), String> {
    if bytes <= memory / 4 {
        return Ok(());
    }
    Err(format!(
        "the admission policy (store.admission) takes {}, more than a quarter of the {} of \
         memory: give at least --memory {}M, or use fewer store.admission-keys",
        about(bytes),
        about(memory),
        (bytes * 4).div_ceil(M),
    ))
}

/// Returns the maximum number of client connections for a process with `descriptors` file
/// descriptors. A client uses up to two: its own and one to an origin server.
pub fn connections(asked: Option<usize>, descriptors: u64) -> usize {
    let affordable = descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2;
    let affordable = usize::try_from(affordable).unwrap_or(usize::MAX).max(16);
    asked.unwrap_or(DEFAULT_CONNECTIONS.min(affordable))
}

/// Returns the number of workers: the configured one, or the cores that affinity and cgroup quota
/// leave.
pub fn workers(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the bytes of memory that this process may use: the smaller of the machine's memory and
/// the limit of its control groups; `None` if the system reports neither.
pub fn machine_memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    cgroup::memory_limit().into_iter().chain(machine).min()
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn mem_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the bytes that this process could still write to the file system of `path`, a file that
/// need not exist.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let stat = file_system(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Returns the statistics of the file system of the directory of `path`.
pub fn file_system(path: &Path) -> io::Result<Statvfs> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(statvfs(directory.unwrap_or(Path::new(".")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = 1 << 30;

    #[test]
    fn the_admission_policy_must_fit_into_memory() {
        assert_eq!(check_admission(64 * M, 256 * M), Ok(()));
        let error = check_admission(64 * M + 1, 256 * M).unwrap_err();
        assert!(error.contains("--memory 257M"), "{error}");
    }

    #[test]
    fn the_default_is_ten_gigabytes_or_a_tenth_of_the_free_space() {
        assert_eq!(default_cache_size(1000 * G, 1), 10 * G);
        assert_eq!(default_cache_size(100 * G, 1), 10 * G);
        assert_eq!(default_cache_size(50 * G, 1), 5 * G);
        assert_eq!(default_cache_size(50 * G, 2), 5 * G / 2);
        assert_eq!(default_cache_size(105 * M, 1), 10 * M);
        assert_eq!(default_cache_size(0, 1), 0);
    }

    #[test]
    fn the_default_memory_is_at_most_half_of_what_there_is() {
        assert_eq!(default_memory(None), 256 * M);
        assert_eq!(default_memory(Some(8 * G)), 256 * M);
        assert_eq!(default_memory(Some(96 * M + 1)), 48 * M);
        assert_eq!(default_memory(Some(M)), MEMORY_MIN);
    }

    #[test]
    fn an_index_beyond_half_the_memory_is_refused_with_figures() {
        assert_eq!(check_index(128 * M, 256 * M), Ok(()));
        let why = check_index(200 * M, 256 * M).expect_err("too large");
        assert!(why.contains("takes 200M, more than half of the 256M"), "{why}");
        assert!(why.contains("--memory 400M"), "{why}");
    }

    #[test]
    fn connections_follow_the_limit_of_open_files() {
        assert_eq!(connections(None, 1 << 20), 16_384);
        assert_eq!(connections(None, 1024), 448);
        assert_eq!(connections(None, 64), 16);
        assert_eq!(connections(Some(5), 1024), 5);
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert_eq!(mem_total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2048 << 10));
        assert_eq!(mem_total("MemTotal: x kB"), None);
        assert!(machine_memory().is_none_or(|bytes| bytes > 0));
    }

    #[test]
    fn free_space_of_a_missing_file_is_that_of_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(&dir.path().join("missing")).unwrap() > 0);
        assert!(free_space(&dir.path().join("no/such/directory")).is_err());
        assert!(free_space(Path::new("larder.cache")).unwrap() > 0);
    }
}
