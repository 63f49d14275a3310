//! M4, M6, M7, figure 6: BUDDY, STREAM and STREAM-PACKETIZER by the utilization of the disk.

use super::machine::{DISK, GETS, Host, Machine, Manager, PARAMETERS, Run, time_axes};
use crate::experiment::{Context, Experiment, Failed, Outcome, Paper, Plot, Stated, Table};

/// The experiment `markatos-fig-6`.
pub const EXPERIMENT: Experiment = Experiment {
    name: "markatos-fig-6",
    paper: Paper::Markatos,
    place: "figure 6",
    title: "BUDDY, STREAM and STREAM-PACKETIZER by the utilization of the disk",
    parameters: &PARAMETERS,
    seconds: [10, 110],
    run,
};

const NAMES: [&str; 2] = ["STREAM", "STREAM-PACKETIZER"];

/// The paper's factors over BUDDY below 72% utilization (from its text).
const PAPER_LOW: [f64; 2] = [2.0, 2.5];

/// Changes of the host, measured for BUDDY and STREAM at 71%; a quick run has only the last.
const VARIED: [Host; 3] = [Host::FewPages, Host::EarlySync, Host::Through];

fn run(context: &mut Context<'_>) -> Result<Outcome, Failed> {
    let machine = Machine::of(context);
    let utilizations = Machine::utilizations(context);
    let trace = machine.trace(context.seed(), GETS, DISK)?;
    let streams = utilizations.iter().flat_map(|share| {
        let share = *share;
        let percent = share * 100.0;
        let variants = [Manager::stream(share), Manager::pack(share)];
        NAMES
            .iter()
            .zip(variants)
            .map(move |(name, variant)| (format!("{name} at {percent:.0}%"), variant))
    });
    let variants = [("BUDDY".to_owned(), Manager::Buddy(256))].into_iter().chain(streams);
    let variants = variants.map(|(name, manager)| (name, (Host::AsSetUp, manager)));
    let varied = &VARIED[context.pick(2, 0)..];
    let others = varied.iter().flat_map(|host| {
        let pair = [("BUDDY", Manager::Buddy(256)), ("STREAM at 71%", Manager::stream(0.71))];
        pair.map(|(name, manager)| (format!("{name}, {}", host.name()), (*host, manager)))
    });
    let mut runs = context.variants(variants.chain(others), |variant, (host, manager)| {
        machine.on(host).run(variant, manager, &trace)
    })?;
    let others = runs.split_off(runs.len() - 2 * varied.len());
    let (Some(buddy), Some(streams)) = (runs.first(), runs.get(1..)) else {
        return Err("no runs".into());
    };
    let of = |name: usize, place: usize| &streams[place * NAMES.len() + name];
    let factor =
        |name: usize, place: usize| of(name, place).gets_per_second / buddy.gets_per_second;

    // Index of 95%.
    let high = 2;
    let mut factors = Table::new("factor", "How much faster than BUDDY");
    for (index, name) in NAMES.iter().enumerate() {
        factors.row(format!("{name} at 71%"), "×", PAPER_LOW[index], factor(index, 0));
        factors.row(format!("{name} at 95%"), "×", 1.0, factor(index, high));
    }
    let mut times = Table::new("speed", "Gets per second");
    times.row("BUDDY", "gets/s", 133.0, buddy.gets_per_second);
    for (place, share) in utilizations.iter().enumerate() {
        for (index, name) in NAMES.iter().enumerate() {
            let paper = match (place, index) {
                (0, 0) => Stated::Number(295.0),
                (0, 1) => Stated::Number(358.0),
                _ => Stated::Nothing,
            };
            let what = format!("{name} at {:.0}%", share * 100.0);
            times.row(what, "gets/s", paper, of(index, place).gets_per_second);
        }
    }
    let hosts = hosts(varied, &others);
    let details = details(utilizations, streams);

    let plot = plot(utilizations, buddy, streams).note(machine.note());
    let ends = [factor(0, 0), factor(1, 0), factor(0, high), factor(1, high)];
    let through =
        others.last_chunk().map(|pair: &[Run; 2]| pair.each_ref().map(|run| run.gets_per_second));
    let why = why(ends, through.unwrap_or([f64::NAN; 2]), machine);
    Ok(Outcome::new(why).table(factors).table(times).table(hosts).table(details).plot(plot))
}

