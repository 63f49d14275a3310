//! This node's own log of purges, as others know it: whether its disk is an old one.
//!
//! It promises: a node that learns, from whomever, that purges were made at it of which its disk
//! does not know gives up all that it has stored before it says so.

use std::rc::Rc;
use std::sync::Arc;

use fleet::{LogPosition, PurgePositions};

use crate::fleet_control::following::purge_everything;
use crate::fleet_control::spreading::own_end;
use crate::peers::node::Node;
use crate::services::Services;

/// Begins another log when others have followed more of this node's own than there is, or one that
/// is not on its disk: that is an old one.
pub(crate) async fn check_own_log(
    services: &Rc<Services>,
    node: &Arc<Node>,
    theirs: &PurgePositions,
) {
    let Some(store) = services.store() else { return };
    let (Some(end), Some(followed)) = (own_end(&store), theirs.get(node.id())) else { return };
    if !is_of_another_disk(node, end, followed) {
        return;
    }
    log::error!(
        "others know of purges that were made here up to {followed}, and the log of this cache \
         ends at {end}: the cache is an older one, and all that it has counts as purged"
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

/// Returns whether the log that ends here is not the one that others have `followed`, and something
/// may be stored of which that one tells.
fn is_of_another_disk(node: &Node, end: LogPosition, followed: LogPosition) -> bool {
    if followed.log == end.log {
        return followed.number > end.number;
    }
    // Known as one that was replaced, or from now on: once is enough.
    node.purges().note_former_own(followed.log) && node.purges().began_with_something()
}
