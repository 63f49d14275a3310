//! This node's own purge log as other nodes know it: detects an old disk.
//!
//! Guarantee: a node that learns of purges made at it that its disk does not have has everything
//! validated that is stored before it uses it. An old disk may have received other purges before it
//! met any node, so its log can be as long as the known one or longer. Other nodes therefore also
//! send a digest of the last purge that they carried out.

use std::rc::Rc;
use std::sync::Arc;

use fleet::purges::Vector;
use store::{PurgePosition, PurgesSince};

use crate::fleet_control::applying::doubt_everything;
use crate::fleet_control::message::Purge;
use crate::object::store::Store;
use crate::peers::node::Node;
use crate::services::Services;

/// Returns this node's own log, and the number of the last purge in it.
pub(crate) fn own_end(store: &Store) -> Option<(u64, u64)> {
    store.purge_log_end().map(|end| (end.log(), end.number()))
}

/// Begins another log when another node has more purges of this node's own than there are, or of a
/// later log, or another last one: the disk is an old one. `last` is the digest of the last purge
/// that the other has of it.
pub(crate) async fn check_own_log(
    services: &Rc<Services>,
    node: &Arc<Node>,
    theirs: &Vector,
    last: Option<u64>,
) {
    let Some(store) = services.store() else { return };
    let (Some(end), Some((maker, number))) = (own_end(&store), theirs.newest(node.id())) else {
        return;
    };
    let known = (maker.incarnation, number);
    let own_last = digest_before(&store, known).await;
    let has_other = own_last.zip(last).is_some_and(|(own, other)| own != other);
    if known <= end && !has_other {
        return;
    }
    log::error!(
        "others know of {number} purges that were made here in the log {:x}, and the log of this \
         cache ends behind {} in {:x} or has others: the cache is an older one, and all that it \
         has is validated with its origin before it is used",
        maker.incarnation,
        end.1,
        end.0
    );
    node.purges().begin_recovery(node.now());
    if let Err(why) = doubt_everything(&store).await {
        log::error!("{why}");
        return;
    }
    store.begin_later_purge_log(known.0);
    let mut all = Vector::default();
    all.reach(maker, number);
    node.purges().note_durable(&all, node.now());
    if let Some(end) = own_end(&store) {
        node.purges().note_own(end, node.now());
    }
}

/// Returns the digest of a purge in this node's own log, if it is known.
async fn digest_before(store: &Store, (log, number): (u64, u64)) -> Option<u64> {
    let before = PurgePosition::new(log, number.checked_sub(1)?);
    match store.purges_since(Some(before)).await? {
        PurgesSince::Purges(purges, _) => purges.first().map(|purge| Purge::of(purge).digest()),
        PurgesSince::TooOld(_) => None,
    }
}
