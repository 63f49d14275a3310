//! `larder lab run`: runs experiments and keeps their results for the report.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use super::watch::watched;
use crate::experiment::{Deviation, Experiment, Paper, Record, Row, Scale, Stated};
use crate::experiments;

/// The default directory of the results.
pub const OUT: &str = "larder-lab";

/// Returns the arguments of `larder lab run`.
pub fn command() -> Command {
    let flag = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
    };
    Command::new("run")
        .about("Run experiments of the papers and keep their results for the report")
        .after_help(
            "Prints the paper's numbers beside ours; ! marks a number that is off by more than \
             25%, ~ one that ranks differently than in the paper. Equal scales give equal results.",
        )
        .arg_required_else_help(true)
        .arg(Arg::new("name").value_name("NAME").num_args(1..).required(true).help(
            "Experiments as listed by `larder lab list`, a paper (markatos, ucfs, tfs, unified, \
             beyond), or all.",
        ))
        .arg(flag("quick", "Run for seconds instead of minutes, for the rough shape."))
        .arg(flag("full", "Reproduce the paper's numbers (default).").conflicts_with("quick"))
        .arg(out())
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..))
                .help("Number of variants that run concurrently [default: number of processors]."),
        )
}

/// Returns the argument for the directory of the results.
pub fn out() -> Arg {
    Arg::new("out")
        .long("out")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .default_value(OUT)
        .help("Output directory.")
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let names = matches.get_many::<String>("name").into_iter().flatten();
    let chosen = choose(names.map(String::as_str))?;
    let scale = if matches.get_flag("quick") { Scale::Quick } else { Scale::Full };
    let out = matches.get_one::<PathBuf>("out").map_or(Path::new(OUT), PathBuf::as_path);
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = matches.get_one::<u16>("jobs").map_or_else(processors, |jobs| usize::from(*jobs));
    // Fails before half an hour of work rather than after it.
    std::fs::create_dir_all(out).map_err(|error| {
        let out = out.display();
        Failure::usage(format!("lab run: --out {out}: cannot create the directory: {error}"))
    })?;
    let count = chosen.len();
    for (index, experiment) in chosen.into_iter().enumerate() {
        let begun = Instant::now();
        let place = format!("{}/{count} {}", index + 1, experiment.name);
        let record = watched(&place, |meter| Record::of(experiment, scale, jobs, meter))
            .map_err(|why| Failure::runtime(format!("{}: {why}", experiment.name)))?;
        crate::report::write(&record, out).map_err(Failure::runtime)?;
        print(&record, begun.elapsed())?;
    }
    answer(&format!(
        "Results are in {}; `larder lab report` creates a page of them.",
        out.display()
    ))
}

/// Returns the experiments of these names, each once, in the order of the list.
fn choose<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<&'static Experiment>, Failure> {
    let mut chosen: Vec<&str> = Vec::new();
    for name in names {
        let paper = Paper::ALL.into_iter().find(|paper| paper.as_str() == name);
        if name == "all" {
            chosen.extend(experiments::all().map(|experiment| experiment.name));
        } else if let Some(paper) = paper {
            chosen.extend(experiments::of(paper).iter().map(|experiment| experiment.name));
        } else if let Some(experiment) = experiments::named(name) {
            chosen.push(experiment.name);
        } else {
            return Err(Failure::usage(unknown(name)));
        }
    }
    Ok(experiments::all().filter(|experiment| chosen.contains(&experiment.name)).collect())
}

fn unknown(name: &str) -> String {
    let near = experiments::all()
        .map(|experiment| (strsim::damerau_levenshtein(name, experiment.name), experiment.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, near)| format!(" Did you mean {near}?"))
        .unwrap_or_default();
    format!("lab run: no experiment is called {name:?}.{near} `larder lab list` lists all")
}

fn print(record: &Record, took: Duration) -> Result<(), Failure> {
    let (scale, seed) = (record.scale.as_str(), record.seed);
    let took = humantime::format_duration(Duration::from_millis(took.as_millis() as u64));
    answer(&format!("\n{}: {}", record.name, record.title))?;
    answer(&format!("{}; {scale}, seed {seed}, {took}", record.place))?;
    for table in &record.outcome.tables {
        answer(&format!("\n  {}", table.title))?;
        let width = table.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        answer(&format!("  {:width$} {:>18} {:>12} {:>8}", "", "paper", "ours", "ratio"))?;
        for (index, row) in table.rows.iter().enumerate() {
            answer(&format!("  {}", line(row, width, table.deviation(index))))?;
        }
    }
    answer(&format!("\n{}", wrapped(&record.outcome.why)))
}

/// Wraps text at 100 columns, paragraph by paragraph.
fn wrapped(text: &str) -> String {
    let lines = textwrap::Options::new(100)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let wrap = |paragraph: &str| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        textwrap::fill(&words.join(" "), &lines)
    };
    text.split("\n\n").map(wrap).collect::<Vec<_>>().join("\n\n")
}

fn line(row: &Row, width: usize, deviation: Option<Deviation>) -> String {
    let mark = match deviation {
        None => "",
        Some(Deviation::Far) => " !",
        Some(Deviation::Order) => " ~",
        Some(Deviation::FarAndOrder) => " !~",
    };
    let ratio = row.paper.ratio(row.ours).map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    let paper = match row.paper {
        Stated::Nothing => String::new(),
        paper => crate::report::stated(paper, &row.unit),
    };
    let ours = crate::report::with_unit(row.ours, &row.unit);
    format!("{:width$} {paper:>18} {ours:>12} {ratio:>8}{mark}", row.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_lines() {
        let text = format!("{} {}\n\nNext.", "word ".repeat(19), "x".repeat(120));
        let lines = wrapped(&text);
        let widths: Vec<usize> = lines.lines().map(str::len).collect();
        assert_eq!(widths, [94, 120, 0, 5]);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines), words(&text));
    }

    #[test]
    fn names_choose_experiments() {
        let names = |names: &[&str]| -> Vec<&str> {
            let chosen = choose(names.iter().copied()).unwrap();
            chosen.into_iter().map(|experiment| experiment.name).collect()
        };
        assert_eq!(
            names(&["beyond-streams", "ucfs-disk", "ucfs-disk"]),
            ["ucfs-disk", "beyond-streams"]
        );
        assert_eq!(names(&["ucfs"]).first(), Some(&"ucfs-disk"));
        assert_eq!(names(&["all"]).len(), experiments::all().count());
        let why = |name| choose([name].into_iter()).unwrap_err().to_string();
        assert!(why("ucfs-disc").contains("Did you mean ucfs-disk?"));
        assert!(why("nonsense").contains("`larder lab list` lists all"));
    }
}
