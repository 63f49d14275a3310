//! The result of an evaluation, beside the paper's.

use maud::html;
use plot::{Axis, Plot};
use serde::Serialize;

use super::evaluation::{Plan, Trial};
use super::paper::{CallsPerRequest, SAVED, Test, calls_per_request};
use crate::measure::{DeviceFigures, FileCallCounts};
use crate::report::{Table, bytes, document, figure, rate, share, time};

/// Calls that were counted in a phase at a low rate.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// Requests per second.
    pub rate: f64,
    /// Requests that got a response.
    pub requests: u64,
    /// Share of the responses that the origin was not asked for.
    pub hit_ratio: f64,
    /// Calls on the cache's files or device; `None`: unknown.
    pub calls: Option<FileCallCounts>,
    /// Why they are unknown.
    pub unknown: Option<String>,
    /// Activity of the device during the count.
    pub device: Option<DeviceFigures>,
}

impl Counted {
    /// Returns open, close, unlink, read and write calls per request. Operations through a ring
    /// count as the calls that they replace.
    fn per_request(&self) -> Option<CallsPerRequest> {
        let calls = self.calls?;
        let reads = calls.reads + calls.ring_reads.unwrap_or(0);
        let writes = calls.writes + calls.ring_writes.unwrap_or(0);
        let all = [calls.opens, calls.closes, calls.unlinks, reads, writes];
        Some(all.map(|count| count as f64 / self.requests.max(1) as f64))
    }
}

/// The measurements of a system.
#[derive(Clone, Debug, Serialize)]
pub struct SystemFigures {
    /// The name of the system.
    pub system: String,
    /// The counted calls.
    pub counted: Counted,
    /// The trials, in order.
    pub trials: Vec<Trial>,
    /// The highest carried rate.
    pub peak: Option<f64>,
    /// True if the search was completed; if not, the peak may lie elsewhere.
    pub is_narrowed: bool,
}

impl SystemFigures {
    /// Returns the last trial at a rate.
    fn at(&self, rate: f64) -> Option<&Trial> {
        self.trials.iter().rev().find(|trial| trial.rate == rate)
    }
}

/// The complete result.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The version of this program.
    pub version: &'static str,
    /// The paper's machine that the disk represents.
    pub test: Test,
    /// The seed of all random choices.
    pub seed: u64,
    /// Bytes of each cache.
    pub cache: u64,
    /// Bytes of each system's memory.
    pub memory: u64,
    /// Operations per second to which the devices were limited.
    pub operations: Option<u32>,
    /// Mean think time of the origin in seconds.
    pub think: f64,
    /// Duration of a trial in seconds.
    pub trial: f64,
    /// The systems; the others are compared with the first.
    pub systems: Vec<SystemFigures>,
    /// The first wrong responses.
    pub failures: Vec<String>,
    /// The number of wrong responses.
    pub failure_count: u64,
    /// True if a signal ended the evaluation.
    pub interrupted: bool,
    /// Notes, such as what was left out and why.
    pub notes: Vec<String>,
}

/// A table with its title and note.
struct Shown {
    title: &'static str,
    table: Table,
    note: String,
}

/// The figure of a trial that is plotted.
type OfTrial = fn(&Trial) -> f64;

const HIT: OfTrial = |trial| trial.figures.hit_time.mean;
const MISS: OfTrial = |trial| trial.figures.miss_time.mean;
const RESPONSE: OfTrial = |trial| trial.figures.response_time.mean;

impl Evaluation {
    /// Creates an empty result.
    pub fn of(plan: &Plan) -> Evaluation {
        Evaluation {
            version: env!("CARGO_PKG_VERSION"),
            test: plan.test,
            seed: plan.seed,
            cache: plan.grant.cache,
            memory: plan.grant.memory,
            operations: plan.grant.operations,
            think: plan.think.mean,
            trial: plan.trial.as_secs_f64(),
            systems: Vec::new(),
            failures: Vec::new(),
            failure_count: 0,
            interrupted: false,
            notes: Vec::new(),
        }
    }

