//! The messages between nodes, in the types of the crate `fleet`. The experiments do not purge, so
//! everything about purges is in this file.

use std::collections::BTreeSet;

use fleet::lookup::{Ask, Asked, Reach, Role, View};
use fleet::member::State;
use fleet::placement::LoadBound;
use fleet::{Member, MemberId, Members, Protocols};

/// Returns a node as the others see it.
pub(super) fn member(id: &MemberId, weight: u32, load: u64) -> Option<Member> {
    let address = "node:1".parse().ok()?;
    Some(Member {
        id: id.clone(),
        address,
        zone: "".into(),
        weight,
        load,
        program: "".into(),
        protocols: Protocols::OWN,
        policy_version: 1,
        disk_failed: false,
        has_cache: true,
        state: State::Serving,
    })
}

/// Returns what an asked node knows of the asking one.
pub(super) fn asked(ask: &Ask, from: &MemberId) -> Asked {
    Asked::ByPeer {
        from: from.clone(),
        reach: ask.reach,
        keep_copy: ask.keep_copy,
        hops: ask.hops,
        behind: false,
    }
}

/// Returns the request of one sibling cache to another.
pub(super) fn ask_sibling(member: MemberId) -> Ask {
    Ask { member, role: Role::Holder, reach: Reach::Disk, keep_copy: false, hops: 1 }
}

/// Returns a node's view of the others.
pub(super) fn view<'a>(
    me: &'a MemberId,
    members: &'a Members,
    previous: &'a [Members],
    hinted: &'a [MemberId],
    avoid: &'a BTreeSet<MemberId>,
    bound: Option<LoadBound>,
) -> View<'a> {
    View { me, members, previous, hinted, avoid, bound }
}
