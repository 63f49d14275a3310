//! Opens the caches for `larder serve`: creates missing ones, refuses foreign files and devices,
//! and grows caches whose configured size was raised.
//!
//! Guarantees: foreign data is never overwritten, nor is a cache whose superblocks are both
//! damaged. Every refusal names a way out.
//!
//! An operator's mistake (a wrong path, missing permissions, too little space) is an error. A disk
//! that fails or is read-only only takes the caches on it out of use: the others are used, and
//! without any cache everything is served uncached. Copies of one cache are treated the same way:
//! both are taken out of use.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cli::units::{about, size};
use device::{CacheFile, Contents, Extent, FileKind, OpenOptions};
use nix::sys::statvfs::FsFlags;
use store::{
    CREATION_MARK, FormatError, FormatOptions, Inspector, METADATA_EXTENT, OpenError,
    SuperblockReport, superblock_extents,
};

use crate::caches::executor::on_device;
use crate::caches::store_options;
use crate::config::configuration::Config;
use crate::config::sizing;

/// How long to wait for another process to end or to finish creating a cache, and the pause between
/// two checks.
const IN_USE_PATIENCE: Duration = Duration::from_secs(2);
const IN_USE_PAUSE: Duration = Duration::from_millis(20);

/// The smallest cache in bytes that is created without an explicit size.
const SMALLEST_DEFAULT: u64 = 64 << 20;

pub struct Cache {
    pub path: PathBuf,
    /// The open and locked file or block device; `None` if it cannot be opened.
    pub file: Option<Arc<CacheFile>>,
    /// The reason why the cache is unusable, if it is; its share is then served uncached.
    pub unusable: Option<String>,
}

impl Cache {
    /// Returns the file if the cache is usable.
    pub fn usable(&self) -> Option<&Arc<CacheFile>> {
        self.file.as_ref().filter(|_| self.unusable.is_none())
    }
}

enum Refusal {
    /// The operator has to change something first.
    Mistake(String),
    /// The program runs without the cache: its disk is at fault, or the file belongs to another
    /// cache.
    Unusable(String),
}

impl From<device::OpenError> for Refusal {
    fn from(error: device::OpenError) -> Refusal {
        match error.is_fault_of_disk() {
            true => Refusal::Unusable(error.to_string()),
            false => Refusal::Mistake(error.to_string()),
        }
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Mistake(why)
    }
}

/// Opens all caches of the configuration. Before anything is created or grown, all sizes are
/// determined and the index is known to fit into memory.
pub fn open_all(config: &Config) -> Result<Vec<Cache>, String> {
    config.cache.iter().for_each(|path| discard_unfinished(path));
    let is_to_be_made = |path: &Path| is_new(path) && !is_read_only(path);
    let new = config.cache.iter().filter(|path| is_to_be_made(path)).count() as u64;
    let mut sizes = Vec::new();
    let mut lens = Vec::new();
    for path in &config.cache {
        let size = match is_to_be_made(path) {
            true => Some(size_of_new(config, path, new)?),
            false => None,
        };
        // A block device's length shows as 0 here; the store checks the index when it opens.
        let existing = fs::metadata(path).map_or(0, |data| data.len());
        let len = size.unwrap_or(existing.max(config.cache_size.unwrap_or(0)));
        lens.push(len);
        sizes.push(size);
    }
    let shares = shares(&lens, config.memory);
    let index = |(len, share): (&u64, &u64)| {
        let mean_object = format_options(config, *share).mean_object_for(*len);
        config.store.index.bytes(*len, mean_object)
    };
    let index = lens.iter().zip(&shares).map(index).sum();
    sizing::check_index(index, config.memory)?;
    let admission = store_options::admission_bytes(config) * config.cache.len() as u64;
    sizing::check_admission(admission, config.memory)?;
    for (path, size) in config.cache.iter().zip(&sizes) {
        size.map_or(Ok(()), |size| check_room(path, size))?;
    }
    let mut caches: Vec<Cache> = Vec::new();
    for ((path, size), share) in config.cache.iter().zip(sizes).zip(shares) {
        let opened = match same_as(&caches, path) {
            Some(why) => Err(Refusal::Unusable(why)),
            None => open(config, path, size, share),
        };
        caches.push(match opened {
            Ok(cache) => cache,
            Err(Refusal::Mistake(why)) => return Err(why),
            Err(Refusal::Unusable(why)) => {
                // The message that names the cache already has the path.
                let begin = format!("{}: ", path.display());
                let why = why.strip_prefix(&begin).unwrap_or(&why).to_owned();
                Cache { path: path.clone(), file: None, unusable: Some(why) }
            }
        });
    }
    refuse_copies(&mut caches);
    // Check again with the parameters that the caches were created with, which may differ from the
    // configuration.
    let usable = caches.iter().filter_map(Cache::usable);
    let index = usable.map(|file| index_bytes(config, file)).sum();
    sizing::check_index(index, config.memory)?;
    Ok(caches)
}