/// Plots times by utilization; BUDDY's does not depend on it.
fn plot(utilizations: &[f64], buddy: &Run, streams: &[Run]) -> Plot {
    let level = |run: &Run| {
        utilizations.iter().map(|share| (share * 100.0, run.seconds(GETS))).collect::<Vec<_>>()
    };
    let (x, y) = time_axes();
    let mut plot = Plot::lines("by-utilization", EXPERIMENT.title, x, y)
        .paper("BUDDY", [(71.0, GETS as f64 / 133.0), (95.0, GETS as f64 / 133.0)])
        .ours("BUDDY", level(buddy));
    for (index, name) in NAMES.iter().enumerate() {
        let points = utilizations.iter().enumerate();
        let at = |(place, share): (usize, &f64)| {
            (share * 100.0, streams[place * NAMES.len() + index].seconds(GETS))
        };
        let paper = [295.0, 358.0][index];
        plot = plot
            .paper(name, [(71.0, GETS as f64 / paper), (95.0, GETS as f64 / 133.0)])
            .ours(name, points.map(at));
    }
    plot
}

/// Returns a table of BUDDY and STREAM, whose runs come in pairs, on each changed host.
fn hosts(varied: &[Host], runs: &[Run]) -> Table {
    let mut hosts = Table::new("varied", "Gets per second, if one thing of the host is different");
    for (host, pair) in varied.iter().zip(runs.chunks_exact(2)) {
        for (name, run) in ["BUDDY", "STREAM at 71%"].iter().zip(pair) {
            let what = format!("{name}, {}", host.name());
            hosts.row(what, "gets/s", Stated::Nothing, run.gets_per_second);
        }
    }
    hosts
}

/// Explains the differences from the paper. Takes the factors of STREAM and the packetizer at 71%
/// and at 95%, and the speeds of BUDDY and STREAM if every write goes to the disk at once.
fn why(
    [stream, packets, full_stream, full_packets]: [f64; 4],
    [buddy_through, stream_through]: [f64; 2],
    machine: Machine,
) -> String {
    format!(
        "At 71% utilization STREAM is {stream:.2} times and STREAM-PACKETIZER {packets:.2} times \
         as fast as BUDDY, which does not depend on it; at 95% they are {full_stream:.2} and \
         {full_packets:.2} times as fast (the paper: 2 and 2.5, and 1). What the streams lose \
         depends on the order of deletions: what goes for room goes in the order in which it came, \
         and leaves long free pieces; what goes because it changed, half of all here, leaves holes \
         anywhere. BUDDY is its own program on 256 files: each grows from its end, and what a file \
         gets is gathered into rows of up to 56 KB until its sync comes. With every write on the \
         disk before the call returns BUDDY has {buddy_through:.0} gets per second and STREAM \
         {stream_through:.0}. What the paper's system did with small writes, it does not say \
         beyond that one \"usually resulted in a disk-read and a disk-write\". The streams are the \
         product's engine on one large file, which grows as it is written: what was never written \
         is not read. It stores a header, the key and 300 bytes of metadata with each object, and \
         writes down what was given up, with a flush every five seconds, which the paper's \
         programs did not; what it has taken it may write a little later. Utilization is the \
         share of slots taken, all that included.{}",
        machine.smaller(),
    )
}

/// Returns a table of the utilization and the disk work in each run of the two streams.
fn details(utilizations: &[f64], streams: &[Run]) -> Table {
    let mut details = Table::new("details", "On the disk");
    let names = utilizations.iter().flat_map(|share| NAMES.map(|name| (share * 100.0, name)));
    for ((percent, name), run) in names.zip(streams) {
        let at = format!("{name} at {percent:.0}%");
        details.row(format!("{at}: taken"), "%", Stated::Nothing, run.utilization);
        details.row(format!("{at}: pages read"), "", Stated::Nothing, run.page_reads as f64);
        details.row(format!("{at}: missing"), "", Stated::Nothing, run.missing as f64);
    }
    details
}
