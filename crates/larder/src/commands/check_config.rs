//! `larder check-config`: prints that a configuration is valid, or all its problems.

use std::path::Path;

use cli::outcome::{Failure, answer, warn};

use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::to_options::{front, keyring, keyring_warnings, stream};
use crate::config::webroot::OpenRoots;
use crate::process::machine;

/// Validates the file, also against this machine, and prints that it is valid or everything that is
/// wrong with it.
pub fn run(path: &Path) -> Result<(), Failure> {
    let loaded = Loaded::load(Some(path), &Layer::new()).map_err(Failure::usage)?;
    let config = &loaded.config;
    loaded.warnings.iter().for_each(|warning| warn(warning));
    let warnings = config.warnings().into_iter().chain(config.cookie_remark());
    let of_machine = [machine::disproportions(config), machine::unusable_caches(config)].concat();
    for warning in warnings.chain(of_machine) {
        warn(&format!("{}: {warning}", path.display()));
    }
    let mut wrong = machine::obstacles(config);
    match keyring(config) {
        Ok(keyring) => keyring.iter().flat_map(keyring_warnings).for_each(|text| warn(&text)),
        Err(why) => wrong.push(why),
    }
    // Loads the files that TLS to origin servers needs.
    wrong.extend(front(config, &[], &OpenRoots::default()).err());
    wrong.extend(stream(config).err());
    let fleet = machine::fleet(config).unwrap_or_else(|whys| {
        wrong.extend(whys);
        None
    });
    let warnings = fleet.iter().flat_map(|fleet| &fleet.warnings);
    warnings.for_each(|text| warn(&format!("{}: {text}", path.display())));
    let mut told: Vec<String> = Vec::new();
    for line in wrong.iter().map(|why| format!("{}: {why}", path.display())) {
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if !told.is_empty() {
        return Err(Failure::usage(told.join("\n")));
    }
    let fleet = fleet.map(|fleet| format!("{}: {fleet}\n", path.display())).unwrap_or_default();
    let sharing = config.note_on_sharing();
    answer(&format!("{fleet}{0}: {sharing}\n{0}: ok", path.display()))
}
