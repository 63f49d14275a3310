//! Two-level URL resolution grouping (systems C11; figures 4 and 5 of the UCFS paper). Selects the
//! objects at the old end of memory to write together, so that reading one of them later also
//! brings the ones requested next.
//!
//! The first object is a page if there is one, because pages embed others; otherwise it is the
//! least recently used object. Its buffer has `size / cluster + 1` clusters. The buffer is filled
//! with objects from the same directory of the same site. Then, to leave little space empty, it is
//! filled first-fit with objects that were requested equally often and with small ones, until at
//! most the slack is free.
//!
//! A pure function.
//!
//! Guarantees: it returns each candidate at most once, never more bytes than the buffer has, and
//! the same group for the same candidates.

use crate::base::digest::Digest;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Usable bytes of a cluster.
    pub cluster: u32,
    /// Overhead of each object in a cluster, besides its own bytes.
    pub each: u32,
    /// Objects smaller than this can fill up any group.
    pub small: u32,
    /// Filling continues while more than this is free.
    pub slack: u32,
}

/// An object that may be written, as grouping sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Digest of the object.
    pub digest: Digest,
    /// Bytes that the object takes in a cluster.
    pub bytes: u32,
    /// True if the object is a page that embeds others.
    pub html: bool,
    /// Hash of site and directory.
    pub group: u64,
    /// Number of requests for the object.
    pub accesses: u32,
}

/// Objects to be written together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The objects, in the order of selection.
    pub members: Vec<Digest>,
    /// Number of clusters in the buffer.
    pub clusters: u32,
    /// Bytes of the buffer that remain empty.
    pub free: u64,
}

/// Chooses a group among `candidates`, which are sorted by use, least recent first. Returns `None`
/// if there are none.
pub(crate) fn choose(candidates: &[Candidate], sizes: Sizes) -> Option<Group> {
    let Sizes { cluster, each, small, slack } = sizes;
    assert!(cluster > 0, "a cluster has room");
    let first = candidates.iter().position(|candidate| candidate.html).unwrap_or(0);
    let seed = *candidates.get(first)?;
    let clusters = (seed.bytes + each) / cluster + 1;
    let mut filling = Filling {
        candidates,
        each: u64::from(each),
        chosen: vec![false; candidates.len()],
        group: Group {
            members: Vec::new(),
            clusters,
            free: u64::from(clusters) * u64::from(cluster),
        },
    };
    filling.take(first);
    filling.fill(0, |candidate| candidate.group == seed.group);
    filling.fill(u64::from(slack) + 1, |candidate| {
        candidate.accesses == seed.accesses || candidate.bytes < small
    });
    Some(filling.group)
}

struct Filling<'a> {
    candidates: &'a [Candidate],
    each: u64,
    chosen: Vec<bool>,
    group: Group,
}

