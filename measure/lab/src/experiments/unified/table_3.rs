//! U7, table 3: peak throughput and its dependencies.

use super::machine::MachineClass;
use super::setup;
use super::setup::{Case, Modification, Run, System};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `unified-table-3`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-table-3",
    paper: Paper::Unified,
    place: "table 3",
    title: "Peak throughput of Squid-2.4 and UNIFIED",
    parameters: &setup::PARAMETERS,
    seconds: [10, 150],
    run,
};

fn paper(end: MachineClass, system: System) -> [f64; 2] {
    match (end, system) {
        (MachineClass::Low, System::Squid) => [50.0, 60.0],
        (MachineClass::Low, System::Unified) => [120.0, 130.0],
        (MachineClass::High, System::Squid) => [170.0, 180.0],
        (MachineClass::High, System::Unified) => [250.0, 300.0],
    }
}

/// The modifications measured; a quick run has the first three.
const MODIFICATIONS: [(Modification, &[System]); 9] = [
    (Modification::Paper, &System::BOTH),
    (Modification::FreeCalls, &[System::Squid]),
    (Modification::DearCalls, &[System::Squid]),
    (Modification::LaterMetadata, &[System::Squid]),
    (Modification::Asynchronous, &[System::Unified]),
    (Modification::NoAccessTimes, &[System::Squid]),
    (Modification::Mounted, &[System::Squid]),
    (Modification::WriteThrough, &System::BOTH),
    (Modification::SlowProcessor, &System::BOTH),
];

/// Runs by modification and system, on both machines.
type Varied = Vec<((Modification, System), [Run; 2])>;

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let varied = vary(context)?;
    let peak = |system| {
        let found = varied.iter().find(|(of, _)| *of == (Modification::Paper, system));
        found.map_or([f64::NAN; 2], |(_, runs)| runs.each_ref().map(|run| run.achieved))
    };
    let peaks = [peak(System::Squid), peak(System::Unified)];
    let mut table = Table::new("peak", "Requests answered a second").ordered();
    let mut more = Table::new("gain", "What UNIFIED adds");
    let mut groups = Vec::new();
    for (at, (end, gain)) in MachineClass::BOTH.into_iter().zip([127.0, 57.0]).enumerate() {
        for (system, peaks) in System::BOTH.into_iter().zip(&peaks) {
            let [from, to] = paper(end, system);
            let what = format!("{}, {}", end.name(), system.name());
            table.row(&what, "req/s", from..=to, peaks[at]);
            groups.push((what, (from + to) / 2.0, peaks[at]));
        }
        more.row(end.name(), "%", gain, 100.0 * (peaks[1][at] / peaks[0][at] - 1.0));
    }
    let title = "Requests answered a second";
    let names = groups.iter().map(|(what, ..)| what.as_str());
    let plot = Plot::bars("peak", title, names, Axis::linear("req/s"))
        .paper_bars("peak", groups.iter().map(|(_, paper, _)| *paper))
        .ours_bars("peak", groups.iter().map(|(.., ours)| *ours))
        .note(format!("Of the paper's ranges, the middle. {}", setup::note(context)));
    let title = "Requests answered a second, if one thing is different";
    let mut different = Table::new("varied", title);
    for ((modification, system), runs) in &varied {
        for (end, run) in MachineClass::BOTH.into_iter().zip(runs) {
            let what = format!("{}, {}, {}", end.name(), system.name(), modification.name());
            different.row(what, "req/s", Stated::Nothing, run.achieved);
        }
    }
    let why = why(peaks, &varied);
    Ok(Outcome::new(why).table(table).table(more).table(different).plot(plot))
}

fn vary(context: &mut Context<'_>) -> Result<Varied, Failed> {
    let variants = &MODIFICATIONS[..context.pick(3, MODIFICATIONS.len())];
    let each = |(modification, systems): &(Modification, &'static [System])| {
        let modification = *modification;
        systems.iter().map(move |system| (modification, *system))
    };
    let all: Vec<(Modification, System)> = variants.iter().flat_map(each).collect();
    let case =
        |(modification, system), end| Case::flooded(context, end, system).varied(modification);
    let cases: Vec<Case> =
        all.iter().flat_map(|of| MachineClass::BOTH.map(|end| case(*of, end))).collect();
    let runs = setup::runs(context, &cases)?;
    let pairs = runs.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    Ok(all.into_iter().zip(pairs).collect())
}

fn why(peaks: [[f64; 2]; 2], varied: &Varied) -> String {
    let of = |system| {
        let mine = varied.iter().filter(|((_, of), _)| *of == system);
        let mine = mine.map(|((modification, _), [low, high])| {
            format!("{:.0} and {:.0} ({})", low.achieved, high.achieved, modification.name())
        });
        mine.collect::<Vec<_>>().join(", ")
    };
    let [squid, unified] = peaks;
    let one_disk = varied.first().map_or(String::new(), |(_, [low, _])| setup::one_disk(low));
    format!(
        "The peak is what is answered a second when four times as many requests come as the paper \
         says can be answered. Squid-2.4 answers {:.0} and {:.0} requests a second on the low-end \
         and the high-end machine (the paper: 50 to 60, 170 to 180), UNIFIED {:.0} and {:.0} (120 \
         to 130, 250 to 300): {:.0}% and {:.0}% more (127%, 57%). {one_disk}\n\nWhat it depends \
         on, low-end and high-end. Squid: {}. UNIFIED: {}. On the high-end machine UNIFIED is held \
         back by its one process, which does nothing else while it reads: four of five striped \
         disks are idle. On the low-end one the disk is what is short: beside the reads of hits, \
         the file system reads a block before it overwrites a part of it, which is what the end of \
         an object is, as long as the file's chunks are smaller than the file system's blocks.",
        squid[0],
        squid[1],
        unified[0],
        unified[1],
        100.0 * (unified[0] / squid[0] - 1.0),
        100.0 * (unified[1] / squid[1] - 1.0),
        of(System::Squid),
        of(System::Unified),
    )
}