    /// Returns the rates that were tried, in ascending order.
    fn rates(&self) -> Vec<f64> {
        let trials = self.systems.iter().flat_map(|system| &system.trials);
        let mut rates: Vec<f64> = trials.map(|trial| trial.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates
    }

    fn about(&self) -> String {
        let held = self.operations.map_or("not held back".to_owned(), |most| {
            format!("held to {most} reads and {most} writes a second")
        });
        format!(
            "PolyMix-3, caches of {}, {} of memory and one core for each, disks {held}, the origin \
             takes {} in the mean, {:.0} s for each rate; seed {}",
            bytes(self.cache as f64),
            bytes(self.memory as f64),
            time(self.think * 1e3),
            self.trial,
            self.seed,
        )
    }

    fn tables(&self) -> Vec<Shown> {
        vec![self.calls(), self.times(), self.ratios(), self.peaks()]
    }

    /// Returns tables 1 and 2.
    fn calls(&self) -> Shown {
        let mut table = Table::new([
            "",
            "req/s",
            "open",
            "close",
            "unlink",
            "read",
            "write",
            "device reads",
            "device writes",
        ]);
        let number = |count: f64| format!("{count:.2}");
        for (paper_rate, squid, unified) in calls_per_request() {
            for (name, calls) in [("Squid-2.4", squid), ("UNIFIED", unified)] {
                let name = [format!("the paper's {name}"), paper_rate.to_string()];
                let rest = ["-".to_owned(), "-".to_owned()];
                table.row(name.into_iter().chain(calls.map(number)).chain(rest));
            }
        }
        for SystemFigures { system, counted, .. } in &self.systems {
            let calls =
                counted.per_request().map_or(["-"; 5].map(str::to_owned), |c| c.map(number));
            let device = match &counted.device {
                Some(did) => [did.reads_per_request, did.writes_per_request].map(number),
                None => ["-"; 2].map(str::to_owned),
            };
            let name = [system.clone(), format!("{:.0}", counted.rate)];
            table.row(name.into_iter().chain(calls).chain(device));
        }
        let title = "Tables 1 and 2: calls for each request";
        Shown { title, table, note: self.saved() }
    }

    /// Returns how many of the other systems' reads and writes the first system saves.
    fn saved(&self) -> String {
        let mut note = format!(
            "UNIFIED saves {} of Squid-2.4's reads and {} of its writes (the paper, section 5.1).",
            share(SAVED[0]),
            share(SAVED[1])
        );
        let Some((first, others)) = self.systems.split_first() else { return note };
        let Some(own) = first.counted.per_request() else { return note };
        for other in others.iter().filter(|other| other.system.contains("Squid")) {
            let Some(calls) = other.counted.per_request() else { continue };
            let saved = |call: usize| match calls[call] {
                none if none <= 0.0 => "-".to_owned(),
                count => share(1.0 - own[call] / count),
            };
            let (name, other) = (&first.system, &other.system);
            note.push_str(&format!(
                " {name} saves {} of {other}'s reads and {} of its writes.",
                saved(3),
                saved(4)
            ));
        }
        note
    }

    /// Returns the data of figures 6 to 8.
    fn times(&self) -> Shown {
        let mut table = Table::new([
            "",
            "req/s",
            "achieved",
            "hit ratio",
            "hit",
            "miss",
            "response",
            "95%",
            "errors",
            "",
        ]);
        for SystemFigures { system, trials, .. } in &self.systems {
            for trial in trials {
                let figures = &trial.figures;
                table.row([
                    system.clone(),
                    rate(trial.rate),
                    rate(figures.achieved_rate),
                    share(figures.hit_ratio),
                    time(HIT(trial)),
                    time(MISS(trial)),
                    time(RESPONSE(trial)),
                    time(figures.response_time.p95),
                    figures.error_count().to_string(),
                    trial.why_not.clone().unwrap_or_else(|| "carried".to_owned()),
                ]);
            }
        }
        let title = "Figures 6, 7 and 8: mean times by rate, as they were tried";
        let note = "Hits and misses from when they were sent, responses from when they were due.";
        Shown { title, table, note: note.to_owned() }
    }

    /// Returns the times of the other systems relative to the first, at the rates that were tried
    /// for both.
    fn ratios(&self) -> Shown {
        let mut table = Table::new(["", "req/s", "hit", "miss", "response"]);
        let (test, times) = (self.test, |ratio: f64| format!("{ratio:.2}"));
        let ([least, most], [from, to]) = (test.hit_ratio(), test.rates());
        table.row([
            format!("the paper's Squid-2.4 : UNIFIED, {}", test.name()),
            format!("{from:.0} to {to:.0}"),
            format!("{least:.0} to {most:.0}"),
            "about 1, more near the peak".to_owned(),
            format!("{} at {to:.0}", times(test.response_ratio())),
        ]);
        let (first, others) = match self.systems.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        for other in others {
            for tried in self.rates() {
                let both = first.and_then(|first| first.at(tried)).zip(other.at(tried));
                let Some((own, its)) = both else { continue };
                let ratio = |of: OfTrial| times(of(its) / of(own).max(1e-9));
                let name = format!("{} : {}", other.system, self.systems[0].system);
                table.row([name, rate(tried), ratio(HIT), ratio(MISS), ratio(RESPONSE)]);
            }
        }
        let title = "Figures 6, 7 and 8: how many times as long the others take";
        Shown { title, table, note: String::new() }
    }

    /// Returns table 3.
    fn peaks(&self) -> Shown {
        let mut table = Table::new(["", "peak, req/s", "the first's by it"]);
        let [squid, unified] = self.test.peaks();
        let between = |[from, to]: [f64; 2]| format!("{from:.0} to {to:.0}");
        let name = self.test.name();
        let ratio = format!("{:.2}", self.test.peak_ratio());
        table.row([format!("the paper's UNIFIED, {name}"), between(unified), "1.00".to_owned()]);
        table.row([format!("the paper's Squid-2.4, {name}"), between(squid), ratio]);
        let own = self.systems.first().and_then(|first| first.peak);
        for SystemFigures { system, peak, is_narrowed, .. } in &self.systems {
            let left = if *is_narrowed { "" } else { ", not narrowed down" };
            let ratio = own.zip(*peak).map(|(own, its)| own / its);
            table.row([
                system.clone(),
                format!("{}{left}", peak.map_or("none".to_owned(), rate)),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            ]);
        }
        Shown { title: "Table 3: peak throughput", table, note: String::new() }
    }

    /// Returns the remarks on the tables.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.notes.clone();
        for SystemFigures { system, counted, trials, .. } in &self.systems {
            let unknown = counted.unknown.iter();
            remarks.extend(unknown.map(|why| format!("calls of {system} are unknown: {why}")));
            let warned =
                trials.iter().find_map(|trial| Some((trial, trial.figures.warnings.first()?)));
            let said = warned.map(|(trial, warning)| {
                format!("warning: {system} at {}: {warning}", rate(trial.rate))
            });
            remarks.extend(said);
        }
        remarks.extend(self.failures.iter().map(|failure| format!("WRONG: {failure}")));
        remarks
    }
}

