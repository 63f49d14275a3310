//! The comparison behind figures 6 to 10 and tables 3 and 4: every system on every trace.

use super::setup;
use super::setup::{Case, System};
use super::traces::TRACES;
use crate::experiment::{Context, Failed, Stated, Table};
use crate::run::whole_cache::Figures;

/// The results of every system on every trace.
pub(super) struct Comparison {
    /// Indices in [`TRACES`].
    pub(super) traces: Vec<usize>,
    /// Results by trace, then in the order of [`System::ALL`].
    figures: Vec<Vec<Figures>>,
}

impl Comparison {
    pub(super) fn run(context: &mut Context<'_>) -> Result<Comparison, Failed> {
        Comparison::of(context, setup::traces(context), |case| case)
    }

    /// Runs the comparison on these traces, with each case changed by `change`.
    pub(super) fn of(
        context: &mut Context<'_>,
        traces: Vec<usize>,
        change: impl Fn(Case) -> Case,
    ) -> Result<Comparison, Failed> {
        let case = |trace: usize, system| change(Case::new(context, trace, system));
        let cases: Vec<Case> = traces
            .iter()
            .flat_map(|trace| System::ALL.map(|system| case(*trace, system)))
            .collect();
        let figures = setup::figures(context, &cases)?;
        let figures = figures.chunks(System::ALL.len()).map(<[Figures]>::to_vec).collect();
        Ok(Comparison { traces, figures })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.traces.iter().map(|trace| TRACES[*trace].name)
    }

    /// Returns a number of a system on each trace.
    pub(super) fn each(&self, system: System, number: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.figures.iter().map(|all| number(&all[place(system)])).collect()
    }

    /// Returns the ratio of the system's number to that of UCFS, on each trace.
    pub(super) fn speedups(&self, system: System, number: impl Fn(&Figures) -> f64) -> Vec<f64> {
        let pair = |all: &Vec<Figures>| number(&all[place(system)]) / number(&all[place(UCFS)]);
        self.figures.iter().map(pair).collect()
    }

    /// Returns a table of how much slower than UCFS each baseline is, with the paper's statement
    /// for all traces together.
    pub(super) fn speedup_table(
        &self,
        id: &str,
        title: &str,
        number: impl Fn(&Figures) -> f64,
        paper: impl Fn(System) -> Stated,
    ) -> Table {
        let mut table = Table::new(id, title);
        for system in System::BASELINES {
            for (name, speedup) in self.names().zip(self.speedups(system, &number)) {
                table.row(format!("{}, {name}", system.name()), "×", paper(system), speedup);
            }
        }
        table
    }
}

const UCFS: System = System::Ucfs;

fn place(system: System) -> usize {
    System::ALL.iter().position(|known| *known == system).unwrap_or(0)
}

/// Returns the smallest and the largest of the numbers.
pub(super) fn span(numbers: &[f64]) -> (f64, f64) {
    numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
        (low.min(*number), high.max(*number))
    })
}

/// Formats "7.1 to 12.3", or one number.
pub(super) fn words(numbers: &[f64], digits: usize) -> String {
    let (low, high) = span(numbers);
    let (low, high) = (format!("{low:.digits$}"), format!("{high:.digits$}"));
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}
