//! A stored run: the experiment, its parameters and its outcome. The report is made from these
//! files alone, so it can include all experiments run so far.

use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::{
    Context, Deviation, Experiment, Failed, Meter, Outcome, Paper, Row, Scale, Source, Stated,
};
use crate::csv_text::csv_text;

/// A stored run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The experiment's name.
    pub name: String,
    /// The paper.
    pub paper: Paper,
    /// The place in the paper.
    pub place: String,
    /// The title in one line.
    pub title: String,
    /// Name, value and source of each parameter.
    pub parameters: Vec<(String, String, String)>,
    /// The scale of the run.
    pub scale: Scale,
    /// The seed of the run.
    pub seed: u64,
    /// The outcome.
    pub outcome: Outcome,
}

/// Why a record cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct RecordError {
    path: PathBuf,
    why: String,
}

impl RecordError {
    /// Creates an error about `path`.
    pub fn new(path: &Path, why: impl fmt::Display) -> RecordError {
        RecordError { path: path.to_owned(), why: why.to_string() }
    }
}

impl Record {
    /// Runs the experiment with at most `jobs` variants at a time.
    pub fn of(
        experiment: &Experiment,
        scale: Scale,
        jobs: usize,
        meter: &Meter,
    ) -> Result<Record, Failed> {
        let mut context = Context::new(experiment.name, scale, jobs, meter);
        let seed = context.seed();
        let outcome = (experiment.run)(&mut context)?;
        check(&outcome)?;
        let parameters = experiment.parameters.iter().map(|parameter| {
            let text = str::to_owned;
            (text(parameter.name), text(parameter.value), text(parameter.from))
        });
        Ok(Record {
            name: experiment.name.to_owned(),
            paper: experiment.paper,
            place: experiment.place.to_owned(),
            title: experiment.title.to_owned(),
            parameters: parameters.collect(),
            scale,
            seed,
            outcome,
        })
    }

    /// Writes `NAME.json` and `NAME.csv` into `folder`, which is created if it does not exist.
    pub fn write(&self, folder: &Path) -> Result<(), RecordError> {
        fs::create_dir_all(folder).map_err(|error| RecordError::new(folder, error))?;
        let json = folder.join(format!("{}.json", self.name));
        let text =
            serde_json::to_string_pretty(self).map_err(|error| RecordError::new(&json, error))?;
        fs::write(&json, text).map_err(|error| RecordError::new(&json, error))?;
        let csv = folder.join(format!("{}.csv", self.name));
        fs::write(&csv, self.csv()).map_err(|error| RecordError::new(&csv, error))
    }

    /// Reads a record.
    pub fn read(path: &Path) -> Result<Record, RecordError> {
        let text = fs::read_to_string(path).map_err(|error| RecordError::new(path, error))?;
        serde_json::from_str(&text).map_err(|error| {
            RecordError::new(
                path,
                format_args!("not a result of this version ({error}); run it again"),
            )
        })
    }

    /// Reads the records of `experiments` that exist in `folder`, in the order of `experiments`.
    pub fn read_all<'a>(
        folder: &Path,
        experiments: impl IntoIterator<Item = &'a Experiment>,
    ) -> Result<Vec<Record>, RecordError> {
        let mut records = Vec::new();
        for experiment in experiments {
            let path = folder.join(format!("{}.json", experiment.name));
            match fs::metadata(&path) {
                Ok(_) => records.push(Record::read(&path)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(RecordError::new(&path, error)),
            }
        }
        Ok(records)
    }

    /// Returns every number as CSV, one a line, with a header.
    pub fn csv(&self) -> String {
        let header = HEADER.map(str::to_owned);
        let tables = self.outcome.tables.iter().flat_map(|table| {
            table.rows.iter().enumerate().map(|(index, row)| {
                let bounds = row.paper.bounds().map(|bounds| bounds.map(number));
                let [low, high] = bounds.unwrap_or_default();
                let ratio = row.paper.ratio(row.ours).map(number).unwrap_or_default();
                let mark = table.deviation(index).map_or("", Deviation::name).to_owned();
                let [id, what, unit] = [&table.id, &row.what, &row.unit].map(String::clone);
                let (part, ours) = ("table".to_owned(), number(row.ours));
                [part, id, what, String::new(), unit, low, high, ours, ratio, mark]
            })
        });
        let plots = self.outcome.plots.iter().flat_map(|plot| {
            plot.series.iter().flat_map(move |series| {
                series.points.iter().map(move |(x, y)| {
                    let x = plot.group(*x).map_or_else(|| number(*x), str::to_owned);
                    let [low, high, ours] = match series.source {
                        Source::Paper => [number(*y), number(*y), String::new()],
                        Source::Ours => [String::new(), String::new(), number(*y)],
                    };
                    let [id, label, unit] =
                        [&plot.id, &series.label, &plot.y.label].map(String::clone);
                    let (part, no) = ("plot".to_owned(), String::new);
                    [part, id, label, x, unit, low, high, ours, no(), no()]
                })
            })
        });
        csv_text([header].into_iter().chain(tables).chain(plots))
    }

    /// Returns every number of the tables, one a line as `table,row,number` with six significant
    /// digits. Two runs of the same scale have equal text.
    pub fn golden(&self) -> String {
        csv_text(self.outcome.tables.iter().flat_map(|table| {
            let line = |row: &Row| [table.id.clone(), row.what.clone(), six_digits(row.ours)];
            table.rows.iter().map(line)
        }))
    }
}

