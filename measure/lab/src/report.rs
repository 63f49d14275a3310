//! The report: all experiments that have been run, as one page with plots and every number.

mod number;
mod page;
pub(crate) mod ratio_strip;
mod totals;

use std::fs;
use std::path::{Path, PathBuf};

use plot::picture;

use crate::experiment::{Plot, Record, RecordError};

pub use number::stated;
pub use plot::draw;
pub use plot::number::with_unit;

/// Writes a record into `folder`: `NAME.json`, `NAME.csv`, and each plot as `NAME.PLOT.svg`.
pub fn write(record: &Record, folder: &Path) -> Result<(), RecordError> {
    record.write(folder)?;
    for plot in &record.outcome.plots {
        write_plot(plot, &folder.join(format!("{}.{}", record.name, plot.id)))?;
    }
    Ok(())
}

/// Draws a plot into the file `stem` + `.svg`.
pub fn write_plot(plot: &Plot, stem: &Path) -> Result<(), RecordError> {
    let mut path = stem.as_os_str().to_owned();
    path.push(".svg");
    let path = PathBuf::from(path);
    let svg = draw(plot).map_err(|why| RecordError::new(&path, why))?;
    fs::write(&path, picture::standalone(&svg)).map_err(|why| RecordError::new(&path, why))
}

/// The report of a folder.
pub struct Report {
    /// The path of the page.
    pub page: PathBuf,
    /// Number of records.
    pub records: usize,
    /// The totals in Markdown: a table, and a line for each far figure.
    pub totals: String,
}

/// Writes the page `report.html` and the totals `totals.md` of all records in `folder`; nothing if
/// there are none.
pub fn build(folder: &Path) -> Result<Report, RecordError> {
    let records = Record::read_all(folder, crate::experiments::all())?;
    let path = folder.join("report.html");
    let page = page::page(&records).map_err(|why| RecordError::new(&path, why))?;
    let totals = totals::totals(&records);
    if !records.is_empty() {
        for (path, text) in [(&path, &page), (&folder.join("totals.md"), &totals)] {
            fs::write(path, text).map_err(|why| RecordError::new(path, why))?;
        }
    }
    Ok(Report { page: path, records: records.len(), totals })
}
