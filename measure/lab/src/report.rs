//! The report: all experiments that have been run, as one page with plots and every number.

mod number;
mod page;
pub(crate) mod ratio_strip;

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

/// Writes the page `report.html` of all records in `folder`. Returns its path and the number of
/// records.
pub fn build(folder: &Path) -> Result<(PathBuf, usize), RecordError> {
    let records = Record::read_all(folder, crate::experiments::all())?;
    let path = folder.join("report.html");
    let page = page::page(&records).map_err(|why| RecordError::new(&path, why))?;
    if !records.is_empty() {
        fs::write(&path, page).map_err(|why| RecordError::new(&path, why))?;
    }
    Ok((path, records.len()))
}
