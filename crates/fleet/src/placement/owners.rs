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
    if wanted == 1 {
        // Most keys have one owner: it need not be ordered among others.
        let with_room = bound.and_then(|bound| {
            let has_room = bound.room(members);
            rendezvous::first(key, members, |member| usable(member) && has_room(member))
        });
        return with_room.or_else(|| rendezvous::first(key, members, usable)).into_iter().collect();
    }
    let mut ranked = rendezvous::ranking(key, members);
    ranked.retain(|member| usable(member));
    let (with_room, full) = match bound {
        Some(bound) => bound.order(ranked, members),
        None => (ranked, Vec::new()),
    };
    let mut zones = BTreeMap::new();
    let mut owners = spread(with_room, &mut zones);
    owners.extend(spread(full, &mut zones));
    owners.truncate(wanted);
    owners
}

/// Orders members, which are ranked, so that each next one is of a zone that has the fewest before
/// it; `zones` says how many each has, and is brought up to date.
fn spread<'m>(ranked: Vec<&'m Member>, zones: &mut BTreeMap<&'m str, usize>) -> Vec<&'m Member> {
    let mut rounds: Vec<(usize, &Member)> = ranked
        .into_iter()
        .map(|member| {
            let before = zones.entry(&member.zone).or_default();
            *before += 1;
            (*before, member)
        })
        .collect();
    rounds.sort_by_key(|(round, _)| *round);
    rounds.into_iter().map(|(_, member)| member).collect()
}