/// Returns the result as text.
pub fn evaluation_text(evaluation: &Evaluation) -> String {
    let mut text = format!("\n{}\n", evaluation.about());
    for Shown { title, table, note } in evaluation.tables() {
        text.push_str(&format!("\n{title}\n{}{note}\n", table.text()));
    }
    text.extend(evaluation.remarks().iter().map(|remark| format!("\n{remark}")));
    text
}

/// Returns the tables in Markdown.
pub fn evaluation_markdown(evaluation: &Evaluation) -> String {
    let mut text = format!("{}\n", evaluation.about());
    for Shown { title, table, note } in evaluation.tables() {
        text.push_str(&format!("\n### {title}\n\n{}", table.markdown()));
        if !note.is_empty() {
            text.push_str(&format!("\n{note}\n"));
        }
    }
    text.extend(evaluation.remarks().iter().map(|remark| format!("\n{remark}\n")));
    text
}

/// Returns the result as a page.
///
/// # Errors
/// Fails if a plot cannot be drawn.
pub fn evaluation_page(evaluation: &Evaluation) -> Result<String, String> {
    let plots = [
        by_rate(evaluation, "hit", "Figure 6: mean hit time", HIT),
        by_rate(evaluation, "miss", "Figure 7: mean miss time", MISS),
        by_rate(evaluation, "response", "Figure 8: mean response time", RESPONSE),
        peaks(evaluation),
    ];
    let figures = plots.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
    let title = "larder bench unified";
    let body = html! {
        h1 { (title) }
        @for figure in &figures { (figure) }
        h2 { "Figures" }
        pre { (evaluation_text(evaluation)) }
    };
    Ok(document(title, &body))
}

fn by_rate(evaluation: &Evaluation, id: &str, title: &str, of: OfTrial) -> Plot {
    let plot = Plot::lines(id, title, Axis::linear("requests/s"), Axis::log("ms"));
    let rates = evaluation.rates();
    evaluation.systems.iter().fold(plot, |plot, system| {
        let points = rates.iter().filter_map(|rate| Some((*rate, of(system.at(*rate)?))));
        plot.ours(&system.system, points)
    })
}