/// Returns a reason if the path leads to a file or device that is already open as a cache.
fn same_as(caches: &[Cache], path: &Path) -> Option<String> {
    let identity = |path: &Path| {
        let data = fs::metadata(path).ok()?;
        let is_device = data.file_type().is_block_device();
        Some(if is_device { (None, data.rdev()) } else { (Some(data.dev()), data.ino()) })
    };
    let this = identity(path)?;
    let other = caches.iter().find(|cache| identity(&cache.path) == Some(this))?;
    let other = other.path.display();
    Some(format!("it is the same file as {other}; remove one of the two from `cache`"))
}

/// Takes caches with the same identity out of use. Objects purged from one since the other was
/// copied would still be found in the other, and it is unknown which of them has all purges.
fn refuse_copies(caches: &mut [Cache]) {
    let identity = |cache: &Cache| superblock(cache.usable()?).map(|superblock| superblock.uuid);
    let identities: Vec<_> = caches.iter().map(identity).collect();
    let paths: Vec<String> = caches.iter().map(|cache| cache.path.display().to_string()).collect();
    for (number, cache) in caches.iter_mut().enumerate() {
        let is_copy = |other: &usize| {
            *other != number
                && identities[number].is_some()
                && identities[*other] == identities[number]
        };
        if let Some(other) = (0..paths.len()).find(is_copy) {
            cache.unusable = Some(format!(
                "it has the same identity as {}: one is a copy of the other, or both are one \
                 device, and the older copy would serve purged objects again. Remove the older \
                 one from `cache`",
                paths[other]
            ));
        }
    }
}

/// Returns the superblock of a cache; `None` if it cannot be read.
fn superblock(file: &Arc<CacheFile>) -> Option<SuperblockReport> {
    let read = on_device(file, async |device| {
        let inspector = Inspector::open(&device).await;
        inspector.map(|inspector| inspector.superblock())
    });
    // The store encounters the same error and reports it.
    read.ok()?.ok()
}

/// Empties a file whose creation as a cache was interrupted, unless the creation is still running.
pub fn discard_unfinished(path: &Path) {
    let begin = Instant::now();
    while let Some(file) = unfinished(path) {
        let at = path.display();
        match file.try_lock() {
            Ok(()) => match file.set_len(0) {
                Ok(()) => {
                    return log::warn!("{at}: its creation was interrupted; creating it again");
                }
                Err(error) => return log::warn!("{at}: cannot empty it: {error}"),
            },
            // A killed process keeps its lock until the kernel has released its ring.
            Err(_) if begin.elapsed() < IN_USE_PATIENCE => thread::sleep(IN_USE_PAUSE),
            Err(_) => return,
        }
    }
}

/// Returns the file at `path` if a creation has begun in it and not finished.
fn unfinished(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(|data| data.is_file())?;
    let file = File::options().read(true).write(true).open(path).ok()?;
    let mut first = [0; CREATION_MARK.len()];
    file.read_exact_at(&mut first, 0).ok()?;
    (first == CREATION_MARK).then_some(file)
}

/// Returns whether the file system that would hold a file at `path` is read-only.
pub fn is_read_only(path: &Path) -> bool {
    sizing::file_system(path).is_ok_and(|stat| stat.flags().contains(FsFlags::ST_RDONLY))
}

/// Returns the memory share of each cache, given these lengths, as the store divides memory. If a
/// length is still unknown (0: a block device) and there are several caches, all shares are 0.
fn shares(lens: &[u64], memory: u64) -> Vec<u64> {
    let total: u128 = lens.iter().map(|len| u128::from(*len)).sum();
    let share = |len: &u64| match lens {
        [_] => memory,
        _ if lens.contains(&0) => 0,
        _ => (u128::from(memory) * u128::from(*len) / total) as u64,
    };
    lens.iter().map(share).collect()
}

/// Returns the creation options of a new cache with this many bytes of memory.
fn format_options(config: &Config, memory: u64) -> FormatOptions {
    FormatOptions { memory, ..config.format_options() }
}

/// Returns the size in bytes of an existing cache's index.
fn index_bytes(config: &Config, file: &Arc<CacheFile>) -> u64 {
    let mean_object = superblock(file).map(|superblock| superblock.mean_object);
    mean_object.map_or(0, |mean| config.store.index.bytes(file.geometry().len, mean))
}

