//! Which page the files of a root belong to, as far as recently served pages tell: a file that a
//! single page refers to is requested together with it, wherever it lies.
//!
//! Guarantees: memory is bounded for any set of pages ([`REFERENCES`], [`PAGES`], [`NAME_MAX`]): at
//! most 12 MB per root, 3 MB with names of 20 bytes. Only a few pages are read at a time; a page
//! that finds no place is not read.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use upstream::send::origin::Group;

/// Maximum number of referenced files to remember.
const REFERENCES: usize = 32_768;

/// Maximum number of read pages to remember.
const PAGES: usize = 8_192;

/// Maximum length in bytes of the name of a page's group; references of a page with a longer name
/// are not remembered.
const NAME_MAX: usize = 256;

/// Number of pages that are read at a time.
const PLACES: usize = 2;

/// The known references between the files of a root.
pub(crate) struct References {
    table: Mutex<Table>,
    hasher: RandomState,
    places: Arc<Semaphore>,
}

/// Permission to read a page.
pub(crate) struct Place {
    group: Group,
    page: u64,
    _permit: OwnedSemaphorePermit,
}

/// The pages that refer to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Referrer {
    One(Group),
    Several,
}

impl References {
    /// Starts without references.
    pub fn new() -> References {
        References::holding(REFERENCES, PAGES)
    }

    fn holding(references: usize, pages: usize) -> References {
        let table = Table { files: Bounded::holding(references), pages: Bounded::holding(pages) };
        References {
            table: Mutex::new(table),
            hasher: RandomState::new(),
            places: Arc::new(Semaphore::new(PLACES)),
        }
    }

    /// Returns the group of the only page that refers to the file at a canonical path
    /// ([`crate::canonical_path`]). Returns `None` if no page or more than one is known to.
    pub fn group(&self, path: &str) -> Option<Group> {
        match self.table().files.get(self.hash(path))? {
            Referrer::One(group) => Some(group.clone()),
            Referrer::Several => None,
        }
    }

    /// Returns permission to read a page of a group in the version with this tag. Returns `None` if
    /// it was already read, or too many others are being read.
    pub fn begin(&self, group: &Group, tag: &[u8]) -> Option<Place> {
        let page = self.hash((&group.0, tag));
        if group.0.len() > NAME_MAX || self.table().pages.get(page).is_some() {
            return None;
        }
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(Place { group: group.clone(), page, _permit: permit })
    }

    /// Remembers the references of a page, as canonical paths.
    pub fn remember(&self, place: Place, paths: &[String]) {
        let Place { group, page, _permit } = place;
        let hashes: Vec<u64> = paths.iter().map(|path| self.hash(path.as_str())).collect();
        let mut table = self.table();
        table.pages.put(page, ());
        for hash in hashes {
            let referrer = match table.files.get(hash) {
                Some(Referrer::One(one)) if *one != group => Referrer::Several,
                Some(known) => known.clone(),
                None => Referrer::One(group.clone()),
            };
            table.files.put(hash, referrer);
        }
    }

    fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The remembered files and pages, by hash.
struct Table {
    files: Bounded<Referrer>,
    pages: Bounded<()>,
}

/// A map of bounded size that drops its oldest entry first.
struct Bounded<V> {
    most: usize,
    values: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Bounded<V> {
    fn holding(most: usize) -> Bounded<V> {
        Bounded { most, values: HashMap::new(), order: VecDeque::new() }
    }

    fn get(&self, hash: u64) -> Option<&V> {
        self.values.get(&hash)
    }

    fn put(&mut self, hash: u64, value: V) {
        if self.values.insert(hash, value).is_some() {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Group(name.into())
    }

    fn read(references: &References, page: &str, version: u32, paths: &[&str]) {
        let place = references.begin(&group(page), &version.to_ne_bytes()).unwrap();
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        references.remember(place, &paths);
    }

    #[test]
    fn a_file_of_one_page_has_its_group_and_a_shared_file_has_none() {
        let references = References::new();
        assert_eq!(references.group("/x.png"), None);
        read(&references, "/a.html", 1, &["/x.png", "/all.css"]);
        read(&references, "/a.html", 2, &["/x.png", "/all.css"]);
        assert_eq!(references.group("/x.png"), Some(group("/a.html")));
        read(&references, "/b.html", 1, &["/y.png", "/all.css"]);
        read(&references, "/a.html", 3, &["/all.css"]);
        assert_eq!(references.group("/x.png"), Some(group("/a.html")));
        assert_eq!(references.group("/y.png"), Some(group("/b.html")));
        assert_eq!(references.group("/all.css"), None);
    }

    #[test]
    fn a_page_is_read_once_for_each_version_and_few_at_a_time() {
        let references = References::new();
        read(&references, "/a.html", 1, &[]);
        let begin =
            |page: &str, version: u32| references.begin(&group(page), &version.to_ne_bytes());
        assert!(begin("/a.html", 1).is_none());
        let places: Vec<Place> = (2..).map_while(|version| begin("/a.html", version)).collect();
        assert_eq!(places.len(), PLACES);
        drop(places);
        assert!(begin("/a.html", 2).is_some(), "it was given up before");
        assert!(begin(&"/long".repeat(100), 1).is_none());
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let references = References::holding(100, 10);
        for page in 0..1_000 {
            let paths = [0, 1].map(|file| format!("/{page}/{file}.png"));
            read(&references, &page.to_string(), 1, &paths.each_ref().map(String::as_str));
            let table = references.table();
            assert!(table.files.values.len() <= 100 && table.files.order.len() <= 100);
            assert!(table.pages.values.len() <= 10 && table.pages.order.len() <= 10);
        }
        assert_eq!(references.group("/949/1.png"), None);
        assert_eq!(references.group("/950/0.png"), Some(group("950")));
        assert!(references.begin(&group("989"), &1_u32.to_ne_bytes()).is_some());
        assert!(references.begin(&group("990"), &1_u32.to_ne_bytes()).is_none());
    }
}
