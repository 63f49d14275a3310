//! The papers' workloads on flash: the same variants as on their own drives, on the two shipped
//! models of flash drives.

use super::default::{Compared, NAMES, compare, reached, show, words};
use super::drives::Model;
use super::scenario::Scenario;
use super::scenarios;
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Parameter, Stated, Table};

/// The experiment `beyond-flash`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-flash",
    paper: Paper::Beyond,
    place: "flash",
    title: "The product's default beside the papers' best systems, on flash",
    parameters: &PARAMETERS,
    seconds: [1, 20],
    run,
};

const PARAMETERS: [Parameter; 4] = [
    Parameter {
        name: "drives",
        value: "nvme_tlc and sata_tlc, as shipped (quick: nvme_tlc)",
        from: "data sheets; what they leave out is assumed, see the data files",
    },
    Parameter {
        name: "workloads",
        value: "SJ and UC of UCFS, ClarkNet of TFS, PolyMix-4 of UNIFIED, each as in \
                beyond-default (quick: without SJ)",
        from: "ours: one or two of each paper",
    },
    scenarios::PARAMETERS[3],
    scenarios::PARAMETERS[4],
];

pub(super) const DRIVES: [Model; 2] = [Model::Flash("nvme_tlc"), Model::Flash("sata_tlc")];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let drives = &DRIVES[..context.pick(1, DRIVES.len())];
    let some = scenarios::some(context);
    let on = |drive: &Model| {
        some.iter().map(|scenario| Scenario { drive: *drive, ..*scenario }).collect()
    };
    let all: Vec<Vec<Scenario>> = drives.iter().map(on).collect();
    let compared = compare(context, all.concat())?;
    let note =
        "Whole caches, one request after another: no use is made of the drive's parallelism.";
    let outcome = show(Outcome::new(why(&compared)), &compared, note);
    let mut written = Table::new("written", "Bytes written to the drive for a byte asked for");
    for one in &compared {
        for (system, run) in NAMES.iter().zip(&one.runs) {
            let what = format!("{} on {}, {system}", one.scenario.name, one.scenario.drive.name());
            let bytes = run.figures.usage.writes.bytes as f64 / run.figures.bytes as f64;
            written.row(what, "B", Stated::Nothing, bytes);
        }
    }
    Ok(outcome.table(written))
}

fn why(compared: &[Compared]) -> String {
    format!(
        "No paper to compare with: the arms of beyond-default with flash below them. The goal is \
         reached on {} of {} stages, with admission on {}. {}. With admission: {}. A random read \
         of 4 KB takes a hundredth of a disk's, so that what grouping saves in positionings counts \
         for less and what it moves in vain for more, and writes are acknowledged from the drive's \
         buffer. The times are those of requests one at a time; such a drive serves dozens at \
         once, and the processor becomes the limit long before it does (docs/decisions, 3 and 5). \
         The model erases, but moves no live pages before it does: what that would write again is \
         not counted.",
        reached(compared, 1),
        compared.len(),
        reached(compared, 2),
        words(compared, 1),
        words(compared, 2),
    )
}