/// Returns whether there is no file at the path, or an empty one.
pub fn is_new(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(data) => data.file_type().is_file() && data.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Opens a cache with `memory` bytes of memory. Creates it with `create` bytes if it is new.
fn open(config: &Config, path: &Path, create: Option<u64>, memory: u64) -> Result<Cache, Refusal> {
    let at = path.display();
    if create.is_none() && is_new(path) {
        return Err(Refusal::Unusable(format!("{at}: its file system is read-only")));
    }
    let options = OpenOptions { create, mark: &CREATION_MARK, ..OpenOptions::default() };
    let file = CacheFile::open(path, &options)?;
    let mut unusable = None;
    if file.was_created() {
        create_cache(&file, &format_options(config, memory))?;
    } else {
        match judge(&file) {
            None => {
                check_layout(&file, config)?;
                fit(&file, config.cache_size)?;
            }
            Some(OpenError::NotOurs) => claim(&file, &format_options(config, memory))?,
            Some(OpenError::Unfinished) if file.kind() == FileKind::BlockDevice => {
                log::warn!("{at}: its creation was interrupted; creating it again");
                create_cache(&file, &format_options(config, memory))?;
            }
            Some(OpenError::Unfinished) => {
                let why = "another process began to create it and ended; start again";
                return Err(Refusal::Mistake(format!("{at}: {why}")));
            }
            Some(OpenError::Version { found }) => return Err(other_version(path, found).into()),
            Some(damage) => unusable = Some(damage.to_string()),
        }
    }
    Ok(Cache { path: path.to_owned(), file: Some(file), unusable })
}

/// Refuses a cache with a different layout than the setting `layout`. If only the preset implies a
/// different layout, the cache is used as it is.
fn check_layout(file: &Arc<CacheFile>, config: &Config) -> Result<(), String> {
    let Some(found) = superblock(file).map(|superblock| superblock.layout) else { return Ok(()) };
    let (at, wanted) = (file.path().display(), config.format.layout);
    if found == wanted {
        return Ok(());
    }
    if config.layout.is_some() {
        return Err(format!(
            "{at}: this cache was made with the layout {found}, but the setting `layout` is \
             {wanted}. Remove the setting, or set it to {found}, to use the cache as it is. To \
             overwrite the cache: larder format --force {at} --cache-size SIZE --layout {wanted}"
        ));
    }
    log::warn!(
        "{at}: this cache was made with the layout {found} and keeps it; a new cache of the \
         preset {} would have {wanted}",
        config.preset
    );
    Ok(())
}

/// Returns the size of a cache that does not exist yet: the configured one, or a default that is
/// logged.
fn size_of_new(config: &Config, path: &Path, new: u64) -> Result<u64, String> {
    let at = path.display();
    if let Some(size) = config.cache_size {
        return Ok(size);
    }
    let free = free(path)?;
    let chosen = sizing::default_cache_size(free, new);
    if chosen < SMALLEST_DEFAULT {
        return Err(format!(
            "{at}: a tenth of the {} that its file system has free is too little for a cache; \
             give --cache-size, or --cache with a path on another file system",
            about(free)
        ));
    }
    let (chosen_text, free) = (size(chosen), about(free));
    log::info!(
        "{at}: creating a cache of {chosen_text} ({free} free; set the size with \
                --cache-size)"
    );
    Ok(chosen)
}

/// Returns whether a path in /dev names no existing device. A file created there would lie in
/// memory, although a device was meant that is missing (yet).
pub fn is_device_name(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm") && !path.exists()
}

/// Refuses to take more space than there is. The device would detect this as well, but only after
/// it had briefly used up all space of the file system.
pub fn check_room(path: &Path, needed: u64) -> Result<(), String> {
    let free = free(path)?;
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "{}: needs {needed} bytes, but its file system has {free} bytes free; choose a smaller \
         size or another path",
        path.display()
    ))
}

/// Returns the bytes that a file at `path` could occupy.
fn free(path: &Path) -> Result<u64, String> {
    if is_device_name(path) {
        let at = path.display();
        return Err(format!("{at}: no such device, and Larder creates nothing in /dev"));
    }
    sizing::free_space(path).map_err(|error| {
        let at = path.display();
        format!("{at}: cannot read the free space of its directory: {error}")
    })
}

/// Creates an empty cache on a file or device without foreign data.
fn create_cache(file: &Arc<CacheFile>, options: &FormatOptions) -> Result<(), Refusal> {
    format(file, options).map_err(|error| {
        let why = format!("{}: {error}", file.path().display());
        match error {
            FormatError::TooSmall { .. } => Refusal::Mistake(why),
            FormatError::Unwritable(_) | FormatError::NoEntropy(_) => Refusal::Unusable(why),
        }
    })
}

