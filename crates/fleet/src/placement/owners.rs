//! The owners of a key: as many as are wanted, the first one first.
//!
//! Among members with room the next owner is from a zone that has the fewest so far, and within
//! that the best ranked. So the owners of a key when two are wanted are the first two when three
//! are: nodes that want different numbers agree on the first.

use std::collections::BTreeMap;

use crate::key::KeyHash;
use crate::member::Member;
use crate::members::Members;
use crate::placement::load_bound::LoadBound;
use crate::placement::rendezvous;

/// Chooses `wanted` owners of `key`, or as many as there are; those that are above `bound` are
/// taken last. `usable` leaves out members that cannot be reached.
pub fn owners(
    key: KeyHash,
    members: &Members,
    wanted: usize,
    bound: Option<LoadBound>,
    usable: impl Fn(&Member) -> bool,
) -> Vec<&Member> {
    let mut ranked = rendezvous::ranking(key, members);
    ranked.retain(|member| usable(member));
    let (with_room, full) = match bound {
        Some(bound) => bound.order(ranked, members),
        None => (ranked, Vec::new()),
    };
    let mut chosen = Chosen::default();
    chosen.take(with_room, wanted);
    chosen.take(full, wanted);
    chosen.owners
}

/// The owners chosen so far, and how many of them each zone has.
#[derive(Default)]
struct Chosen<'m> {
    owners: Vec<&'m Member>,
    zones: BTreeMap<&'m str, usize>,
}

impl<'m> Chosen<'m> {
    /// Takes from `candidates`, which are in the order of their ranking, until there are `wanted`.
    fn take(&mut self, mut candidates: Vec<&'m Member>, wanted: usize) {
        while self.owners.len() < wanted {
            let crowd = |member: &&Member| self.zones.get(&*member.zone).copied().unwrap_or(0);
            let next = (0..candidates.len()).min_by_key(|at| (crowd(&candidates[*at]), *at));
            let Some(next) = next else { return };
            let owner = candidates.remove(next);
            *self.zones.entry(&owner.zone).or_default() += 1;
            self.owners.push(owner);
        }
    }
}
