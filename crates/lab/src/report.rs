//! The report: what has been run, as one page to look at, with plots and every number.

mod chart;
mod legend;
mod marks;
mod number;
mod page;
mod palette;
mod picture;
mod strip;
mod ticks;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use crate::experiment::{Record, RecordError};

pub use chart::{NotDrawn, draw};
pub use number::{stated, with_unit};
pub use picture::{NotPainted, png};

/// Keeps a record in `folder`: `NAME.json`, `NAME.csv`, and each plot as `NAME.PLOT.svg` and
/// `NAME.PLOT.png`.
pub fn write(record: &Record, folder: &Path) -> Result<(), RecordError> {
    record.write(folder)?;
    for plot in &record.outcome.plots {
        let path = folder.join(format!("{}.{}.svg", record.name, plot.id));
        let svg = draw(plot).map_err(|why| RecordError::new(&path, why))?;
        fs::write(&path, picture::standalone(&svg)).map_err(|why| RecordError::new(&path, why))?;
        let path = path.with_extension("png");
        let picture = png(&svg).map_err(|why| RecordError::new(&path, why))?;
        fs::write(&path, picture).map_err(|why| RecordError::new(&path, why))?;
    }
    Ok(())
}

/// Makes the page `report.html` in `folder` of all records there, and says where it is and of how
/// many records.
pub fn build(folder: &Path) -> Result<(PathBuf, usize), RecordError> {
    let records = Record::read_all(folder)?;
    let path = folder.join("report.html");
    let page = page::page(&records).map_err(|why| RecordError::new(&path, why))?;
    if !records.is_empty() {
        fs::write(&path, page).map_err(|why| RecordError::new(&path, why))?;
    }
    Ok((path, records.len()))
}
