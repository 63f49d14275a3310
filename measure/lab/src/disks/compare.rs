//! Compares simulated drives with measurements of real ones and with a reference simulator.
//!
//! A folder of reference data has `gold_workloads.csv` (mean, deviation and percentiles of
//! generated workloads), `validation.csv` with `real/*.trace.gz` (measurements of real drives),
//! `reference/*.csv.gz` (every request of some workloads) and `atlas10k_x3_regions.csv`. The
//! comparison replays all of it. It reports how far each figure is off and whether that is within
//! its tolerance.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use device::Nanos;
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::drives::shipped;
use sim::drives::{Drive, Operation, Request};

use crate::disks::replay::{Distribution, Issue, PERCENTILES, Served, Step, read_stream, replay};

/// A generated workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Name in the tables.
    pub name: &'static str,
    /// Sectors per request.
    pub blocks: u64,
    /// Percentage of requests that are writes.
    pub writes: u32,
    /// True if requests run from the first sector on without think time; otherwise they are
    /// aligned, at random places, with think time.
    pub sequential: bool,
}

/// The workloads of the tables.
pub const WORKLOADS: [Workload; 6] = [
    Workload { name: "r4k", blocks: 8, writes: 0, sequential: false },
    Workload { name: "w4k", blocks: 8, writes: 100, sequential: false },
    Workload { name: "r64k", blocks: 128, writes: 0, sequential: false },
    Workload { name: "mix64k", blocks: 128, writes: 50, sequential: false },
    Workload { name: "sr64k", blocks: 128, writes: 0, sequential: true },
    Workload { name: "sw64k", blocks: 128, writes: 100, sequential: true },
];

/// The longest think time, in nanoseconds (12 ms).
const THINK_MAX: Nanos = 12_000_000;

impl Workload {
    /// Returns the workload of the tables with this name.
    pub fn named(name: &str) -> Option<Workload> {
        WORKLOADS.into_iter().find(|workload| workload.name == name)
    }

    /// Returns `count` requests within the first `sectors` sectors of a drive.
    pub fn steps(self, count: usize, sectors: u64, seed: u64) -> impl Iterator<Item = Step> {
        let mut random = fastrand::Rng::with_seed(seed);
        let places = sectors / self.blocks;
        (0..count as u64).map(move |index| {
            let (place, think) = match self.sequential {
                true => (index % places, 0),
                false => (random.u64(..places), random.u64(..=THINK_MAX)),
            };
            let operation = match random.u32(..100) < self.writes {
                true => Operation::Write,
                false => Operation::Read,
            };
            let sector = place * self.blocks;
            let request = Request { operation, sector, sectors: self.blocks };
            Step { issue: Issue::After(think), request }
        })
    }
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// One line for each comparison.
    pub text: String,
    /// Number of figures compared.
    pub figures: usize,
    /// The figures beyond their tolerance.
    pub beyond: Vec<String>,
}

impl Comparison {
    fn figure(&mut self, name: &str, ours: f64, theirs: f64, tolerance: f64) {
        let off = match theirs == 0.0 {
            true => 0.0,
            false => (ours - theirs) / theirs,
        };
        let within = (ours - theirs).abs() <= tolerance * theirs.abs().max(f64::MIN_POSITIVE);
        self.figures += 1;
        if !within {
            let tolerated = tolerance * 100.0;
            self.beyond.push(format!(
                "{name}: {ours:.4} for {theirs:.4}, {:+.2}% where {tolerated}% are tolerated",
                off * 100.0
            ));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// Compares with all data in `folder`; generated requests follow from `seed`.
pub fn compare(folder: &Path, seed: u64) -> Result<Comparison, String> {
    let mut comparison = Comparison::default();
    compare_gold(folder, seed, &mut comparison)?;
    compare_regions(folder, seed, &mut comparison)?;
    compare_real(folder, &mut comparison)?;
    compare_requests(folder, &mut comparison)?;
    Ok(comparison)
}

fn drive(name: &str, config: Config) -> Result<MechanicalDrive, String> {
    let file = shipped::named(name).ok_or_else(|| format!("there is no shipped drive {name:?}"))?;
    let file = file.map_err(|why| format!("{name}: {why}"))?;
    MechanicalDrive::new(&file, config).map_err(|why| format!("{name}: {why}"))
}

/// A row of a table, by column name.
type Row = HashMap<String, String>;

fn rows(path: &Path) -> Result<Vec<Row>, String> {
    let reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path);
    let rows = reader.and_then(|reader| reader.into_deserialize().collect());
    rows.map_err(|error| format!("{}: {error}", path.display()))
}

fn text<'a>(row: &'a Row, column: &str) -> Result<&'a str, String> {
    let field = row.get(column).map(String::as_str);
    field.ok_or_else(|| format!("a table lacks the column {column:?}"))
}

fn number(row: &Row, column: &str) -> Result<f64, String> {
    let text = text(row, column)?;
    text.parse().map_err(|_| format!("{column:?} of a table is {text:?}"))
}

