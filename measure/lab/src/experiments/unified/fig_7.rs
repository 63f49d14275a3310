//! U7, figure 7: mean time of a miss.

use super::both::{MachinePair, words};
use super::machine::MachineClass;
use super::setup;
use super::setup::{Run, System};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};

/// The experiment `unified-fig-7`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-fig-7",
    paper: Paper::Unified,
    place: "figure 7",
    title: "Mean miss time of Squid-2.4 and UNIFIED",
    parameters: &setup::PARAMETERS,
    seconds: [1, 1],
    run,
};

/// Returns the paper's ratio of Squid's miss time to UNIFIED's: at most 1 with a light load, more
/// with a heavy one (section 5.3).
fn paper(end: MachineClass, rate: u32) -> Stated {
    match (end, rate) {
        (MachineClass::Low, 10..=20) | (MachineClass::High, 50..=149) => Stated::AtMost(1.0),
        (MachineClass::Low, 30..=50) | (MachineClass::High, 150..=170) => Stated::AtLeast(1.0),
        _ => Stated::Nothing,
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let mut ratios = Table::new("ratio", "Miss time of Squid-2.4 by that of UNIFIED");
    let mut times = Table::new("miss-time", "Mean miss time");
    for both in &machines {
        for (rate, squid, unified) in both.pairs() {
            let what = format!("{}, {rate} req/s", both.end.name());
            let ratio = squid.miss_ms() / unified.miss_ms();
            ratios.row(&what, "×", paper(both.end, rate), ratio);
            for (system, run) in System::BOTH.into_iter().zip([squid, unified]) {
                let what = format!("{what}, {}", system.name());
                times.row(what, "ms", Stated::Nothing, run.miss_ms());
            }
        }
    }
    let mut outcome = Outcome::new(why(&machines)).table(ratios).table(times);
    for both in &machines {
        outcome = outcome.plot(both.plot("Mean miss time", Run::miss_ms));
    }
    Ok(outcome)
}

fn why(machines: &[MachinePair; 2]) -> String {
    let light = |both: &MachinePair, system| both.of(system).first().map_or(f64::NAN, Run::miss_ms);
    let [low, high] = machines;
    let kept = |both: &MachinePair, system| {
        words(both.of(system).iter().filter(|run| run.delivered).map(Run::miss_ms), 0)
    };
    format!(
        "With the lightest load a miss takes {:.0} ms in Squid-2.4 and {:.0} ms in UNIFIED on the \
         low-end machine, {:.0} and {:.0} ms on the high-end one: 2.5 s of these the server takes, \
         and what the cache adds is lost in it, as in the paper. The ratios are within a few \
         percent of 1 there, on either side of it: Squid waits for the metadata of the file that \
         it creates, UNIFIED copies to the file system's buffers. At the rates that are kept \
         Squid's misses take {} and {} ms, UNIFIED's {} and {} ms. Heavy loads tell them apart \
         where the one that is slower does not keep up any more: its misses then wait as its hits \
         do. What an answer costs to store is on the way to the client here, as the paper has it; \
         what is deleted for it is not.",
        light(low, System::Squid),
        light(low, System::Unified),
        light(high, System::Squid),
        light(high, System::Unified),
        kept(low, System::Squid),
        kept(high, System::Squid),
        kept(low, System::Unified),
        kept(high, System::Unified),
    )
}
