//! Both proxies on both machines at the paper's rates: the basis of figures 2 to 8 and tables 1 and
//! 2.

use super::machine::MachineClass;
use super::setup;
use super::setup::{Case, Run, System};
use crate::experiment::{Axis, Context, Failed, Plot};

/// The runs on a machine, by rate.
pub(super) struct MachinePair {
    pub(super) end: MachineClass,
    pub(super) rates: &'static [u32],
    squid: Vec<Run>,
    unified: Vec<Run>,
}

impl MachinePair {
    pub(super) fn run(context: &mut Context<'_>) -> Result<[MachinePair; 2], Failed> {
        let mut cases = Vec::new();
        for end in MachineClass::BOTH {
            for system in System::BOTH {
                let rates = setup::rates(context, end).iter();
                cases.extend(rates.map(|rate| Case::new(context, end, system, *rate)));
            }
        }
        let mut runs = setup::runs(context, &cases)?.into_iter();
        Ok(MachineClass::BOTH.map(|end| {
            let rates = setup::rates(context, end);
            let mut of = || runs.by_ref().take(rates.len()).collect();
            MachinePair { end, rates, squid: of(), unified: of() }
        }))
    }

    /// Returns the runs of one proxy, by rate.
    pub(super) fn of(&self, system: System) -> &[Run] {
        match system {
            System::Squid => &self.squid,
            System::Unified => &self.unified,
        }
    }

    /// Returns the rates with the runs of both proxies.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, &Run, &Run)> {
        let runs = self.squid.iter().zip(&self.unified);
        self.rates.iter().zip(runs).map(|(rate, (squid, unified))| (*rate, squid, unified))
    }

    /// Returns the runs of both at a rate.
    pub(super) fn at(&self, rate: u32) -> Option<(&Run, &Run)> {
        self.pairs().find(|(at, ..)| *at == rate).map(|(_, squid, unified)| (squid, unified))
    }

    /// Returns the highest of the paper's rates that a proxy sustained; 0 if none.
    pub(super) fn kept(&self, system: System) -> u32 {
        let runs = self.rates.iter().zip(self.of(system));
        runs.filter(|(_, run)| run.delivered).map(|(rate, _)| *rate).max().unwrap_or(0)
    }

    pub(super) fn plot(&self, what: &str, of: impl Fn(&Run) -> f64) -> Plot {
        let id = self.end.name();
        let title = format!("{what}, {id} test");
        let rate = Axis::linear("requests a second");
        let mut plot = Plot::lines(id, &title, rate, Axis::log("ms"));
        for system in System::BOTH {
            let points = self.rates.iter().zip(self.of(system));
            let points = points.map(|(rate, run)| (f64::from(*rate), of(run)));
            plot = plot.ours(system.name(), points);
        }
        plot.note(
            "The paper's figure has no numbers that could be read. Beyond a rate that is kept, \
             robots have as many requests under way as they may, and times say little.",
        )
    }
}

pub(super) fn words(numbers: impl IntoIterator<Item = f64>, digits: usize) -> String {
    let words: Vec<String> =
        numbers.into_iter().map(|number| format!("{number:.digits$}")).collect();
    match words.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