fn compare_gold(folder: &Path, seed: u64, comparison: &mut Comparison) -> Result<(), String> {
    let table = rows(&folder.join("gold_workloads.csv"))?;
    comparison.line(format_args!("Workloads: ours (reference) in ms"));
    for row in &table {
        let (name, config) = (text(row, "drive")?, text(row, "config")?);
        let workload = text(row, "workload")?;
        let title = format!("{name} {config} {workload}");
        let (config, workload) = Config::named(config)
            .zip(Workload::named(workload))
            .ok_or_else(|| format!("{title}: no such configuration or workload"))?;
        let mut drive = drive(name, config)?;
        let steps = match recorded(folder, name, workload.name, drive.capacity())? {
            Some(steps) => steps,
            None => {
                // Far more requests than the reference has, so that only the reference has a
                // sampling error.
                let requests = number(row, "n")? as usize;
                let count = if workload.sequential { requests } else { 4 * requests };
                workload.steps(count, drive.sectors(), seed).collect()
            }
        };
        let served = replay(&mut drive, steps);
        let ours = Distribution::of(served.map(|served| served.response_ms()));
        let ours = ours.ok_or_else(|| format!("{title}: no requests"))?;
        let pure = config == Config::Mech;
        let mean = number(row, "mean_ms")?;
        comparison.figure(
            &format!("{title} mean"),
            ours.mean,
            mean,
            if pure { 0.01 } else { 0.05 },
        );
        let deviation = number(row, "sd_ms")?;
        let mut line = format!(
            "{title:30} mean {:8.4} ({mean:8.4}, {:+6.2}%) sd {:7.4} ({deviation:7.4})",
            ours.mean,
            (ours.mean / mean - 1.0) * 100.0,
            ours.deviation
        );
        if pure {
            comparison.figure(&format!("{title} sd"), ours.deviation, deviation, 0.03);
        }
        for percent in PERCENTILES {
            let theirs = number(row, &format!("p{percent:02}"))?;
            let ours = ours.percentile(percent);
            line.push_str(&format!(" p{percent:02} {ours:.3} ({theirs:.3})"));
            if pure {
                let tolerance = if matches!(percent, 1 | 5 | 99) { 0.05 } else { 0.02 };
                comparison.figure(&format!("{title} p{percent:02}"), ours, theirs, tolerance);
            }
        }
        comparison.line(format_args!("{line}"));
    }
    Ok(())
}

/// Returns the exact requests of a workload of the tables, with their think times, if they are
/// recorded for some configuration. Then the comparison has no sampling error.
fn recorded(
    folder: &Path,
    drive: &str,
    workload: &str,
    sectors: u64,
) -> Result<Option<Vec<Step>>, String> {
    let path = |config| folder.join(format!("reference/{drive}.{config}.{workload}.csv.gz"));
    let Some(path) = ["mech", "shipped"].map(path).into_iter().find(|path| path.exists()) else {
        return Ok(None);
    };
    let mut steps = read_steps(&path, sectors)?;
    let responses = column(&path, |c| c == ',', 4, 1e6, true)?;
    let mut done = 0;
    for (step, response) in steps.iter_mut().zip(responses) {
        if let Issue::At(start) = step.issue {
            step.issue = Issue::After(start.saturating_sub(done));
            done = start + response as Nanos;
        }
    }
    Ok(Some(steps))
}

fn read_steps(path: &Path, sectors: u64) -> Result<Vec<Step>, String> {
    let at = path.display();
    let file = fs::File::open(path).map_err(|error| format!("{at}: {error}"))?;
    read_stream(file, sectors).map_err(|why| format!("{at}: {why}"))
}

fn compare_regions(folder: &Path, seed: u64, comparison: &mut Comparison) -> Result<(), String> {
    let table = rows(&folder.join("atlas10k_x3_regions.csv"))?;
    comparison.line(format_args!("\nRegions of the three-fold Atlas 10K: ours (reference) in ms"));
    for row in &table {
        let workload = text(row, "workload")?;
        let workload = Workload::named(workload).ok_or_else(|| format!("no {workload:?}"))?;
        let mut drive = drive("atlas10k_x3", Config::FastBus)?;
        let region = number(row, "region_blocks")? as u64;
        let count = 4 * number(row, "n")? as usize;
        let served = replay(&mut drive, workload.steps(count, region, seed));
        let ours = Distribution::of(served.map(|served| served.response_ms()));
        let ours = ours.ok_or("no requests")?;
        let (mean, deviation) = (number(row, "mean_ms")?, number(row, "sd_ms")?);
        let title = format!("{region:>9} sectors {}", workload.name);
        comparison.figure(&title, ours.mean, mean, 0.02);
        comparison.line(format_args!(
            "{title} mean {:.3} ({mean:.3}, {:+.2}%) sd {:.3} ({deviation:.3})",
            ours.mean,
            (ours.mean / mean - 1.0) * 100.0,
            ours.deviation
        ));
    }
    Ok(())
}

