//! Cost of a response from another node's memory, beside one from the memory of the node that
//! received the request: the processor time of all nodes together.
//!
//! All documents are in the memory of their owners only. Half of the measurement sends requests to
//! the owner, the other half to a node that is not.

use super::nodes::Nodes;
use super::plan::{Plan, Surroundings, shares};
use super::variants::Variant;
use crate::compare::Round;
use crate::load::{PhaseKind, Workload};
use crate::object::{Ask, Object, ServedFrom};
use crate::run::{End, Pace, PhasePlan, Session};

/// Number of documents: few enough to be in memory, and many enough that none becomes hot.
const DOCUMENTS: u64 = 1_000;
/// Bytes of each document.
const SIZE: u64 = 3_000;

/// Measures a system.
///
/// # Errors
/// Fails if its nodes do not start, or the owners cannot be determined.
pub fn measure(plan: &Plan, variant: &Variant, around: &mut Surroundings) -> Result<(), String> {
    let mut session = plan.session(listed(&[(0, 0)]), around)?;
    let interrupted = around.interrupted;
    let notes = &mut around.comparison.notes;
    let mut nodes = Nodes::start(plan, variant, session.origin_address(), interrupted, notes)?;
    session.set_targets(nodes.fronts());
    session.set_subject(nodes.subject());
    let owners = owners(plan, around, &mut session)?;
    nodes.settle(plan.grant.cache, interrupted)?;
    let others: Vec<(u64, usize)> = owners
        .iter()
        .enumerate()
        // The requests for one owner's documents go to all other nodes in turn.
        .map(|(at, (id, owner))| (*id, (owner + 1 + at % (plan.nodes - 1)) % plan.nodes))
        .collect();
    for (part, asked) in [("remote: the owner asked", &owners), ("remote: another asked", &others)]
    {
        session.set_load(plan.load(listed(asked)))?;
        let figures = around.phase(plan, &mut session, &phase(End::After(plan.time)))?;
        session.settle()?;
        let more = shares(&figures);
        around.add(part, variant, Round { figures, more });
    }
    around.add_failures(variant, &session);
    Ok(())
}

fn phase(end: End) -> PhasePlan {
    PhasePlan { name: "remote".into(), kind: PhaseKind::Steady, pace: Pace::Closed, end }
}

/// Returns requests for documents at nodes, in turn.
fn listed(all: &[(u64, usize)]) -> Workload {
    let ask = |(id, node): &(u64, usize)| {
        let object = Object { id: *id, size: SIZE, ..Object::default() };
        Ask { object, node: Some(*node), ..Ask::default() }
    };
    Workload::Listed(all.iter().map(ask).collect::<Vec<_>>().into())
}

/// Fetches all documents; returns each with the node that keeps it.
fn owners(
    plan: &Plan,
    around: &mut Surroundings,
    session: &mut Session,
) -> Result<Vec<(u64, usize)>, String> {
    let each: Vec<(u64, usize)> =
        (0..plan.nodes).flat_map(|node| (0..DOCUMENTS).map(move |id| (id, node))).collect();
    let all = each.len() as u64;
    session.set_load(plan.load(listed(&each)))?;
    // The second time they are where they stay.
    around.phase(plan, session, &phase(End::Requests(all)))?;
    session.settle()?;
    session.record_sources();
    around.phase(plan, session, &phase(End::Requests(all)))?;
    session.settle()?;
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); DOCUMENTS as usize];
    for (id, node, from) in session.take_sources() {
        if ServedFrom::is_own(from) {
            own[id as usize].push(node);
        }
    }
    let owners: Vec<(u64, usize)> = (0..DOCUMENTS)
        .filter_map(|id| match own[id as usize][..] {
            [owner] => Some((id, owner)),
            _ => None,
        })
        .collect();
    match owners.len() as u64 * 10 < DOCUMENTS * 9 {
        true => Err(format!("only {} of {DOCUMENTS} documents are at one node", owners.len())),
        false => Ok(owners),
    }
}
