//! `larder check-config`, and the loading of a configuration that `serve` shares with it.

use std::fs;
use std::path::Path;

use crate::config::loaded::{File, Layer, Loaded};
use crate::config::to_options::{front, keyring, keyring_warnings};
use crate::process::logging::{Failure, answer, warn};
use crate::process::machine;

/// Reads the file, if any, and lays the flags over it.
pub fn load(path: Option<&Path>, flags: &Layer) -> Result<Loaded, Failure> {
    let file = match path {
        Some(path) => read(path)?,
        None => File::default(),
    };
    Loaded::build(&file, flags).map_err(Failure::usage)
}

fn read(path: &Path) -> Result<File, Failure> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::usage(format!("{name}:{line}: expected UTF-8 text"))
    })?;
    File::parse(&name, &text).map_err(Failure::usage)
}

/// Validates the file, also against this machine, and says that it is good, or everything that is
/// wrong with it.
pub fn run(path: &Path) -> Result<(), Failure> {
    let loaded = load(Some(path), &Layer::new())?;
    let config = &loaded.config;
    let warnings = config.warnings().into_iter().chain(config.remarks());
    for warning in warnings.chain(machine::disproportions(config)) {
        warn(&format!("{}: {warning}", path.display()));
    }
    let mut wrong = machine::obstacles(config);
    match keyring(config) {
        Ok(keyring) => keyring.iter().flat_map(keyring_warnings).for_each(|text| warn(&text)),
        Err(why) => wrong.push(why),
    }
    // The files that TLS to origin servers needs.
    wrong.extend(front(config, &[]).err());
    let mut told: Vec<String> = Vec::new();
    for line in wrong.iter().map(|why| format!("{}: {why}", path.display())) {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if !told.is_empty() {
        return Err(Failure::usage(told.join("\n")));
    }
    answer(&format!("{}: ok", path.display()))
}
