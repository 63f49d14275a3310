//! Reads the lists of rules again when their files change.
//!
//! A file is read once it has not changed for a second, so that no part of it is taken for the
//! whole. If any list cannot be used, all stay as they are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::commands::reload::Reloader;
use crate::config::sources::Stamp;

/// Interval at which the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Number of looks in a row that find a file changed, after which a warning is logged.
const LOOKS_MAX: u32 = 60;

/// The states of list files when they were last looked at.
#[derive(Default)]
pub struct ListWatch {
    seen: BTreeMap<PathBuf, Stamp>,
    /// States that could not be used.
    refused: BTreeMap<PathBuf, Stamp>,
    /// Number of looks in a row that found a file changed.
    looks: u32,
}

/// Starts the thread that looks at the files.
pub fn start(reloader: Arc<Mutex<Reloader>>) -> io::Result<()> {
    let mut watch = ListWatch::default();
    let look = move || {
        loop {
            thread::sleep(LOOK_EVERY);
            let mut reloader = reloader.lock().unwrap_or_else(PoisonError::into_inner);
            watch.look(&mut reloader);
        }
    };
    thread::Builder::new().name("lists".to_owned()).spawn(look).map(drop)
}

impl ListWatch {
    fn look(&mut self, reloader: &mut Reloader) {
        let Some(states) = self.changed(&reloader.loaded.sources.lists) else { return };
        match reloader.reload_lists(&states) {
            Ok(true) => log::info!("lists: read again: {}", named(&states)),
            // A file changed while it was read.
            Ok(false) => {}
            Err(problems) => {
                problems.lines().for_each(|line| log::error!("lists: {line}"));
                log::error!("lists: all lists are unchanged");
                self.refused = states;
            }
        }
    }

    /// Returns the states of all lists if one has changed and all can be read; `applied` are the
    /// states of the lists in force.
    fn changed(&mut self, applied: &BTreeMap<PathBuf, Stamp>) -> Option<BTreeMap<PathBuf, Stamp>> {
        let states: BTreeMap<_, _> =
            applied.keys().map(|path| (path.clone(), Stamp::at(path))).collect();
        let before = std::mem::replace(&mut self.seen, states.clone());
        let is_changing = |(path, now): &(&PathBuf, &Stamp)| {
            applied.get(*path) != Some(*now) && before.get(*path) != Some(*now)
        };
        let changing = states.iter().find(is_changing);
        self.looks = if changing.is_some() { self.looks + 1 } else { 0 };
        if let Some((path, _)) = changing.filter(|_| self.looks == LOOKS_MAX) {
            let path = path.display();
            log::warn!("lists: {path} changes all the time: it is read when it rests for a second");
        }
        let is_new = states != *applied && states != self.refused;
        (is_new && changing.is_none()).then_some(states)
    }
}

fn named(states: &BTreeMap<PathBuf, Stamp>) -> String {
    let paths: Vec<String> = states.keys().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Returns a watch that has looked once, and the state of the file then.
    fn begun(path: &Path) -> (ListWatch, BTreeMap<PathBuf, Stamp>) {
        let applied = BTreeMap::from([(path.to_owned(), Stamp::at(path))]);
        let mut watch = ListWatch::default();
        assert_eq!(watch.changed(&applied), None);
        (watch, applied)
    }

    #[test]
    fn a_list_is_read_when_it_no_longer_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "a").unwrap();
        let (mut watch, applied) = begun(&path);
        for text in ["ab", "abc"] {
            fs::write(&path, text).unwrap();
            assert_eq!(watch.changed(&applied), None, "{text}");
        }
        let states = watch.changed(&applied).unwrap();
        assert_eq!(watch.changed(&states), None);
        watch.refused = states;
        assert_eq!(watch.changed(&applied), None, "tried once");
        fs::remove_file(&path).unwrap();
        assert_eq!(watch.changed(&applied), None, "a file may come in its place");
    }
}
