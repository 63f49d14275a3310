//! The stages of `beyond-default` on disks of a quarter of the size, so that eviction counts.

use super::default::{compare, conditions, fast, show, words};
use super::scenario::Scenario;
use super::scenarios;
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Parameter};

/// The experiment `beyond-quarter`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-quarter",
    paper: Paper::Beyond,
    place: "the product's default",
    title: "The product's default beside each paper's best system, on a quarter of the disk",
    parameters: &PARAMETERS,
    seconds: [2, 90],
    run,
};

const PARAMETERS: [Parameter; 7] = [
    Parameter {
        name: "disk",
        value: "a quarter of the paper's; all else as in beyond-default",
        from: "ours: with the paper's, most stages evict nothing while requests count",
    },
    scenarios::PARAMETERS[0],
    scenarios::PARAMETERS[1],
    scenarios::PARAMETERS[2],
    scenarios::PARAMETERS[3],
    scenarios::PARAMETERS[4],
    scenarios::PARAMETERS[5],
];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let stages = scenarios::all(context).into_iter();
    let stages = stages.map(|scenario| Scenario { percent: 25, ..scenario }).collect();
    let compared = compare(context, stages)?;
    let why = format!(
        "No paper to compare with: the stages of beyond-default with a quarter of the disk, so \
         that objects are evicted while requests count (table \"conditions\"). The product beside \
         the paper's best: {}.",
        words(&compared, 1),
    );
    let outcome = Outcome::new(why).table(fast(&compared)).table(conditions(&compared));
    let note = "Whole caches on a quarter of the paper's disk, one request after another.";
    Ok(show(outcome, &compared, note))
}
