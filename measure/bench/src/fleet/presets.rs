//! The presets of Olaru and Tichy in the paper's topology: the first node owns all documents, and
//! no client asks it; two others own none and serve the clients.
//!
//! The paper's figures compare requests a second of a system that waits for its disks. What is
//! compared here are reads of the busiest disk by the requests of clients, which the kernel counts.
//! For all presets but those that replicate, this is the disk of the first node.

use std::sync::Arc;

use workload::generator::documents::{DocumentSet, Documents, FileCounts, Requests};

use super::nodes::Nodes;
use super::plan::{Plan, Surroundings, shares};
use super::variants::Variant;
use crate::compare::{Round, Row};
use crate::load::{PhaseKind, Workload};
use crate::measure::device_counts;
use crate::object::{Ask, Object};
use crate::run::{End, Pace, PhasePlan};
#[cfg(test)]
use crate::{compare::Rounds, measure::PhaseFigures};

/// The name of the part.
pub const PART: &str = "presets";
/// The column that is compared.
const READS: &str = "disk reads";
/// Note on the load, which differs from the other parts'.
pub const NOTE: &str =
    "presets: 64 MB of documents in the paper's classes, without drift; the first node owns them";
/// The node that owns all documents.
const DISK_NODE: usize = 0;
/// The documents: of the paper's shares of requests, as many files in each class as SPECweb99 has
/// (the paper's reference 17), and a sixteenth of its bytes.
const DOCUMENTS: DocumentSet = DocumentSet {
    shares: DocumentSet::PAPER,
    counts: FileCounts::Alike,
    skew: 100,
    bytes: 64 << 20,
};

/// A statement of the paper: the first policy is as good as the second one, or better.
struct Claim {
    figure: u32,
    better: &'static str,
    worse: &'static str,
    says: Says,
}

/// Statement of the paper on the first policy.
#[derive(Clone, Copy)]
enum Says {
    /// It is better.
    Better,
    /// It is "slightly better", "very close" or "comparable".
    Close,
}

impl Says {
    /// Returns the most reads of the first policy by those of the second one.
    fn ratio_max(self) -> f64 {
        match self {
            Says::Better => 1.0,
            Says::Close => 1.25,
        }
    }
}

const fn claim(figure: u32, better: &'static str, worse: &'static str, says: Says) -> Claim {
    Claim { figure, better, worse, says }
}

/// The order of the paper's bars, as far as its text states it, and that cooperation reads less
/// than none.
const CLAIMS: [Claim; 13] = {
    use Says::{Better, Close};
    [
        claim(2, "replicated", "remote-disk", Better),
        claim(3, "cooperate-on-large", "replicated", Close),
        claim(3, "cooperate-on-large", "cooperate-on-small", Better),
        claim(3, "cooperate-on-large", "cooperate-on-all", Better),
        claim(3, "cooperate-on-small", "cooperate-on-all", Close),
        claim(3, "cooperate-on-all", "remote-disk", Better),
        claim(4, "offer-medium", "replicated", Close),
        claim(4, "offer-medium", "offer-small", Better),
        claim(4, "offer-medium", "offer-smallest", Better),
        claim(5, "tail-also-discarded", "replicated", Close),
        claim(5, "tail-also-discarded", "tail-uncached", Better),
        claim(5, "tail-uncached", "tail-only", Better),
        claim(6, "replicate-small", "replicated", Better),
    ]
};

/// The presets, in the order of the figures.
pub const PRESETS: [&str; 13] = [
    "replicated",
    "remote-disk",
    "cooperate-on-large",
    "cooperate-on-small",
    "cooperate-on-all",
    "offer-medium",
    "offer-small",
    "offer-smallest",
    "tail-also-discarded",
    "tail-uncached",
    "tail-only",
    "replicate-small",
    "replicate-small-discard-tail",
];

/// Measures a preset.
///
/// # Errors
/// Fails if its nodes do not start, or nothing is answered.
pub fn measure(plan: &Plan, variant: &Variant, around: &mut Surroundings) -> Result<(), String> {
    let keeps_everywhere = variant.name.starts_with("replicate");
    let (fill, warm_up, asked) = requests(plan, keeps_everywhere);
    let count = fill.len() as u64;
    let mut session = plan.session(Workload::Listed(fill), around)?;
    let interrupted = around.interrupted;
    let notes = &mut around.comparison.notes;
    let mut nodes = Nodes::start(plan, variant, session.origin_address(), interrupted, notes)?;
    session.set_targets(nodes.fronts());
    around.phase(plan, &mut session, &phase("fill", count))?;
    session.settle()?;
    nodes.settle(plan.grant.cache, interrupted)?;
    session.leave_out(DISK_NODE);
    session.set_load(plan.load(Workload::Listed(warm_up)))?;
    around.phase(plan, &mut session, &phase("warm-up", plan.warm_up))?;
    session.settle()?;
    session.set_load(plan.load(Workload::Listed(asked)))?;
    session.set_subject(nodes.subject());
    let reads = || -> Result<Vec<u64>, String> {
        let devices = nodes.subject().devices;
        devices.iter().map(|device| Ok(device_counts(device)?.reads)).collect()
    };
    let before = reads()?;
    let figures = around.phase(plan, &mut session, &phase(PART, plan.requests))?;
    session.settle()?;
    let read = reads()?.into_iter().zip(before).map(|(after, before)| after - before);
    let more = vec![
        (READS, read.max().unwrap_or(0) as f64 / figures.answered as f64),
        ("fetches", figures.origin_answers as f64 / figures.answered as f64),
    ];
    let more = [more, shares(&figures)].concat();
    around.add(PART, variant, Round { figures, more });
    around.add_failures(variant, &session);
    Ok(())
}

