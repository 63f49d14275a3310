//! This node's own log of purges, as others know it: whether its disk is an old one.
//!
//! It promises: a node that learns, from whomever, that purges were made at it of which its disk
//! does not know gives up all that it has stored before it says so. An old disk to whose log
//! purges were added before anybody was met has as long a log as others know, or a longer one, with
//! other purges in it: so others say which one they carried out last.

use std::rc::Rc;
use std::sync::Arc;

use fleet::{LogPosition, PurgePositions};
use store::{PurgePosition, PurgesSince};

use crate::fleet_control::following::purge_everything;
use crate::fleet_control::message::Purge;
use crate::fleet_control::spreading::own_end;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// Begins another log when others have followed more of this node's own than there is, or one that
/// is not on its disk: that is an old one.
pub(crate) async fn check_own_log(
    services: &Rc<Services>,
    node: &Arc<Node>,
    theirs: &PurgePositions,
    last: Option<u64>,
) {
    let Some(store) = services.store() else { return };
    let (Some(end), Some(followed)) = (own_end(&store), theirs.get(node.id())) else { return };
    let differs =
        || last.is_some_and(|last| digest_before(&store, followed).is_some_and(|d| d != last));
    if !is_of_another_disk(node, end, followed) && !differs() {
        return;
    }
    log::error!(
        "others know of purges that were made here up to {followed}, and the log of this cache \
         ends at {end} or has others: the cache is an older one, and all that it has counts as \
         purged"
    );
    node.purges().set_away();
    if let Err(why) = purge_everything(&store).await {
        log::error!("{why}");
        return;
    }
    store.begin_other_purge_log(services.clock.since_1970().as_nanos() as u64);
    if let Some(end) = own_end(&store) {
        node.purges().reach(node.id(), end, node.now());
    }
}

/// Returns the digest of the last purge before a place in this node's own log, if it is known.
fn digest_before(store: &Store, place: LogPosition) -> Option<u64> {
    let before = PurgePosition::new(place.log, place.number.checked_sub(1)?);
    match store.purges_since(Some(before))? {
        PurgesSince::Purges(purges, _) => purges.first().map(|purge| Purge::of(purge).digest()),
        PurgesSince::TooOld(_) => None,
    }
}

/// Returns whether the log that ends here is not the one that others have `followed`, and something
/// may be stored of which that one tells.
fn is_of_another_disk(node: &Node, end: LogPosition, followed: LogPosition) -> bool {
    if followed.log == end.log {
        return followed.number > end.number;
    }
    // Known as one that was replaced, or from now on: once is enough.
    node.purges().note_former_own(followed.log) && node.purges().began_with_something()
}
