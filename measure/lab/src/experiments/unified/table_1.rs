//! U7, tables 1 and 2: calls to the file system.

use super::both::{MachinePair, words};
use super::machine::MachineClass;
use super::setup;
use super::setup::{Run, System};
use crate::experiment::{Axis, Context, Experiment, Failed, Outcome, Paper, Plot, Table};
use crate::space::manager::Calls;
use workload::unified_paper::{Counted, HIGH_END, LOW_END};

/// The experiment `unified-table-1`: opens, closes and deletes.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unified-table-1",
    paper: Paper::Unified,
    place: "table 1",
    title: "Opens, closes and deletes of Squid-2.4",
    parameters: &setup::PARAMETERS,
    seconds: [1, 1],
    run: files,
};

/// The experiment `unified-table-2`: reads and writes.
pub const READS_AND_WRITES: Experiment = Experiment {
    name: "unified-table-2",
    paper: Paper::Unified,
    place: "table 2",
    title: "Reads and writes of Squid-2.4 and UNIFIED",
    parameters: &setup::PARAMETERS,
    seconds: [1, 1],
    run: reads_and_writes,
};

type Of = fn(&Calls) -> u64;

fn files(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let mut outcome = Outcome::new(why_files(&machines));
    for both in &machines {
        let end = both.end.name();
        let mut table = Table::new(end, &format!("Calls of Squid-2.4, {end} test"));
        for (rate, squid, unified) in both.pairs() {
            let paper = counted(both.end, rate);
            let calls: [(&str, Option<f64>, Of); 3] = [
                ("open", paper.map(|it| it.opens), |calls| calls.opens + calls.creates),
                ("close", paper.map(|it| it.closes), |calls| calls.closes),
                ("delete", paper.map(|it| it.deletes), |calls| calls.unlinks),
            ];
            for (name, paper, of) in calls {
                table.row(format!("{rate} req/s, {name}"), "", paper, squid.calls(of));
            }
            let all: Of = |calls| calls.opens + calls.creates + calls.closes + calls.unlinks;
            table.row(format!("{rate} req/s, UNIFIED, all three"), "", 0.0, unified.calls(all));
        }
        let deletes = |it: &Counted| it.deletes;
        let plot = plot(
            both,
            "open and delete",
            System::Squid,
            &[
                ("open", |calls| calls.opens + calls.creates, |it| it.opens),
                ("delete", |calls| calls.unlinks, deletes),
            ],
        );
        outcome = outcome.table(table).plot(plot.note(setup::note(context)));
    }
    Ok(outcome)
}

/// Returns the paper's calls of a machine's test at `rate`.
fn counted(end: MachineClass, rate: u32) -> Option<&'static Counted> {
    let rows: &[Counted] = match end {
        MachineClass::Low => &LOW_END,
        MachineClass::High => &HIGH_END,
    };
    rows.iter().find(|row| row.rate == rate)
}

type Paper1 = fn(&Counted) -> f64;

fn plot(both: &MachinePair, what: &str, system: System, lines: &[(&str, Of, Paper1)]) -> Plot {
    let end = both.end.name();
    let id = format!("{end}-{}", system.name().to_lowercase().replace('.', "-"));
    let title = format!("Calls: {what}, {}, {end} test", system.name());
    let rate = Axis::linear("requests a second");
    let mut plot = Plot::lines(&id, &title, rate, Axis::linear("millions"));
    for (name, of, paper) in lines {
        let stated = both.rates.iter().filter_map(|rate| counted(both.end, *rate));
        let stated = stated.map(|it| (f64::from(it.rate), paper(it) / 1e6));
        let runs = both.rates.iter().zip(both.of(system));
        let ours = runs.map(|(rate, run)| (f64::from(*rate), run.calls(of) / 1e6));
        plot = plot.paper(name, stated).ours(name, ours);
    }
    plot
}

/// Formats the differences from the paper's numbers in percent, by rate.
fn off(both: &MachinePair, system: System, of: Of, paper: Paper1) -> String {
    let runs = both.rates.iter().zip(both.of(system));
    let off = runs.filter_map(|(rate, run)| {
        let stated = counted(both.end, *rate)?;
        Some(100.0 * (run.calls(of) / paper(stated) - 1.0))
    });
    words(off, 0)
}