fn peaks(evaluation: &Evaluation) -> Plot {
    let middle = |[from, to]: [f64; 2]| (from + to) / 2.0;
    let [squid, unified] = evaluation.test.peaks().map(middle);
    let names = evaluation.systems.iter().map(|system| system.system.clone());
    let groups = ["Squid-2.4".to_owned(), "UNIFIED".to_owned()].into_iter().chain(names);
    let none = [f64::NAN; 2];
    let ours = evaluation.systems.iter().map(|system| system.peak.unwrap_or(f64::NAN));
    let ours: Vec<f64> = none.into_iter().chain(ours).collect();
    let paper = [squid, unified].into_iter().chain(evaluation.systems.iter().map(|_| f64::NAN));
    let paper: Vec<f64> = paper.collect();
    Plot::bars("peak", "Table 3: peak throughput", groups, Axis::linear("requests/s"))
        .paper_bars("the paper", paper)
        .ours_bars("measured", ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{PhaseFigures, Times};

    fn trial(rate: f64, hit: f64, carried: bool) -> Trial {
        let figures = PhaseFigures {
            hit_time: Times { mean: hit, ..Times::default() },
            miss_time: Times { mean: 2_500.0, ..Times::default() },
            response_time: Times { mean: 1_300.0 + hit, ..Times::default() },
            ..PhaseFigures::default()
        };
        Trial { rate, why_not: (!carried).then(|| "80% were answered".into()), figures }
    }

    fn system(name: &str, calls: FileCallCounts, trials: Vec<Trial>) -> SystemFigures {
        let counted = Counted {
            rate: 20.0,
            requests: 100,
            hit_ratio: 0.5,
            calls: Some(calls),
            unknown: None,
            device: None,
        };
        let carried = trials.iter().filter(|trial| trial.why_not.is_none());
        let peak = carried.map(|trial| trial.rate).max_by(f64::total_cmp);
        let is_narrowed = trials.len() > 1;
        SystemFigures { system: name.to_owned(), counted, trials, peak, is_narrowed }
    }

    fn evaluation() -> Evaluation {
        let squid =
            FileCallCounts { opens: 75, closes: 75, reads: 40, writes: 150, ..Default::default() };
        let ring =
            FileCallCounts { ring_reads: Some(20), ring_writes: Some(30), ..Default::default() };
        Evaluation {
            version: "0",
            test: Test::LowEnd,
            seed: 1,
            cache: 1 << 30,
            memory: 96 << 20,
            operations: Some(76),
            think: 2.5,
            trial: 60.0,
            systems: vec![
                system("Larder, preset unified", ring, vec![trial(50.0, 2.0, true)]),
                system(
                    "Squid diskd",
                    squid,
                    vec![trial(50.0, 20.0, false), trial(25.0, 3.0, true)],
                ),
            ],
            failures: Vec::new(),
            failure_count: 0,
            interrupted: false,
            notes: vec!["SKIPPED: Squid rock".into()],
        }
    }

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {text}"))
    }

    #[test]
    fn ours_stand_beside_the_papers() {
        let text = evaluation_text(&evaluation());
        assert!(
            text.contains("Larder, preset unified saves 50.0% of Squid diskd's reads and 80.0%")
        );
        let ratio = line(&text, "Squid diskd : Larder");
        assert!(ratio.contains("10.00") && ratio.contains("1.00"), "{ratio}");
        let paper = line(&text, "the paper's Squid-2.4 : UNIFIED, low-end");
        assert!(paper.contains("6 to 22") && paper.contains("3.50 at 50"), "{paper}");
        let peak = text.lines().rev().find(|line| line.starts_with("Squid diskd")).unwrap();
        assert!(peak.contains("25") && peak.contains("2.00"), "{peak}");
        assert!(!peak.contains("narrowed") && text.contains("50.0, not narrowed down"), "{text}");
        assert!(
            text.contains("held to 76 reads") && text.contains("SKIPPED: Squid rock"),
            "{text}"
        );
    }

    #[test]
    fn tables_are_markdown_and_plots_are_on_the_page() {
        let text = evaluation_markdown(&evaluation());
        assert!(text.contains("### Table 3") && text.contains("| the paper's UNIFIED, low-end |"));
        assert!(text.contains("\n|---|--:|"), "{text}");
        let page = evaluation_page(&evaluation()).unwrap();
        assert_eq!(page.matches("<svg").count(), 4);
    }
}