const HEADER: [&str; 10] =
    ["part", "id", "what", "x", "unit", "paper_low", "paper_high", "ours", "ratio", "mark"];

/// Rounds to six significant digits and formats as short as possible.
fn six_digits(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string()
}

fn number(number: f64) -> String {
    if number.is_finite() { number.to_string() } else { String::new() }
}

/// Fails if a number is not finite, since files and reports cannot show it.
fn check(outcome: &Outcome) -> Result<(), Failed> {
    let mut rows = outcome.tables.iter().flat_map(|table| {
        let id = table.id.as_str();
        table.rows.iter().map(move |row| (id, row))
    });
    let finite = |stated: Stated| match stated {
        Stated::Nothing => true,
        Stated::Number(number) | Stated::AtLeast(number) | Stated::AtMost(number) => {
            number.is_finite()
        }
        Stated::Range(low, high) => low.is_finite() && high.is_finite(),
    };
    match rows.find(|(_, row)| !row.ours.is_finite() || !finite(row.paper)) {
        None => Ok(()),
        Some((table, row)) => Err(Failed(format!("{table}: {}: no number came out", row.what))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Axis, Parameter, Plot, Table};

    const EXPERIMENT: Experiment = Experiment {
        name: "beyond-nothing",
        paper: Paper::Beyond,
        place: "nowhere",
        title: "A test",
        parameters: &[Parameter { name: "size", value: "3 GB", from: "ours" }],
        seconds: [0, 0],
        run: |context| {
            let mut table = Table::new("a", "A");
            table.row("x, y", "ms", 4.0, 1.0 / 3.0).row("z", "", Stated::AtMost(2.0), 1e9);
            let heights = [context.pick(1.0, 2.0), f64::NAN];
            let plot = Plot::bars("p", "P", ["one", "two"], Axis::linear("ms"));
            let plot = plot.ours_bars("us", heights).paper("them", [(1.0, 0.5)]);
            Ok(Outcome::new("Because.").table(table).plot(plot))
        },
    };

    fn record(scale: Scale) -> Record {
        Record::of(&EXPERIMENT, scale, 1, &Meter::default()).unwrap()
    }

    #[test]
    fn every_number_is_in_the_csv() {
        let csv = record(Scale::Full).csv();
        let lines = [
            "part,id,what,x,unit,paper_low,paper_high,ours,ratio,mark",
            "table,a,\"x, y\",,ms,4,4,0.3333333333333333,0.08333333333333333,far",
            "table,a,z,,,,2,1000000000,500000000,far",
            "plot,p,us,one,ms,,,2,,",
            "plot,p,them,two,ms,0.5,0.5,,,",
        ];
        assert_eq!(csv.lines().collect::<Vec<_>>(), lines);
        assert_eq!(record(Scale::Quick).golden(), "a,\"x, y\",0.333333\na,z,1000000000\n");
    }

    #[test]
    fn written_records_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(Scale::Quick);
        record.write(&folder.path().join("new")).unwrap();
        let path = folder.path().join("new/beyond-nothing.json");
        assert_eq!(Record::read(&path).unwrap(), record);
        fs::write(&path, "{\"name\": 3}").unwrap();
        let why = Record::read(&path).unwrap_err().to_string();
        assert!(why.contains("beyond-nothing.json: not a result of this version"), "{why}");
    }

    #[test]
    fn records_with_non_finite_numbers_are_refused() {
        let mut table = Table::new("a", "A");
        table.row("x", "ms", 1.0, f64::NAN);
        let why = check(&Outcome::new("").table(table)).unwrap_err();
        assert_eq!(why.0, "a: x: no number came out");
    }
}
