//! Purge with its place in the sequence of its maker, as a fleet and as a store have it.

use bytes::Bytes;
use fleet::purges::{Maker, Vector};
use store::{LoggedPurge, MadePurge, PurgeMaker, PurgeRange, PurgesLacking};

use crate::object::store::Store;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedPurge {
    pub maker: Maker,
    pub number: u64,
    pub purge: LoggedPurge,
}

impl NumberedPurge {
    /// Returns the purge as the store logs it.
    pub fn made(self) -> MadePurge {
        let NumberedPurge { maker, number, purge } = self;
        MadePurge { maker: in_store(&maker), number, purge }
    }

    fn of(made: MadePurge) -> Option<NumberedPurge> {
        let MadePurge { maker, number, purge } = made;
        Some(NumberedPurge { maker: of_store(&maker)?, number, purge })
    }
}

fn in_store(maker: &Maker) -> PurgeMaker {
    let name = Bytes::copy_from_slice(maker.member.as_str().as_bytes());
    PurgeMaker { name, incarnation: maker.incarnation }
}

/// Returns the maker; `None` for the store's own node, which has no name there.
fn of_store(maker: &PurgeMaker) -> Option<Maker> {
    let member = std::str::from_utf8(&maker.name).ok()?.parse().ok()?;
    Some(Maker { member, incarnation: maker.incarnation })
}

/// Returns the purges of other nodes that the log of a store has.
pub(crate) fn logged_vector(store: &Store) -> Vector {
    let mut vector = Vector::default();
    for (maker, number) in store.purge_vector().into_iter().flatten() {
        if let Some(maker) = of_store(&maker) {
            vector.reach(&maker, number);
        }
    }
    vector
}

/// Returns purges of another node that the log of a store has, from behind number `after` to
/// `through`, as many as one message takes; `None` if the log does not reach back so far.
pub(crate) async fn logged_after(
    store: &Store,
    maker: &Maker,
    after: u64,
    through: u64,
) -> Option<Vec<NumberedPurge>> {
    let range = PurgeRange { maker: in_store(maker), after, through };
    match store.purges_lacking(&[range]).await? {
        PurgesLacking::Purges(found) => found.into_iter().map(NumberedPurge::of).collect(),
        PurgesLacking::TooOld => None,
    }
}
