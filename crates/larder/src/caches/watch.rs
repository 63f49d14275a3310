//! Watches the files of the caches in use. A file that is removed, replaced or shortened stays in
//! use but is lost at the next start; the watch reports this.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use device::CacheFile;

/// Interval at which the paths are checked.
const INTERVAL: Duration = Duration::from_secs(5);

pub type Files = Mutex<Vec<Arc<CacheFile>>>;

/// Watches `files` on a separate thread, which ends when all other handles on them are dropped.
pub fn start(files: &Arc<Files>) -> io::Result<()> {
    let files = Arc::downgrade(files);
    let watch = move || {
        loop {
            thread::sleep(INTERVAL);
            let Some(open) = open(&files) else { return };
            open.iter().for_each(|file| look_at(file));
        }
    };
    thread::Builder::new().name("cache-files".to_owned()).spawn(watch).map(|_| ())
}

/// Returns the problems found with the files; `None` if there are none.
pub fn trouble(files: &Weak<Files>) -> Option<String> {
    let changed = open(files)?.into_iter().filter_map(|file| {
        let change = file.path_change()?;
        Some(format!("cache {}: {change}", file.path().display()))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| changed.join("; "))
}

fn open(files: &Weak<Files>) -> Option<Vec<Arc<CacheFile>>> {
    // Copied, so that a hanging file system does not hold the lock.
    Some(files.upgrade()?.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

fn look_at(file: &CacheFile) {
    let before = file.path_change();
    let change = file.look_at_path();
    let at = file.path().display();
    match change {
        Some(change) if before != Some(change) => log::error!(
            "cache {at}: {change} while it is in use. It is used as before, its space stays \
             taken, and all in it is lost at the next start: restart Larder soon"
        ),
        None if before.is_some() => log::info!("cache {at}: its file is back"),
        _ => {}
    }
}
