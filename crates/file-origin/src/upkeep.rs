//! The thread of a root: it reads the kernel's reports of changes while no request does, follows a
//! path that leads to another directory by now (a link that is set anew at each deployment), and
//! says in the log what an operator should know.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use files::watch::watcher::WatchStats;

use crate::current::Current;
use crate::options::FileOptions;
use crate::voucher::Known;

/// The shortest time between two looks at the root's path.
const SHORTEST: Duration = Duration::from_millis(50);

/// What the thread needs.
pub(crate) struct Upkeep {
    /// Ends with the origin.
    current: Weak<Current>,
    path: PathBuf,
    options: FileOptions,
}

impl Upkeep {
    /// Makes it for the root at `path`.
    pub fn new(current: &Arc<Current>, path: &Path, options: FileOptions) -> Upkeep {
        Upkeep { current: Arc::downgrade(current), path: path.to_owned(), options }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(self) -> io::Result<()> {
        let name = "files".to_owned();
        thread::Builder::new().name(name).spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        let interval = self.options.watch.interval.max(SHORTEST);
        let (mut told, mut is_gone) = (WatchStats::default(), false);
        loop {
            let Some(watcher) = self.current.upgrade().map(|c| c.known().watcher.clone()) else {
                return;
            };
            watcher.wait(interval);
            let Some(current) = self.current.upgrade() else { return };
            self.follow(&current, &mut is_gone);
            let stats = watcher.stats();
            self.tell(&told, &stats);
            told = stats;
        }
    }

    /// Opens the directory that the path leads to by now, if that is another one.
    fn follow(&self, current: &Current, is_gone: &mut bool) {
        let path = self.path.display();
        if current.known().root.is_current().unwrap_or(true) {
            *is_gone = false;
            return;
        }
        match Known::open(&self.path, &self.options) {
            Ok(known) => {
                log::info!("{path} is another directory by now, which is served");
                current.replace(known);
                *is_gone = false;
            }
            Err(why) if !*is_gone => {
                log::warn!("{why}; what was opened as it is served on");
                *is_gone = true;
            }
            Err(_) => {}
        }
    }

    fn tell(&self, before: &WatchStats, now: &WatchStats) {
        let path = self.path.display();
        if now.overflows > before.overflows {
            log::warn!(
                "{path}: files change faster than the kernel can report it \
                 (fs.inotify.max_queued_events): all are looked at again"
            );
        }
        if before.refusals == 0 && now.refusals > 0 {
            log::warn!(
                "{path}: not all directories can be watched: files in the others are looked at \
                 every recheck-interval (files.watches, fs.inotify.max_user_watches)"
            );
        }
    }
}
