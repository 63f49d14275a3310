//! Waits until other nodes have what was purged here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleet::MemberId;
use fleet::member::State;
use fleet::purges::order::Progress;
use fleet::purges::{Consistency, Outcome};
use tokio::time::{sleep, timeout};

use crate::peers::node::Node;
use crate::request::purge_order::Spread;

/// Stands for nodes whose names are unknown.
const UNMET: &str = "any other node";

/// How often a node that joins looks again.
const AGAIN: Duration = Duration::from_millis(100);

/// How long the response to an unsafe request waits for the other nodes.
pub(super) const REQUEST_PATIENCE: Duration = Duration::from_secs(2);

/// How long the maker of a purge waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An operator wants to know which nodes have carried it out.
    Purge,
    /// The response to an unsafe request waits a moment for the nodes that answer others.
    Request,
}

/// Returns why no purge may be made here now, if so: another node has this one's name, or in a
/// strict fleet too few nodes answer.
pub(crate) fn refusal(node: &Node) -> Option<String> {
    if let Some(why) = node.name_in_use() {
        return Some(why);
    }
    node.refresh_view();
    let (gone, view) = (node.gone(), node.purges().view());
    let all = view.len();
    let there = all - view.intersection(&gone).count();
    let wanted = fleet::purges::quorum::to_accept(all);
    let is_refused = node.consistency() == Consistency::Strict && there < wanted;
    is_refused.then(|| {
        format!(
            "{there} of {all} nodes are there, and purge.consistency = \"strict\" wants {wanted}"
        )
    })
}

/// Waits for the other nodes to have all that was purged here.
pub(crate) async fn await_others(node: &Arc<Node>, wait: Wait) -> Spread {
    let now = node.now();
    let latest = match wait {
        // The outcome is known by then.
        Wait::Purge => Duration::MAX,
        Wait::Request => now.saturating_add(REQUEST_PATIENCE),
    };
    // A node that has just started may know few of those that have its objects, until those that it
    // knows have said whom they know.
    let joins = || node.own().state == State::Joining;
    let has_joined = !joins();
    let met_by = latest.min(now.saturating_add(node.patience_of_purges().lease));
    while joins() && node.now() < met_by {
        sleep(AGAIN).await;
    }
    // One that is told to stop meanwhile never learns of them.
    let knows_all = has_joined || node.own().state == State::Serving;
    let unmet = (!knows_all).then(|| (UNMET.to_owned(), "not all have been met yet".to_owned()));
    node.refresh_view();
    let (_, number) = node.purges().own();
    let mut changes = node.purges().changes();
    let (mut gone, mut looked) = (node.gone(), node.now());
    let outcome = loop {
        let now = node.now();
        if now.saturating_sub(looked) >= AGAIN {
            (gone, looked) = (node.gone(), now);
        }
        let until = match node.purges().progress(number, &gone, now) {
            None => break None,
            Some(Progress::Done(outcome)) => break Some(outcome),
            Some(Progress::Open(until)) => until,
        };
        if now >= latest {
            break None;
        }
        // A little later than the last moment at which it is open, unless nodes are gone earlier.
        let pause = until.min(latest).saturating_sub(now) + Duration::from_millis(1);
        let pause = pause.min(AGAIN);
        let _ = timeout(pause, changes.changed()).await;
    };
    let mut spread = spread_of(node, outcome);
    spread.unreached.extend(unmet);
    spread
}

fn spread_of(node: &Node, outcome: Option<Outcome>) -> Spread {
    let mut others = node.purges().view();
    others.remove(node.id());
    let all = others.len();
    let (unreached, copies) = match outcome {
        // It was not waited for any longer: which nodes have it is not known.
        None => (others, None),
        Some(Outcome::Complete) => (BTreeSet::new(), None),
        Some(Outcome::Accepted { unreached }) => (unreached, None),
        Some(Outcome::NoQuorum { copies, unreached }) => (unreached, Some(copies)),
    };
    let (lost, mut failures) = (node.lost(), node.purges().failures(node.now()));
    let mut why = |id: MemberId| {
        let lost = lost.get(id.as_str()).cloned();
        let why = lost.or_else(|| failures.remove(&id).map(|(_, why)| why));
        (id.to_string(), why.unwrap_or_else(|| "it has not answered in time".to_owned()))
    };
    let nodes = all.saturating_sub(unreached.len());
    let unreached: BTreeMap<String, String> = unreached.into_iter().map(&mut why).collect();
    Spread { nodes, unreached, copies }
}
