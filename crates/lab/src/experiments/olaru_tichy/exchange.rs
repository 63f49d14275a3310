//! What nodes say to each other, in the types of the crate `fleet`. Nothing is purged here, so that
//! all of it about purges stands in this file.

use std::collections::BTreeSet;

use fleet::lookup::{Ask, Asked, Reach, Role, View};
use fleet::member::State;
use fleet::placement::LoadBound;
use fleet::{LogPosition, Member, MemberId, Members, Protocols};

/// Makes a node as others see it.
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
        purges: LogPosition::default(),
        state: State::Serving,
    })
}

/// Makes what a node that is asked knows of who asks it.
pub(super) fn asked(ask: &Ask, from: &MemberId) -> Asked {
    Asked::ByPeer {
        from: from.clone(),
        reach: ask.reach,
        keep_copy: ask.keep_copy,
        hops: ask.hops,
        behind: false,
    }
}

/// Makes the question of one of equal caches to another.
pub(super) fn ask_sibling(member: MemberId) -> Ask {
    Ask { member, role: Role::Holder, reach: Reach::Disk, keep_copy: false, hops: 1 }
}

/// Makes what a node knows of the others.
pub(super) fn view<'a>(
    me: &'a MemberId,
    members: &'a Members,
    previous: Option<&'a Members>,
    hinted: &'a [MemberId],
    avoid: &'a BTreeSet<MemberId>,
    bound: Option<LoadBound>,
) -> View<'a> {
    View { me, members, previous, hinted, avoid, bound }
}