fn why_files(machines: &[MachinePair; 2]) -> String {
    let [low, high] = machines;
    let deletes = |both| off(both, System::Squid, |calls| calls.unlinks, |it| it.deletes);
    let opens = |both| off(both, System::Squid, |calls| calls.opens + calls.creates, |it| it.opens);
    format!(
        "The counts are of a whole test, the filling of the cache included, as in the paper: of \
         its writes in table 2, 1.5 million come at any rate. Opens are what is stored and what is \
         read; off by {} percent at the rates of the low-end test, {} of the high-end one. With \
         few requests a second we open more: the filling stores 20 GB here, by PolyMix-3's rules, \
         and the paper's tests at 10 to 30 requests a second stored less. Deletes are off by {} \
         and {} percent: a cache that is full deletes what it stores, so that deletes are the \
         objects stored less those that the cache holds in the end. The paper's tables give \
         720,000 of these at most rates, and so large our cache is. UNIFIED has none of the three. \
         (A quick run fills the cache once only and has fewer of all.)",
        opens(low),
        opens(high),
        deletes(low),
        deletes(high),
    )
}

fn reads_and_writes(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machines = MachinePair::run(context)?;
    let mut outcome = Outcome::new(why_reads(&machines));
    let mut saved = Table::new("saved", "Reads and writes that UNIFIED saves");
    for both in &machines {
        let end = both.end.name();
        let mut table = Table::new(end, &format!("Reads and writes, {end} test"));
        for (rate, squid, unified) in both.pairs() {
            let paper = counted(both.end, rate);
            for (index, (system, run)) in System::BOTH.into_iter().zip([squid, unified]).enumerate()
            {
                let what = |call| format!("{rate} req/s, {call}, {}", system.name());
                let reads = paper.map(|it| it.reads[index]);
                let writes = paper.map(|it| it.writes[index]);
                table.row(what("read"), "", reads, run.calls(|calls| calls.reads));
                table.row(what("write"), "", writes, run.calls(|calls| calls.writes));
            }
            let [reads, writes] = fewer(squid, unified);
            saved.row(format!("{end}, {rate} req/s, reads"), "%", 50.0, reads);
            saved.row(format!("{end}, {rate} req/s, writes"), "%", 63.0, writes);
        }
        let index: [Paper1; 4] =
            [|it| it.reads[0], |it| it.writes[0], |it| it.reads[1], |it| it.writes[1]];
        let calls: [Of; 2] = [|calls| calls.reads, |calls| calls.writes];
        for (system, [reads, writes]) in
            System::BOTH.into_iter().zip([[index[0], index[1]], [index[2], index[3]]])
        {
            let lines = [("read", calls[0], reads), ("write", calls[1], writes)];
            let plot = plot(both, "read and write", system, &lines);
            outcome = outcome.plot(plot.note(setup::note(context)));
        }
        outcome = outcome.table(table);
    }
    Ok(outcome.table(saved))
}

/// Returns the reads and writes that UNIFIED saves over Squid, in percent.
fn fewer(squid: &Run, unified: &Run) -> [f64; 2] {
    let calls: [Of; 2] = [|calls| calls.reads, |calls| calls.writes];
    calls.map(|of| 100.0 * (1.0 - unified.calls(of) / squid.calls(of)))
}

fn why_reads(machines: &[MachinePair; 2]) -> String {
    let saved = |both: &MachinePair, index: usize| {
        words(both.pairs().map(|(_, squid, unified)| fewer(squid, unified)[index]), 0)
    };
    let per = |both: &MachinePair, of: Of, by: fn(&Calls) -> u64| {
        let runs = both.of(System::Squid);
        words(runs.iter().map(|run| run.calls(of) / run.calls(by)), 2)
    };
    let [low, high] = machines;
    debug_assert_eq!((low.end, high.end), (MachineClass::Low, MachineClass::High));
    format!(
        "UNIFIED saves {} percent of the reads at the rates of the low-end test and {} of the \
         high-end one (the paper: about 50), and {} and {} percent of the writes (63). Of an \
         object that it reads Squid-2.4 makes {} reads here, of one that it stores {} writes \
         (low-end); the paper's tables come to 1.9 to 2.1 and 2.7 to 2.8. Writes are those of 8 \
         KB and one of its own for the metadata, which the paper does not mention, but without \
         which its sizes do not give 2.7. The same sizes, 11 KB on average, are three reads of \
         4,096 bytes, as ours are: two reads for each hit agree with neither PolyMix-3 nor the \
         paper's writes, unless some reads were larger than it says. UNIFIED's reads are one for \
         each hit, in both. UNIFIED's writes are the engine's: one for each object, and those of \
         its journal and checkpoints, which the paper's UNIFIED does not have.",
        saved(low, 0),
        saved(high, 0),
        saved(low, 1),
        saved(high, 1),
        per(low, |calls| calls.reads, |calls| calls.opens),
        per(low, |calls| calls.writes, |calls| calls.creates),
    )
}
