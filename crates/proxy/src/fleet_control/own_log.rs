//! This node's own purge log as other nodes know it: detects an old disk.
//!
//! Guarantee: a node that learns of purges made at it that its disk does not have has everything
//! validated that is stored before it reports itself up to date. An old disk may have received
//! other purges before it met any node, so its log can be as long as the known one or longer. Other
//! nodes therefore also send a digest of the last purge that they carried out.

use std::rc::Rc;
use std::sync::Arc;

use fleet::{LogPosition, PurgePositions};
use store::{PurgePosition, PurgesSince};

use crate::fleet_control::following::doubt_everything;
use crate::fleet_control::message::Purge;
use crate::fleet_control::spreading::own_end;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// Begins another log when another has followed or heard of more of this node's own than there is,
/// or of a later one: its disk is an old one. `last` is the digest of the last purge that the other
/// has carried out of it. Returns whether it was so.
pub(crate) async fn check_own_log(
    services: &Rc<Services>,
    node: &Arc<Node>,
    (followed, heard): (&PurgePositions, &PurgePositions),
    last: Option<u64>,
) -> bool {
    let Some(store) = services.store() else { return false };
    let Some(end) = own_end(&store) else { return false };
    let (followed, heard) = (followed.get(node.id()), heard.get(node.id()));
    let has_other =
        |followed| digest_before(&store, followed).zip(last).is_some_and(|(a, b)| a != b);
    let unknown = followed.filter(|known| *known > end || has_other(*known));
    let unknown = unknown.max(heard.filter(|known| *known > end));
    let Some(known) = unknown else { return false };
    log::error!(
        "others know of purges that were made here up to {known}, and the log of this cache \
         ends at {end} or has others: the cache is an older one, and all that it has is validated \
         with its origin before it is used"
    );
    node.purges().set_away();
    if let Err(why) = doubt_everything(&store).await {
        log::error!("{why}");
        return true;
    }
    store.begin_later_purge_log(known.log);
    if let Some(end) = own_end(&store) {
        node.purges().reach_own(end, node.now());
    }
    node.purges().reach(node.id(), known, node.now());
    true
}

/// Returns the digest of the last purge before a place in this node's own log, if it is known.
pub(crate) fn digest_before(store: &Store, place: LogPosition) -> Option<u64> {
    let before = PurgePosition::new(place.log, place.number.checked_sub(1)?);
    match store.purges_since(Some(before))? {
        PurgesSince::Purges(purges, _) => purges.first().map(|purge| Purge::of(purge).digest()),
        PurgesSince::TooOld(_) => None,
    }
}
