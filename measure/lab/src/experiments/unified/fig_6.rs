//! U7, figure 6: mean time of a hit.

use super::both::{MachinePair, words};
use super::machine::MachineClass;
use super::setup;
use super::setup::{Run, System};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};

/// The experiment `unified-fig-6`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-fig-6",
    paper: Paper::Unified,
    place: "figure 6",
    title: "Mean hit time of Squid-2.4 and UNIFIED",
    parameters: &setup::PARAMETERS,
    seconds: [1, 1],
    run,
};

/// Returns how many times faster UNIFIED's hits are, and the highest rate for which this is stated,
/// up to which Squid-2.4 delivers (section 5.2).
fn paper(end: MachineClass) -> (Stated, u32) {
    match end {
        MachineClass::Low => ((6.0..=22.0).into(), 50),
        MachineClass::High => ((2.0..=9.0).into(), 170),
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let mut speedups = Table::new("speedup", "Hit time of Squid-2.4 by that of UNIFIED");
    let mut times = Table::new("hit-time", "Mean hit time");
    for both in &machines {
        let (paper, last) = paper(both.end);
        for (rate, squid, unified) in both.pairs() {
            let what = format!("{}, {rate} req/s", both.end.name());
            let paper = if rate <= last { paper } else { Stated::Nothing };
            speedups.row(&what, "×", paper, squid.hit_ms() / unified.hit_ms());
            for (system, run) in System::BOTH.into_iter().zip([squid, unified]) {
                let what = format!("{what}, {}", system.name());
                times.row(what, "ms", Stated::Nothing, run.hit_ms());
            }
        }
    }
    let mut outcome = Outcome::new(why(&machines)).table(speedups).table(times);
    for both in &machines {
        outcome = outcome.plot(both.plot("Mean hit time", Run::hit_ms));
    }
    Ok(outcome)
}

fn why(machines: &[MachinePair; 2]) -> String {
    let [low, high] = machines.each_ref().map(|both| {
        let kept = both.pairs().filter(|(_, squid, _)| squid.delivered);
        words(kept.map(|(_, squid, unified)| squid.hit_ms() / unified.hit_ms()), 1)
    });
    let light = |both: &MachinePair, system| both.of(system).first().map_or(f64::NAN, Run::hit_ms);
    let [one, five] = machines;
    let ratio = |both: &MachinePair| {
        let ratios =
            both.pairs().map(|(_, squid, unified)| (squid.hit_ratio() - unified.hit_ratio()).abs());
        100.0 * ratios.fold(0.0, f64::max)
    };
    format!(
        "At the rates that Squid-2.4 keeps, UNIFIED's hits are {low} times faster on the low-end \
         machine (the paper: 6 to 22) and {high} times on the high-end one (2 to 9). With a \
         light load a hit takes {:.1} and {:.1} ms on one IDE disk, {:.1} and {:.1} ms on five \
         SCSI disks. A hit of Squid is an open, which may read a directory and an inode, several \
         reads of 4 KB, all in turn behind what the one process of the directory is doing, and \
         Squid looks for each answer only when the network wakes it or 10 ms are over, which \
         with a light load is most of its hit time; a hit of UNIFIED is one read. Both times \
         hold what is found in memory. UNIFIED's process does nothing else while it waits for \
         the disk, so that its own hit time rises with the rate, too, and the factor falls again \
         where UNIFIED comes near what it can do. The hit ratios differ by {:.1} and {:.1} \
         points at most.",
        light(one, System::Squid),
        light(one, System::Unified),
        light(five, System::Squid),
        light(five, System::Unified),
        ratio(one),
        ratio(five),
    )
}