impl Filling<'_> {
    /// Takes every matching candidate that fits, in order, while at least `least` bytes are free.
    /// One pass is enough: a candidate that does not fit now will not fit later.
    fn fill(&mut self, least: u64, belongs: impl Fn(&Candidate) -> bool) {
        for number in 0..self.candidates.len() {
            if self.group.free < least.max(1) {
                break;
            }
            let candidate = &self.candidates[number];
            let fits = !self.chosen[number] && self.size(candidate) <= self.group.free;
            if fits && belongs(candidate) {
                self.take(number);
            }
        }
    }

    fn take(&mut self, number: usize) {
        self.chosen[number] = true;
        self.group.members.push(self.candidates[number].digest);
        self.group.free -= self.size(&self.candidates[number]);
    }

    fn size(&self, candidate: &Candidate) -> u64 {
        u64::from(candidate.bytes) + self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_seed::seeds;

    const KB: u32 = 1024;
    const SIZES: Sizes = Sizes { cluster: 64 * KB, each: 0, small: KB, slack: KB };

    fn candidate(number: u64, bytes: u32, group: u64, accesses: u32) -> Candidate {
        let digest = Digest::from_halves(number, 0);
        Candidate { digest, bytes, html: false, group, accesses }
    }

    fn numbers(group: &Group) -> Vec<u64> {
        group.members.iter().map(|digest| digest.halves().0).collect()
    }

    /// Worked by hand: a buffer of 64 KB.
    fn cold_half() -> Vec<Candidate> {
        vec![
            candidate(0, 9 * KB, 31, 1),
            candidate(1, 20 * KB, 11, 1),
            Candidate { html: true, ..candidate(2, 10 * KB, 11, 4) },
            candidate(3, 500, 31, 9),
            candidate(4, 30 * KB, 12, 4),
            candidate(5, 25 * KB, 11, 2),
            Candidate { html: true, ..candidate(6, 2 * KB, 12, 1) },
            candidate(7, 5 * KB, 31, 4),
            candidate(8, 10 * KB, 11, 7),
            candidate(9, 300, 41, 1),
            candidate(10, 3 * KB, 41, 4),
        ]
    }

    #[test]
    fn figure_5_a_worked_example() {
        // Page 2 (10 KB) comes first. Its directory 11 adds 1 (20 KB) and 5 (25 KB), which leaves 9
        // KB, so 8 (10 KB) does not fit. Then 3 (small), 7 (requested as often as the page), 9
        // (small) and 10 are added, which leaves 224 bytes. 4 was too large; 0 and 6 differ.
        let group = choose(&cold_half(), SIZES).unwrap();
        assert_eq!(numbers(&group), [2, 1, 5, 3, 7, 9, 10]);
        assert_eq!((group.clusters, group.free), (1, 1024 - 800));
    }

    #[test]
    fn figure_4_the_first_victim_is_the_first_page_else_the_oldest_object() {
        let pages = |html: [bool; 4]| -> Vec<Candidate> {
            let of = |(html, number)| Candidate { html, ..candidate(number, KB, number, 1) };
            html.into_iter().zip(0..).map(of).collect()
        };
        let first = |html| numbers(&choose(&pages(html), SIZES).unwrap())[0];
        assert_eq!(first([false, false, true, true]), 2);
        assert_eq!(first([false, false, false, true]), 3);
        assert_eq!(first([false; 4]), 0);
    }

    #[test]
    fn figure_5_the_second_pass_ends_when_no_more_than_the_slack_is_free() {
        // 63 KB and a byte leave 1,023 bytes, so not even an equal object of 10 bytes is
        // considered.
        let seed = candidate(0, 63 * KB + 1, 1, 1);
        let group = choose(&[seed, candidate(1, 10, 2, 1)], SIZES).unwrap();
        assert_eq!(numbers(&group), [0]);
        // The first pass takes everything of the same directory that fits.
        let group = choose(&[seed, candidate(1, 1_000, 1, 9)], SIZES).unwrap();
        assert_eq!((numbers(&group), group.free), (vec![0, 1], 23));
        // At 62 KB, more than 1 KB is free. Objects of 1,023 bytes are small, those of 1,024 are
        // not.
        let seed = candidate(0, 62 * KB, 1, 1);
        let fillers = [candidate(1, 1_024, 2, 2), candidate(2, 1_023, 2, 2)];
        let group = choose(&[seed, fillers[0], fillers[1]], SIZES).unwrap();
        assert_eq!(numbers(&group), [0, 2]);
    }

    #[test]
    fn what_describes_an_object_in_its_cluster_counts() {
        let sizes = Sizes { each: 48, ..SIZES };
        let candidates = [candidate(0, 32 * KB, 1, 1), candidate(1, 32 * KB, 1, 1)];
        let group = choose(&candidates, sizes).unwrap();
        assert_eq!((numbers(&group), group.free), (vec![0], u64::from(32 * KB) - 48));
    }

    #[test]
    fn figure_4_the_buffer_has_as_many_clusters_as_the_first_victim_needs() {
        let candidates = [
            candidate(0, 64 * KB, 1, 1),
            candidate(1, 63 * KB, 2, 5),
            candidate(2, 63 * KB, 2, 1),
            candidate(3, 100, 3, 6),
        ];
        // A whole cluster and one more. After 2, exactly 1 KB is free, so filling ends without 3.
        let group = choose(&candidates, SIZES).unwrap();
        assert_eq!(numbers(&group), [0, 2]);
        assert_eq!((group.clusters, group.free), (2, 1024));
        assert_eq!(choose(&[], SIZES), None);
    }

    #[test]
    fn any_group_fits_and_leaves_out_nothing_that_belongs() {
        for seed in seeds("grouping::any_group_fits_and_leaves_out_nothing_that_belongs", 200) {
            let mut random = fastrand::Rng::with_seed(seed);
            let cold: Vec<Candidate> = (0..random.u64(1..60))
                .map(|number| Candidate {
                    html: random.u8(..20) == 0,
                    ..candidate(number, random.u32(1..9_000), random.u64(..30), random.u32(..4))
                })
                .collect();
            let group = choose(&cold, Sizes { cluster: 16 * KB, ..SIZES }).unwrap();
            let mut members = numbers(&group);
            let first = cold[members[0] as usize];
            assert!(first.html || cold.iter().all(|candidate| !candidate.html));
            let bytes: u32 = members.iter().map(|number| cold[*number as usize].bytes).sum();
            assert_eq!(u64::from(bytes) + group.free, u64::from(group.clusters * 16 * KB));
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len(), group.members.len());
            for left in cold.iter().filter(|left| !group.members.contains(&left.digest)) {
                let same = left.group == first.group;
                let filler = left.accesses == first.accesses || left.bytes < KB;
                let wanted = same || (filler && group.free > u64::from(KB));
                assert!(!wanted || u64::from(left.bytes) > group.free, "{left:?} was left out");
            }
        }
    }
}