fn compare_real(folder: &Path, comparison: &mut Comparison) -> Result<(), String> {
    let table = rows(&folder.join("validation.csv"))?;
    comparison.line(format_args!("\nReal drives: ours (real) in ms"));
    for row in &table {
        let name = text(row, "drive")?;
        let path = folder.join(format!("real/{name}.trace.gz"));
        let mut drive = drive(name, Config::Shipped)?;
        let steps = read_steps(&path, drive.capacity())?;
        let served: Vec<Served> = replay(&mut drive, steps).collect();
        let measured = measured(&path)?;
        let both = Distribution::of(served.iter().map(Served::response_ms))
            .zip(Distribution::of(measured.iter().copied()));
        let (ours, real) = both.ok_or_else(|| format!("{name}: no requests"))?;
        let demerit = ours.demerit(&real);
        let published = number(row, "rms_published_ms")?;
        let most = (1.3 * published).max(0.08 * real.mean);
        // Tolerates 1.2 times the reference simulator's own error, or 3% if that is larger.
        let theirs = number(row, "disksim_mean_ms")?;
        let mean = (1.2 * (theirs - real.mean).abs()).max(0.03 * real.mean) / real.mean;
        comparison.figure(
            &format!("{name} mean beside the real drive"),
            ours.mean,
            real.mean,
            mean,
        );
        comparison.figures += 1;
        if demerit > most {
            comparison.beyond.push(format!("{name}: RMS {demerit:.3} ms, at most {most:.3}"));
        }
        comparison.line(format_args!(
            "{name:10} mean {:.4} ({:.4}, reference simulator {theirs:.4}) RMS {demerit:.4} \
             (reference simulator {published:.3}, at most {most:.3}){}",
            ours.mean,
            real.mean,
            by_operation(&served, &measured)
        ));
    }
    Ok(())
}

/// Formats the mean times of reads and of writes: ours, then the reference in parentheses.
fn by_operation(served: &[Served], theirs: &[f64]) -> String {
    let mut text = String::new();
    for (operation, name) in [(Operation::Read, "reads"), (Operation::Write, "writes")] {
        let of = || {
            let pairs = served.iter().zip(theirs);
            pairs.filter(|(served, _)| served.request.operation == operation)
        };
        let ours = Distribution::of(of().map(|(served, _)| served.response_ms()));
        let theirs = Distribution::of(of().map(|(_, theirs)| *theirs));
        if let Some((ours, theirs)) = ours.zip(theirs) {
            text.push_str(&format!(" {name} {:.4} ({:.4})", ours.mean, theirs.mean));
        }
    }
    text
}

/// Returns the service times of a trace of a real drive, in milliseconds.
fn measured(path: &Path) -> Result<Vec<f64>, String> {
    column(path, char::is_whitespace, 4, 1e-3, false)
}

/// Returns the numbers in a column of a gzip file, multiplied by `unit`.
fn column(
    path: &Path,
    between: fn(char) -> bool,
    index: usize,
    unit: f64,
    header: bool,
) -> Result<Vec<f64>, String> {
    let at = path.display();
    let file = fs::File::open(path).map_err(|error| format!("{at}: {error}"))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(file), &mut text)
        .map_err(|error| format!("{at}: {error}"))?;
    let number = |line: &str| {
        let field = line.split(between).filter(|field| !field.is_empty()).nth(index);
        field.and_then(|field| field.parse::<f64>().ok()).map(|number| number * unit)
    };
    let lines = text.lines().skip(usize::from(header)).filter(|line| !line.is_empty());
    lines.map(|line| number(line).ok_or_else(|| format!("{at}: no number in {line:?}"))).collect()
}

fn compare_requests(folder: &Path, comparison: &mut Comparison) -> Result<(), String> {
    comparison.line(format_args!("\nRequest by request: ours (reference) in ms"));
    let folder = folder.join("reference");
    let listed = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in &paths {
        let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let [name, config, ..] = file_name.split('.').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Some(config) = Config::named(config) else {
            continue;
        };
        let mut drive = drive(name, config)?;
        let steps = read_steps(path, drive.capacity())?;
        let served: Vec<Served> = replay(&mut drive, steps).collect();
        let theirs = column(path, |c| c == ',', 4, 1.0, true)?;
        let ours = Distribution::of(served.iter().map(Served::response_ms));
        let both = ours.zip(Distribution::of(theirs.iter().copied()));
        let (ours, reference) = both.ok_or_else(|| format!("{file_name}: no requests"))?;
        let tolerance = if config == Config::Mech { 0.01 } else { 0.05 };
        let title = file_name.trim_end_matches(".csv.gz");
        comparison.figure(&format!("{title} replayed"), ours.mean, reference.mean, tolerance);
        let pairs = served.iter().zip(&theirs);
        let off = |limit: f64| {
            pairs
                .clone()
                .filter(|(ours, theirs)| (ours.response_ms() - **theirs).abs() > limit)
                .count()
        };
        comparison.line(format_args!(
            "{title:26} mean {:.4} ({:.4}) RMS {:.4}; off by over 0.05 ms {}, 0.5 ms {} of {}{}",
            ours.mean,
            reference.mean,
            ours.demerit(&reference),
            off(0.05),
            off(0.5),
            theirs.len(),
            by_operation(&served, &theirs)
        ));
    }
    Ok(())
}
