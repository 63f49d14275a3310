//! Disks of today: the workload of UCFS on its own drive and on flash, with disk and memory 1, 4
//! and 16 times as large as in 2001.
//!
//! No drive of many terabytes is shipped, because no measured data of one are available. The
//! effects of a larger disk on a cache (more clusters, longer tables, hits from farther back) show
//! all the same; those on the mechanism do not.

use super::default::{Compared, compare, reached, show, words};
use super::drives::Model;
use super::scenario::Scenario;
use super::scenarios;
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Parameter, Plot};

/// The experiment `beyond-today`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "beyond-today",
    paper: Paper::Beyond,
    place: "disks of today",
    title: "The product's default beside UCFS, by the size of disk and memory",
    parameters: &PARAMETERS,
    seconds: [2, 40],
    run,
};

const PARAMETERS: [Parameter; 4] = [
    Parameter {
        name: "sizes",
        value: "16, 64 and 256 GB of disk with 256 MB, 1 GB and 4 GB of memory for objects and \
                tables in proportion (quick: 16 and 64 GB)",
        from: "ours: the paper's proportion",
    },
    Parameter {
        name: "drives",
        value: "the Atlas 10K of UCFS, over at most all of it, and nvme_tlc; no drive of today \
                with platters is shipped",
        from: "sizes are scaled instead: no data of a larger drive is at hand",
    },
    Parameter {
        name: "workload",
        value: "UC of UCFS (quick: 6,000 requests)",
        from: "ours: that which fills its disk most often",
    },
    scenarios::PARAMETERS[4],
];

/// Sizes as multiples of the paper's.
const SIZES: [(u64, &str); 3] = [(1, "16 GB"), (4, "64 GB"), (16, "256 GB")];
const DRIVES: [Model; 2] = [Model::Ucfs, Model::Flash("nvme_tlc")];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let sizes = &SIZES[..context.pick(2, SIZES.len())];
    let scenario = scenarios::all(context).into_iter().find(|scenario| scenario.name == "UC");
    let scenario = scenario.ok_or("there is no stage of UC")?;
    let all = DRIVES.iter().flat_map(|drive| {
        sizes.iter().map(move |(times, name)| Scenario {
            name,
            drive: *drive,
            tier: scenario.tier * times,
            disk: scenario.disk * times,
            ..scenario
        })
    });
    let all: Vec<Scenario> = all.collect();
    let compared = compare(context, all)?;
    let note = "Whole caches, one request after another; a 32nd of everything.";
    let outcome = show(Outcome::new(why(&compared)), &compared, note);
    let x = || Axis::log("disk cache (GB)");
    let mut factors = Plot::lines(
        "by-size",
        "How many times as fast as UCFS, by the size of the disk",
        x(),
        Axis::linear("times UCFS"),
    );
    for (drive, compared) in DRIVES.iter().zip(compared.chunks(sizes.len())) {
        for (index, system) in [(1, "Larder"), (2, "Larder, second-hit")] {
            let points = sizes.iter().zip(compared);
            let points = points.map(|((times, _), one)| (16.0 * *times as f64, one.factor(index)));
            factors = factors.ours(&format!("{system} on {}", drive.name()), points);
        }
    }
    Ok(outcome.plot(factors.note(note)))
}

fn why(compared: &[Compared]) -> String {
    format!(
        "No paper to compare with. Disk and memory grow together; what is asked for stays. The \
         goal of beyond-default is reached on {} of {} stages, with admission on {}. {}. With \
         admission: {}. With larger disks more of what is asked for again is still there, until \
         nothing is evicted any more. The platters are those of 1999 and at most 27 GB wide: a \
         disk of today moves ten times the bytes a second and takes about as long for a seek, \
         which favours whoever reads and writes more at a time.",
        reached(compared, 1),
        compared.len(),
        reached(compared, 2),
        words(compared, 1),
        words(compared, 2),
    )
}
