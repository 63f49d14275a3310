//! The choice of a simulated drive: a shipped one by its name, or one from a data file.
//!
//! Mechanical and flash drives are chosen in the same way, and each of several runs gets a new
//! drive of its own.

use std::fs;

use sim::drives::drive_file::{self, DriveFile};
use sim::drives::mechanical::{Config, MechanicalDrive};
use sim::drives::{Drive, SECTOR};
use sim::drives::{flash, shipped};

/// The default drive, a flash drive of today.
pub const DEFAULT: &str = "nvme_tlc";

/// A drive that was found and can be created.
#[derive(Clone, Debug)]
pub struct DriveChoice {
    name: String,
    label: String,
    /// Values that the data file lacks and that were assumed.
    notes: Vec<String>,
    bytes: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Flash(flash::Parameters),
    Mechanical(Box<DriveFile>),
}

/// The drive cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoDrive(String);

impl DriveChoice {
    /// Returns the drive called `text`: a shipped one, `FILE:NAME` of a data file of mechanical
    /// drives, or the `FILE` of a flash drive (docs/research/models.md).
    ///
    /// # Errors
    /// There is no such drive, or the file does not describe one.
    pub fn named(text: &str) -> Result<DriveChoice, NoDrive> {
        if let Some(drive) = flash::named(text) {
            return DriveChoice::new(text, Kind::Flash(drive.parameters().clone()));
        }
        if let Some(file) = shipped::named(text) {
            let file = file.map_err(|why| NoDrive(why.to_string()))?;
            return DriveChoice::new(text, Kind::Mechanical(Box::new(file)));
        }
        if let Ok(content) = fs::read_to_string(text) {
            let parameters = flash::Parameters::read(&content);
            let parameters = parameters.map_err(|why| NoDrive(format!("{text}: {why}")))?;
            return DriveChoice::new(text, Kind::Flash(parameters));
        }
        let Some((path, name)) = text.rsplit_once(':') else {
            let known: Vec<&str> = DriveChoice::names().collect();
            return Err(NoDrive(format!(
                "{text}: neither FILE:NAME, nor the file of a flash drive, nor one of the shipped \
                 drives {}",
                known.join(", ")
            )));
        };
        let content =
            fs::read_to_string(path).map_err(|error| NoDrive(format!("{path}: {error}")))?;
        let file = drive_file::read(&content, name);
        let file = file.map_err(|why| NoDrive(format!("{path}: {why}")))?;
        DriveChoice::new(text, Kind::Mechanical(Box::new(file)))
    }

    fn new(name: &str, kind: Kind) -> Result<DriveChoice, NoDrive> {
        let (label, notes) = match &kind {
            Kind::Flash(parameters) => (parameters.label.clone(), Vec::new()),
            Kind::Mechanical(file) => (file.label.clone(), file.notes.clone()),
        };
        let mut choice = DriveChoice { name: name.to_owned(), label, notes, bytes: 0, kind };
        choice.bytes = choice.drive()?.sectors() * SECTOR;
        Ok(choice)
    }

    /// Returns the names of the shipped drives.
    pub fn names() -> impl Iterator<Item = &'static str> {
        flash::names().chain(shipped::names())
    }

    /// Creates a new drive.
    ///
    /// # Errors
    /// Its parameters contradict each other.
    pub fn drive(&self) -> Result<Box<dyn Drive>, NoDrive> {
        match &self.kind {
            Kind::Flash(parameters) => Ok(Box::new(flash::Flash::new(parameters.clone()))),
            Kind::Mechanical(file) => {
                let drive = MechanicalDrive::new(file, Config::Shipped);
                let drive = drive.map_err(|why| NoDrive(format!("{}: {why}", self.name)))?;
                Ok(Box::new(drive))
            }
        }
    }

    /// Returns the name that the drive was chosen by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the maker and the model.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns descriptions of the values that the data file lacks and that were assumed.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the usual time of a small read in milliseconds.
    pub fn read_ms(&self) -> f64 {
        match self.kind {
            Kind::Flash(_) => 0.1,
            Kind::Mechanical(_) => 10.0,
        }
    }

    /// Returns the capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_drive_is_found() {
        for name in DriveChoice::names() {
            let choice = DriveChoice::named(name).unwrap();
            assert!(choice.bytes() > 500_000_000, "{name}");
            assert_eq!(choice.drive().unwrap().sectors() * SECTOR, choice.bytes());
        }
        assert!(DriveChoice::names().any(|name| name == DEFAULT));
    }

    #[test]
    fn files_and_their_mistakes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        fs::write(path("drives.json"), shipped::text("barracuda").unwrap()).unwrap();
        let shipped = DriveChoice::named("barracuda").unwrap();
        let own = DriveChoice::named(&path("drives.json:barracuda")).unwrap();
        assert_eq!((own.bytes(), own.label()), (shipped.bytes(), shipped.label()));
        let why = |text: &str| DriveChoice::named(text).unwrap_err().to_string();
        assert!(why("floppy").contains("one of the shipped drives nvme_tlc, "));
        assert!(why(&path("none.json:x")).contains("none.json: "));
        assert!(why(&path("drives.json:floppy")).contains("floppy"));
        assert!(why(&path("drives.json")).contains("does not describe a flash drive"));
    }
}
