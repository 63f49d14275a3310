//! The maintenance thread of a root. It reads the kernel's change reports while no request does,
//! follows the path when it leads to another directory (a link that each deployment replaces), and
//! logs what an operator should know.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io, thread};

use crate::watch::watcher::WatchStats;

use crate::origin::current::Current;
use crate::origin::options::FileOptions;
use crate::origin::voucher::Known;

/// The shortest time between two checks of the root's path.
const SHORTEST: Duration = Duration::from_millis(50);

pub(crate) struct Upkeep {
    /// The thread ends when the origin is dropped.
    current: Weak<Current>,
    path: PathBuf,
    options: FileOptions,
}

impl Upkeep {
    /// Creates the state for the root at `path`.
    pub fn new(current: &Arc<Current>, path: &Path, options: FileOptions) -> Upkeep {
        Upkeep { current: Arc::downgrade(current), path: path.to_owned(), options }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub fn start(self) -> io::Result<()> {
        let name = "files".to_owned();
        thread::Builder::new().name(name).spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        let interval = self.options.watch.interval.max(SHORTEST);
        let (mut told, mut is_gone) = (WatchStats::default(), false);
        if let Some(known) = self.current.upgrade().map(|current| current.known())
            && let Some(why) = &known.unwatched
        {
            self.tell_unwatched(why);
        }
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

    /// Opens the directory that the path now leads to, if that is another one.
    fn follow(&self, current: &Current, is_gone: &mut bool) {
        let (path, known) = (self.path.display(), current.known());
        let is_same = known.root.is_current().unwrap_or(true);
        if is_same {
            *is_gone = false;
            if known.unwatched.is_some() {
                self.watch_again(current);
            }
            return;
        }
        match Known::open(&self.path, &self.options) {
            Ok(known) => {
                let unwatched = known.unwatched.as_ref().map(ToString::to_string);
                current.replace(known);
                log::info!("{path} now leads to another directory, which is served from now on");
                unwatched.iter().for_each(|why| self.tell_unwatched(why));
                *is_gone = false;
            }
            Err(why) if !*is_gone => {
                log::warn!("{why}; still serving the directory that was opened before");
                *is_gone = true;
            }
            Err(_) => {}
        }
    }

    /// Tries again to have the kernel report changes of the same directory.
    fn watch_again(&self, current: &Current) {
        if let Ok(known) = Known::open(&self.path, &self.options)
            && known.unwatched.is_none()
        {
            current.replace(known);
            log::info!("{}: the kernel now reports file changes", self.path.display());
        }
    }

    /// Warns that the files of a root that was just opened are not watched.
    fn tell_unwatched(&self, why: &impl fmt::Display) {
        let interval = self.options.watch.interval.as_millis();
        log::warn!(
            "{}: the kernel cannot report file changes ({why}; see \
             fs.inotify.max_user_instances): files are checked every {interval} ms until it can",
            self.path.display()
        );
    }

    fn tell(&self, before: &WatchStats, now: &WatchStats) {
        let path = self.path.display();
        if now.overflows > before.overflows {
            log::warn!(
                "{path}: files change faster than the kernel can report \
                 (fs.inotify.max_queued_events): checking all of them again"
            );
        }
        if before.refusals == 0 && now.refusals > 0 {
            log::warn!(
                "{path}: not all directories can be watched: files in the others are checked \
                 every look-interval (files.watches, fs.inotify.max_user_watches)"
            );
        }
    }
}