/// Writes the structures of an empty cache.
pub fn format(file: &Arc<CacheFile>, options: &FormatOptions) -> Result<(), FormatError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let formatted = on_device(file, async |device| store::format(&device, options, now).await);
    formatted.map_err(|error| FormatError::Unwritable(error.to_string()))?
}

/// Returns why the file is not a usable cache; `None` if it is one.
pub fn judge(file: &CacheFile) -> Option<OpenError> {
    let mut unreadable = false;
    let mut read = |extent: Extent| {
        let mut bytes = vec![0; extent.len as usize];
        match file.read_at(extent.offset, &mut bytes) {
            Ok(()) => bytes,
            // The file is too short to contain it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Vec::new(),
            Err(error) => {
                log::error!("{}: reading a superblock: {error}", file.path().display());
                unreadable = true;
                Vec::new()
            }
        }
    };
    let len = file.geometry().len;
    let copies = superblock_extents(len).map(&mut read);
    let judgement = store::judge_superblocks(len, copies.each_ref().map(Vec::as_slice));
    // The superblocks were overwritten; the rest may be intact.
    let was_ours = matches!(judgement, Some(OpenError::NotOurs))
        && store::is_metadata_of_ours(&read(METADATA_EXTENT));
    match judgement {
        // An unreadable file may be a cache: it is neither used nor overwritten.
        Some(OpenError::NotOurs) if unreadable => Some(OpenError::Unreadable),
        Some(OpenError::NotOurs) if was_ours => Some(OpenError::BothDamaged),
        judgement => judgement,
    }
}

/// Creates a cache on a block device that is blank; refuses all other contents that are not ours.
fn claim(file: &Arc<CacheFile>, options: &FormatOptions) -> Result<(), Refusal> {
    let path = file.path();
    let contents =
        file.contents().map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    match (file.kind(), contents) {
        (FileKind::BlockDevice, Contents::Blank) => {
            log::info!("{}: creating a cache of {}", path.display(), size(file.geometry().len));
            create_cache(file, options)
        }
        (_, contents) => Err(foreign(path, contents).into()),
    }
}

/// Grows an existing cache to the requested size; never shrinks it.
fn fit(file: &CacheFile, asked: Option<u64>) -> Result<(), Refusal> {
    let now = file.geometry().len;
    let at = file.path().display();
    let Some(asked) = asked.filter(|asked| *asked != now) else { return Ok(()) };
    let (old, new) = (size(now), size(asked));
    if file.kind() == FileKind::BlockDevice {
        log::warn!("{at}: a cache fills its block device ({old}); cache-size is ignored");
    } else if asked < now {
        log::warn!("{at}: the cache has {old} and cannot shrink to {new}");
    } else {
        check_room(file.path(), asked - now)?;
        log::info!("{at}: growing the cache from {old} to {new}");
        file.grow(asked)?;
    }
    Ok(())
}

/// Returns the message that refuses a file or device that is not a cache.
pub fn foreign(path: &Path, contents: Contents) -> String {
    let what = match contents {
        Contents::Blank => "it is not empty but holds only zeros (remove it if an interrupted \
                            creation left it behind)"
            .to_owned(),
        Contents::Known(name) => format!("it holds {name}"),
        Contents::Unknown => "it holds something else".to_owned(),
    };
    format!("{}: this is not a Larder cache: {what}. {}", path.display(), way_out(path))
}

fn other_version(path: &Path, found: u32) -> String {
    format!(
        "{}: this cache has format version {found}, but this program supports version {}: use the \
         program that created it. {}",
        path.display(),
        store::FORMAT_VERSION,
        way_out(path)
    )
}

fn way_out(path: &Path) -> String {
    format!("To overwrite it: larder format --force {} --cache-size SIZE", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_by_length() {
        assert_eq!(shares(&[0], 100), [100]);
        assert_eq!(shares(&[10, 30], 100), [25, 75]);
        assert_eq!(shares(&[0, 30], 100), [0, 0]);
        assert_eq!(shares(&[u64::MAX, u64::MAX], u64::MAX), [u64::MAX / 2; 2]);
    }

    #[test]
    fn no_file_stands_in_for_a_missing_device() {
        let why = check_room(Path::new("/dev/no-such-device"), 1).expect_err("not there");
        assert_eq!(why, "/dev/no-such-device: no such device, and Larder creates nothing in /dev");
    }
}
