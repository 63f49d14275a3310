//! Nodes whose caches are each smaller than the working set, and together larger: the share of it
//! that they hold together, its cost, and their recovery from the death of one.

use std::time::Duration;

use super::nodes::Nodes;
use super::plan::{Plan, Surroundings, shares};
use super::variants::Variant;
use crate::compare::Round;
use crate::load::{PhaseKind, Workload};
use crate::measure::{PhaseFigures, Second};
use crate::run::{End, Pace, PhasePlan, Session};

/// A hit ratio has recovered when it is lower by at most this.
const LOWER: f64 = 0.02;
/// The node to be killed: not the one that the others join.
const VICTIM: usize = 1;
/// Time of load before the node is killed.
const BEFORE: Duration = Duration::from_millis(250);

/// Measures a system; with *recovery* among the parts, also the death of a node.
///
/// # Errors
/// Fails if its nodes do not start, or nothing is answered.
pub fn measure(plan: &Plan, variant: &Variant, around: &mut Surroundings) -> Result<(), String> {
    let Plan { documents, alpha, drift, .. } = *plan;
    let workload = Workload::Zipf { objects: documents, alpha, drift: Some(drift) };
    let mut session = plan.session(workload, around)?;
    let interrupted = around.interrupted;
    let notes = &mut around.comparison.notes;
    let mut nodes = Nodes::start(plan, variant, session.origin_address(), interrupted, notes)?;
    session.set_targets(nodes.fronts());
    session.set_subject(nodes.subject());
    let measured = measure_nodes(plan, variant, around, &mut session, &mut nodes);
    around.add_failures(variant, &session);
    measured
}

fn measure_nodes(
    plan: &Plan,
    variant: &Variant,
    around: &mut Surroundings,
    session: &mut Session,
    nodes: &mut Nodes,
) -> Result<(), String> {
    let warm_up = around.phase(plan, session, &phase("warm-up", End::Requests(plan.warm_up)))?;
    session.settle()?;
    nodes.settle(plan.grant.cache, around.interrupted)?;
    let shared = around.phase(plan, session, &phase("sharing", End::Requests(plan.requests)))?;
    let fetched = (warm_up.origin_answers + shared.origin_answers) as f64;
    let mut more = shares(&shared);
    more.push(("fetches a document", fetched / (new(&warm_up) + new(&shared)).max(1.0)));
    let held = nodes.held()?.unwrap_or(plan.grant.cache);
    more.push(("largest cache MB", held as f64 / 1e6));
    let before = hit_ratio(&shared);
    around.add("sharing", variant, Round { figures: shared, more });
    if !plan.parts.iter().any(|part| part == "recovery") {
        return Ok(());
    }
    around.phase(plan, session, &phase("before", End::After(BEFORE)))?;
    // Under load, which skips the node from then on.
    session.leave_out(VICTIM);
    nodes.kill(VICTIM);
    session.set_subject(nodes.subject());
    let figures = around.phase(plan, session, &phase("recovery", End::After(plan.recovery)))?;
    let more = recovery(&figures, before);
    around.add("recovery", variant, Round { figures, more });
    Ok(())
}

fn phase(name: &str, end: End) -> PhasePlan {
    PhasePlan { name: name.to_owned(), kind: PhaseKind::Steady, pace: Pace::Closed, end }
}

/// Returns the number of documents that were requested for the first time.
fn new(figures: &PhaseFigures) -> f64 {
    figures.answered as f64 * (1.0 - figures.offered_hit_ratio)
}

/// Returns the share of responses for which the origin received no request.
fn hit_ratio(figures: &PhaseFigures) -> f64 {
    1.0 - figures.origin_answers as f64 / (figures.answered as f64).max(1.0)
}

/// Returns the effects of the death of a node, if hits had this ratio before.
fn recovery(figures: &PhaseFigures, before: f64) -> Vec<(&'static str, f64)> {
    let ratio = |second: &Second| second.hits as f64 / second.answered.max(1) as f64;
    // The last one may be a fraction of a second.
    let seconds: Vec<f64> =
        figures.by_second.iter().filter(|second| second.length > 0.5).map(ratio).collect();
    let low = seconds.iter().rposition(|ratio| *ratio < before - LOWER);
    let back = match low {
        None => 0.0,
        Some(last) if last + 1 == seconds.len() => f64::NAN,
        Some(last) => (last + 1) as f64,
    };
    let expected = figures.answered as f64 * (1.0 - before);
    vec![
        ("hits before", before),
        ("lowest hits", seconds.iter().copied().fold(1.0, f64::min)),
        ("hits at the end", seconds.last().copied().unwrap_or(0.0)),
        ("extra fetches", (figures.origin_answers as f64 - expected).max(0.0)),
        ("seconds until back", back),
        ("slowest ms", figures.response_time_since_sent.max),
    ]
}

#[test]
fn a_hit_ratio_is_back_when_no_lower_one_follows() {
    let back = |hits: &[u64], before: f64| {
        let second =
            |hits: &u64| Second { length: 1.0, answered: 100, hits: *hits, ..Second::default() };
        let by_second = hits.iter().map(second).collect();
        let figures = PhaseFigures { by_second, answered: 600, ..PhaseFigures::default() };
        let found = recovery(&figures, before);
        found.into_iter().find(|(name, _)| *name == "seconds until back").unwrap().1
    };
    assert_eq!(back(&[100, 100, 0, 50, 99, 98], 1.0), 4.0);
    assert_eq!(back(&[100, 100], 1.0), 0.0);
    assert!(back(&[100, 0], 1.0).is_nan());
    assert_eq!(back(&[10, 0], 0.0), 0.0);
}
