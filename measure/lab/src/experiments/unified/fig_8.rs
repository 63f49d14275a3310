//! U7, figure 8: mean response time.

use super::both::MachinePair;
use super::machine::MachineClass;
use super::setup;
use super::setup::{Run, System};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Stated, Table};

/// The experiment `unified-fig-8`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-fig-8",
    paper: Paper::Unified,
    place: "figure 8",
    title: "Mean response time of Squid-2.4 and UNIFIED",
    parameters: &setup::PARAMETERS,
    seconds: [1, 1],
    run,
};

/// Returns the highest rate that Squid-2.4 delivers, and UNIFIED's speed-up there (section 5.4).
fn paper(end: MachineClass) -> (u32, f64) {
    match end {
        MachineClass::Low => (50, 3.5),
        MachineClass::High => (170, 1.5),
    }
}

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let mut speedups = Table::new("speedup", "Response time of Squid-2.4 by that of UNIFIED");
    let mut times = Table::new("response", "Mean response time");
    for both in &machines {
        let (last, speedup) = paper(both.end);
        for (rate, squid, unified) in both.pairs() {
            let what = format!("{}, {rate} req/s", both.end.name());
            let paper = if rate == last { speedup.into() } else { Stated::Nothing };
            speedups.row(&what, "×", paper, squid.response_ms() / unified.response_ms());
            for (system, run) in System::BOTH.into_iter().zip([squid, unified]) {
                let what = format!("{what}, {}", system.name());
                times.row(what, "ms", Stated::Nothing, run.response_ms());
            }
        }
    }
    let mut outcome = Outcome::new(why(&machines)).table(speedups).table(times);
    for both in &machines {
        outcome = outcome.plot(both.plot("Mean response time", Run::response_ms));
    }
    Ok(outcome)
}

fn why(machines: &[MachinePair; 2]) -> String {
    let [low, high] = machines;
    let at = |both: &MachinePair| {
        let (last, _) = paper(both.end);
        both.at(last).map_or(String::new(), |(squid, unified)| {
            format!(
                "{:.0} by {:.0} ms is {:.1}",
                squid.response_ms(),
                unified.response_ms(),
                squid.response_ms() / unified.response_ms()
            )
        })
    };
    format!(
        "By the paper's formula, hit time and miss time by their shares. Where Squid-2.4 delivers \
         its last, at 50 requests a second on the low-end machine and 170 on the high-end one, {} \
         (the paper: 3.5) and {} (1.5). Of the paper's rates Squid keeps those up to {} and {} \
         here, UNIFIED those up to {} and {}. The factor is one of how far a system is over what \
         it can do, and so depends more on the last few requests a second than on anything else: \
         as long as both keep the rate it is near 1, because misses wait for their servers in \
         both; beyond, it is the queues' lengths, which the robots' connections bound, and which \
         the paper does not tell. {}",
        at(low),
        at(high),
        low.kept(System::Squid),
        high.kept(System::Squid),
        low.kept(System::Unified),
        high.kept(System::Unified),
        low.at(50).map_or(String::new(), |(squid, _)| setup::one_disk(squid)),
    )
}
