//! Selection of a key's owners, in order.
//!
//! Among members with capacity, the next owner is the best ranked one in a zone with the fewest
//! owners so far. The first two of three owners are therefore the same as the two of two: nodes
//! that want different numbers agree on the first ones.

use std::collections::BTreeMap;

use crate::key::KeyHash;
use crate::member::Member;
use crate::members::Members;
use crate::placement::load_bound::LoadBound;
use crate::placement::rendezvous;

/// Chooses `wanted` owners of `key`, or as many as there are. Members above `bound` come last;
/// `usable` excludes unreachable members.
pub fn owners(
    key: KeyHash,
    members: &Members,
    wanted: usize,
    bound: Option<LoadBound>,
    usable: impl Fn(&Member) -> bool,
) -> Vec<&Member> {
    if wanted == 1 {
        // Fast path: most keys have one owner, which needs no ordering.
        let with_room = bound.and_then(|bound| {
            let has_capacity = bound.has_capacity(members);
            rendezvous::first(key, members, |member| usable(member) && has_capacity(member))
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
    let mut owners = spread_over_zones(with_room, &mut zones);
    owners.extend(spread_over_zones(full, &mut zones));
    owners.truncate(wanted);
    owners
}

/// Orders ranked members so that each next one is in a zone with the fewest before it. `zones`
/// counts the members chosen per zone and is updated.
fn spread_over_zones<'m>(
    ranked: Vec<&'m Member>,
    zones: &mut BTreeMap<&'m str, usize>,
) -> Vec<&'m Member> {
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
