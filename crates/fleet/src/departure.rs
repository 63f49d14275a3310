//! Next owner of a document when its node leaves the fleet.
//!
//! A leaving node offers the copies that it owns, each only to the member that will own the key
//! next. Other copies need no offer: their owners have them already, and documents with replication
//! `all` are on every node's disk.

use std::collections::BTreeSet;

use crate::class::{Policy, Replication};
use crate::key::KeyHash;
use crate::member::{Member, MemberId};
use crate::members::Members;
use crate::placement;

/// Returns the member that becomes an owner of `key` when `me` leaves. `members` is the view before
/// `me` announces that it leaves. `None` if `me` is not an owner, or if no other member can be.
pub fn next_owner(
    key: KeyHash,
    policy: &Policy,
    me: &MemberId,
    members: &Members,
    avoid: &BTreeSet<MemberId>,
) -> Option<MemberId> {
    let Replication::Owners(count) = policy.replication else { return None };
    let count = usize::from(count.get());
    let usable = |member: &Member| member.id == *me || !avoid.contains(&member.id);
    let before = placement::owners(key, members, count, None, usable);
    if before.iter().all(|owner| owner.id != *me) {
        return None;
    }
    let left = |member: &Member| member.id != *me && usable(member);
    let after = placement::owners(key, members, count, None, left);
    let mut new = after.into_iter().filter(|owner| before.iter().all(|had| had.id != owner.id));
    new.next().map(|owner| owner.id.clone())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::class::{Copies, Eviction, Lookup};
    use crate::member::State;

    fn members(count: usize) -> Members {
        let member = |at: usize| Member {
            id: format!("n{at}").parse().unwrap(),
            address: "h:1".parse().unwrap(),
            zone: "".into(),
            weight: 1,
            load: 0,
            program: "".into(),
            protocols: crate::protocol::Protocols::OWN,
            policy_version: 0,
            disk_failed: false,
            has_cache: true,
            state: State::Serving,
        };
        Members::new(1, (0..count).map(member).collect()).unwrap()
    }

    fn policy(replication: Replication) -> Policy {
        let (lookup, copies, eviction) = (Lookup::OWNER, Copies::DiscardCache, Eviction::DROP);
        Policy { lookup, copies, eviction, replication }
    }

    fn without(members: &Members, me: &MemberId) -> Members {
        let others = members.iter().filter(|member| member.id != *me).cloned();
        Members::new(2, others.collect()).unwrap()
    }

    #[test]
    fn keys_of_a_leaving_node_go_to_their_next_owner() {
        let (all, me) = (members(5), "n3".parse().unwrap());
        let rest = without(&all, &me);
        for count in 1..=4 {
            let policy = policy(Replication::Owners(count.try_into().unwrap()));
            for bits in 0..2_000 {
                let key = KeyHash::from_bits(u64::wrapping_mul(bits, 0x9e37_79b9_7f4a_7c15));
                let owners = |of| -> Vec<&MemberId> {
                    let owners = placement::owners(key, of, usize::from(count), None, |_| true);
                    owners.into_iter().map(|owner| &owner.id).collect()
                };
                let (before, after) = (owners(&all), owners(&rest));
                let next = next_owner(key, &policy, &me, &all, &BTreeSet::new());
                let new = after.into_iter().find(|id| !before.contains(id));
                assert_eq!(next.as_ref(), new.filter(|_| before.contains(&&me)), "{count} {bits}");
            }
        }
    }

    #[test]
    fn there_may_be_no_next_owner() {
        let (all, me): (_, MemberId) = (members(2), "n0".parse().unwrap());
        let one = policy(Replication::ONE);
        let avoid = BTreeSet::from(["n1".parse().unwrap()]);
        for bits in 0..100 {
            let key = KeyHash::from_bits(bits);
            assert_eq!(next_owner(key, &one, &me, &members(1), &BTreeSet::new()), None);
            assert_eq!(next_owner(key, &one, &me, &all, &avoid), None);
            let every = policy(Replication::All);
            assert_eq!(next_owner(key, &every, &me, &all, &BTreeSet::new()), None);
        }
    }
}
