//! One list per site of its objects in memory, in the order in which they entered.
//!
//! Objects that entered memory together (a page with its parts, or objects from one device read)
//! lie together in their site's list. An object's neighbours are therefore a few steps away from
//! its own position, however many objects the site has.
//!
//! Guarantees: every call except iteration takes constant time.

use hashbrown::HashTable;

use super::lists::Id;

const NONE: Id = Id::MAX;

#[derive(Clone, Copy)]
struct Link {
    site: u64,
    newer: Id,
    older: Id,
}

/// The lists of all sites. Members are identified by their numbers in the tier's slab.
#[derive(Default)]
pub(super) struct SiteLists {
    /// Links by number. Links of numbers that are in no list are stale.
    links: Vec<Link>,
    /// The newest member of each list.
    ends: HashTable<Id>,
}

impl SiteLists {
    /// Adds a member that is in no list at the newest end of its site's list.
    pub(super) fn add(&mut self, id: Id, site: u64) {
        let place = id as usize;
        if place >= self.links.len() {
            self.links.resize(place + 1, Link { site, newer: NONE, older: NONE });
        }
        let SiteLists { links, ends } = self;
        let end = ends.find_mut(hash(site), |end| links[*end as usize].site == site);
        let older = match end {
            Some(end) => std::mem::replace(end, id),
            None => NONE,
        };
        links[place] = Link { site, newer: NONE, older };
        match older {
            NONE => _ = ends.insert_unique(hash(site), id, |end| hash(links[*end as usize].site)),
            older => links[older as usize].newer = id,
        }
    }

    /// Removes a member from its list.
    pub(super) fn remove(&mut self, id: Id) {
        let SiteLists { links, ends } = self;
        let Link { site, newer, older } = links[id as usize];
        if older != NONE {
            links[older as usize].newer = newer;
        }
        if newer != NONE {
            links[newer as usize].older = older;
        } else if let Ok(mut end) = ends.find_entry(hash(site), |end| *end == id) {
            match older {
                NONE => _ = end.remove(),
                older => *end.get_mut() = older,
            }
        }
    }

    /// Returns the members before and after one in its list, nearest first: at most `steps` in each
    /// direction.
    pub(super) fn around(&self, id: Id, steps: usize) -> impl Iterator<Item = Id> {
        let walk = |next: fn(&Link) -> Id| {
            let step =
                move |at: &Id| Some(next(&self.links[*at as usize])).filter(|id| *id != NONE);
            std::iter::successors(step(&id), step).take(steps)
        };
        let (mut older, mut newer) = (walk(|link| link.older), walk(|link| link.newer));
        let mut turn = false;
        std::iter::from_fn(move || {
            turn = !turn;
            match turn {
                true => older.next().or_else(|| newer.next()),
                false => newer.next().or_else(|| older.next()),
            }
        })
    }

    /// Returns the memory it occupies, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>() + self.ends.allocation_size()
    }
}

/// Mixes a site's hash, because its quality is unknown here.
fn hash(site: u64) -> u64 {
    (site ^ site >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    #[test]
    fn the_nearest_come_first_from_both_sides() {
        let mut site_lists = SiteLists::default();
        for (id, site) in [(0, 7), (1, 7), (2, 8), (3, 7), (4, 7), (5, 7)] {
            site_lists.add(id, site);
        }
        assert_eq!(site_lists.around(3, 9).collect::<Vec<_>>(), [1, 4, 0, 5]);
        assert_eq!(site_lists.around(3, 1).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(site_lists.around(5, 2).collect::<Vec<_>>(), [4, 3]);
        assert_eq!(site_lists.around(2, 9).count(), 0);
        site_lists.remove(4);
        site_lists.add(4, 8);
        assert_eq!(site_lists.around(3, 9).collect::<Vec<_>>(), [1, 5, 0]);
        assert_eq!(site_lists.around(2, 9).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn rows_are_what_vectors_would_be() {
        for seed in seeds("tier::rows_are_what_vectors_would_be", 50) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut site_lists = SiteLists::default();
            let mut model: Vec<Vec<Id>> = vec![Vec::new(); 4];
            for _ in 0..400 {
                let id = random.u32(..40);
                match model.iter().position(|row| row.contains(&id)) {
                    Some(site) => {
                        site_lists.remove(id);
                        model[site].retain(|member| *member != id);
                    }
                    None => {
                        let site = random.usize(..4);
                        site_lists.add(id, site as u64);
                        model[site].push(id);
                    }
                }
                let some: Vec<Id> = model.concat();
                let Some(id) = random.choice(some) else { continue };
                let row = model.iter().find(|row| row.contains(&id)).unwrap();
                let at = row.iter().position(|member| *member == id).unwrap();
                let mut around: Vec<Id> = site_lists.around(id, 3).collect();
                let mut expected: Vec<Id> = row[at.saturating_sub(3)..row.len().min(at + 4)].into();
                expected.retain(|member| *member != id);
                around.sort_unstable();
                expected.sort_unstable();
                assert_eq!(around, expected);
            }
        }
    }
}