fn phase(name: &str, requests: u64) -> PhasePlan {
    let (kind, end) = (PhaseKind::Steady, End::Requests(requests));
    PhasePlan { name: name.to_owned(), kind, pace: Pace::Closed, end }
}

type Asks = Arc<[Ask]>;

/// Returns the requests that fill the nodes, those of the warm-up, and those that are measured.
/// Nodes that own nothing are filled if they keep documents on their disks.
fn requests(plan: &Plan, keeps_everywhere: bool) -> (Asks, Asks, Asks) {
    let documents = Arc::new(Documents::classes(&DOCUMENTS, plan.seed));
    let ask = |number: u32| {
        let (id, size) = (u64::from(number), documents.size(number));
        Ask { object: Object { id, size, ..Object::default() }, ..Ask::default() }
    };
    let total = (plan.warm_up + plan.requests) as usize;
    let all: Vec<Ask> = Requests::new(&documents, plan.seed).take(total).map(ask).collect();
    let nodes = if keeps_everywhere { plan.nodes } else { 1 };
    let count = documents.count() as u32;
    let at = |node| (0..count).map(move |number| Ask { node: Some(node), ..ask(number) });
    let fill = (0..nodes).flat_map(at).collect();
    let (warm_up, asked) = all.split_at(plan.warm_up as usize);
    (fill, warm_up.into(), asked.into())
}

/// Compares the rows with the paper's order. Returns a line for each statement about presets that
/// are wanted, and those of them that do not hold or were not measured.
pub fn verdicts(rows: &[Row], is_wanted: impl Fn(&str) -> bool) -> (Vec<String>, Vec<String>) {
    let reads = |preset: &str| {
        let row = rows.iter().find(|row| row.scenario == PART && row.system == preset)?;
        row.more.get(READS).map(|reads| reads.median)
    };
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    let are_wanted = |claim: &Claim| is_wanted(claim.better) && is_wanted(claim.worse);
    for Claim { figure, better, worse, says } in CLAIMS.into_iter().filter(are_wanted) {
        let (Some(less), Some(more)) = (reads(better), reads(worse)) else {
            let line = format!("figure {figure}: {better} or {worse} was not measured");
            wrong.push(line.clone());
            lines.push(line);
            continue;
        };
        let (holds, most) = (less <= more * says.ratio_max(), says.ratio_max());
        let verdict = if holds { "as in the paper" } else { "NOT as in the paper" };
        let line = format!(
            "figure {figure}: {better} {less:.4}, at most {most} times {worse} {more:.4}: {verdict}"
        );
        wrong.extend((!holds).then(|| line.clone()));
        lines.push(line);
    }
    (lines, wrong)
}

#[test]
fn an_order_that_is_not_the_papers_is_reported() {
    let row = |preset: &str, reads: f64| {
        let figures = PhaseFigures::default();
        let mut rounds = Rounds::default();
        rounds.add(PART, preset, Round { figures, more: vec![(READS, reads)] });
        rounds.rows().remove(0)
    };
    let all = [("replicated", 0.1), ("remote-disk", 0.2), ("cooperate-on-large", 0.12)];
    let rows = |all: &[(&str, f64)]| all.iter().map(|(name, reads)| row(name, *reads)).collect();
    let rows_as_stated: Vec<Row> = rows(&all);
    let is_wanted = |name: &str| all.iter().any(|(of, _)| *of == name);
    let (lines, wrong) = verdicts(&rows_as_stated, is_wanted);
    assert_eq!((lines.len(), wrong.len()), (2, 0), "{lines:?}");
    let reversed: Vec<Row> = rows(&[("replicated", 0.2), ("remote-disk", 0.1)]);
    let (_, wrong) = verdicts(&reversed, is_wanted);
    assert_eq!(wrong.len(), 2, "the other was not measured: {wrong:?}");
}
