//! The cache of directory lookups: the names that need no search. The inode of a name always comes
//! from the directory itself; the cache only tells whether the file system would have had the name
//! in memory.

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;
use hashlink::LinkedHashMap;

use super::parameters::Names;

/// Digest of a name in a directory, or of a whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    directory: u32,
    digest: u64,
}

impl Name {
    pub(super) fn new(directory: u32, name: &str) -> Name {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Name { directory, digest: hasher.finish() }
    }
}

#[derive(Debug)]
pub(super) enum NameCache {
    Recent { known: LinkedHashMap<Name, ()>, entries: usize },
    Rate { percent: u32, random: Rng },
}

impl NameCache {
    pub(super) fn new(names: Names) -> NameCache {
        match names {
            Names::Recent { entries } => NameCache::Recent { known: LinkedHashMap::new(), entries },
            Names::Rate { percent, seed } => {
                NameCache::Rate { percent, random: Rng::with_seed(seed) }
            }
        }
    }

    /// Returns whether a lookup is a hit; the name becomes the most recently used.
    pub(super) fn knows(&mut self, name: Name) -> bool {
        match self {
            NameCache::Recent { known, .. } => known.to_back(&name).is_some(),
            NameCache::Rate { percent, random } => random.u32(..100) < *percent,
        }
    }

    /// Adds a name that was created or looked up without the cache.
    pub(super) fn learn(&mut self, name: Name) {
        let NameCache::Recent { known, entries } = self else { return };
        known.insert(name, ());
        known.to_back(&name);
        if known.len() > *entries {
            known.pop_front();
        }
    }

    /// Removes a name that was removed from its directory.
    pub(super) fn forget(&mut self, name: Name) {
        if let NameCache::Recent { known, .. } = self {
            known.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_used_last_are_known() {
        let mut cache = NameCache::new(Names::Recent { entries: 2 });
        let [a, b, c] = ["a", "b", "c"].map(|name| Name::new(7, name));
        assert!(!cache.knows(a));
        cache.learn(a);
        cache.learn(b);
        assert!(cache.knows(a));
        cache.learn(c);
        assert_eq!([a, b, c].map(|name| cache.knows(name)), [true, false, true]);
        assert!(!cache.knows(Name::new(8, "a")));
        cache.forget(a);
        assert!(!cache.knows(a));
    }

    #[test]
    fn a_rate_is_kept_and_follows_from_the_seed() {
        let draw = |seed| {
            let mut cache = NameCache::new(Names::Rate { percent: 65, seed });
            (0..10_000).map(|_| cache.knows(Name::new(0, "x"))).collect::<Vec<_>>()
        };
        let hits = draw(3).into_iter().filter(|hit| *hit).count();
        assert!((6_300..6_700).contains(&hits), "{hits}");
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
