//! A loaded configuration, built from four layers: the defaults of the settings, the file, the
//! environment, the flags.
//!
//! All problems are reported at once, each with its place. An invalid value is never replaced by a
//! default.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::config::checks;
use crate::config::configuration::Config;
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::config::fleet::FleetConfig;
use crate::config::layers::{Layer, Problems};
use crate::config::setting::Effect;
use crate::config::settings::SETTINGS;
use crate::config::site_changes::SiteChanges;
use crate::config::sources::Sources;
use crate::config::value::Value;

/// A configuration with everything that is needed to compare it with a later one.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// Sentences about variables of the environment that are no settings.
    pub warnings: Vec<String>,
    /// The files that it was read from.
    pub sources: Arc<Sources>,
    values: BTreeMap<&'static str, Value>,
}

impl Loaded {
    /// Reads the file, if any, and applies the environment and then the flags over it. The error
    /// has one line for each problem.
    pub fn load(path: Option<&Path>, flags: &Layer) -> Result<Loaded, String> {
        Loaded::over(|| path.map(File::read), flags)
    }

    /// Reads the files of lists again; the rest is the text that was read before.
    pub fn with_new_lists(&self, flags: &Layer) -> Result<Loaded, String> {
        Loaded::over(|| File::reread(&self.sources), flags)
    }

    fn over(
        read: impl FnOnce() -> Option<Result<File, String>>,
        flags: &Layer,
    ) -> Result<Loaded, String> {
        let Environment { mut layer, problems, warnings } = Environment::read();
        let file = read().transpose();
        let problems = (!problems.is_empty()).then(|| Problems { list: problems }.to_string());
        let file = match (problems, file) {
            (None, file) => file?.unwrap_or_default(),
            (Some(problems), Ok(_)) => return Err(problems),
            (Some(problems), Err(others)) => return Err(format!("{problems}\n{others}")),
        };
        layer.extend(flags.iter().map(|(key, given)| (*key, given.clone())));
        let loaded = Loaded::build(&file, &layer).map_err(|problems| problems.to_string())?;
        Ok(Loaded { warnings, ..loaded })
    }

    /// Applies the file over the defaults and the flags over both, and checks the result.
    pub fn build(file: &File, flags: &Layer) -> Result<Loaded, Problems> {
        let said = |key: &str| flags.get(key).or_else(|| file.layer.settings.get(key));
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            let given = said(setting.key).map(|given| given.value.clone());
            if let Some(value) = given.or_else(|| setting.default_value()) {
                values.insert(setting.key, value);
            }
        }
        // If there are `[[listener]]` tables, `listen` has no default.
        if !file.layer.listeners.is_empty() && said("listen").is_none() {
            values.remove("listen");
        }
        let layer = &file.layer;
        let tables = Config {
            sites: layer.sites.iter().map(|(site, _)| site.clone()).collect(),
            access: layer.access.clone(),
            classes: layer.classes.iter().map(|(class, _)| class.clone()).collect(),
            rules: layer.rules.iter().map(|(rule, _)| rule.clone()).collect(),
            listeners: layer.listeners.iter().map(|(listener, _)| listener.clone()).collect(),
            certificates: layer.certificates.iter().map(|(c, _)| c.clone()).collect(),
            fleet: FleetConfig {
                classes: layer.fleet_classes.iter().map(|(class, _)| class.clone()).collect(),
                ..FleetConfig::default()
            },
            ..Config::default()
        };
        let config = with_values(tables, &values);
        let sources = Arc::new(layer.sources.clone());
        let loaded = Loaded { config, warnings: Vec::new(), sources, values };
        let list = checks::problems(&loaded.config, file, flags);
        match list.is_empty() {
            true => Ok(loaded),
            false => Err(Problems { list }),
        }
    }

    /// Adopts changes from `new` that may take effect at run time. Returns the keys that changed
    /// and were adopted, and those that changed but wait for a restart.
    pub fn reload(&mut self, new: &Loaded) -> Changes {
        let mut changes = Changes::default();
        self.sources = new.sources.clone();
        for setting in SETTINGS {
            let value = new.values.get(setting.key);
            if self.values.get(setting.key) == value {
                continue;
            }
            if setting.effect != Effect::Reload {
                changes.waiting.push(setting.key);
                continue;
            }
            // Only the addresses beside `[[listener]]` tables may have no value: there are none.
            let applied = value.cloned().unwrap_or(Value::List(Vec::new()));
            setting.apply(&mut self.config, applied);
            match value {
                Some(value) => self.values.insert(setting.key, value.clone()),
                None => self.values.remove(setting.key),
            };
            changes.applied.push(setting.key);
        }
        let (old, new) = (&mut self.config, &new.config);
        changes.sites = SiteChanges::of(&old.sites, &new.sites);
        changes.note("site", replace(&mut old.sites, &new.sites));
        changes.note("access", replace(&mut old.access, &new.access));
        changes.note("class", replace(&mut old.classes, &new.classes));
        changes.note("rule", replace(&mut old.rules, &new.rules));
        changes.note("certificate", replace(&mut old.certificates, &new.certificates));
        changes.note("listener", replace(&mut old.listeners, &new.listeners));
        if old.fleet.classes != new.fleet.classes {
            changes.waiting.push("fleet.class");
        }
        changes
    }

    /// Adopts the lists of rules from `new`.
    pub fn adopt_lists(&mut self, new: Loaded) {
        self.sources = new.sources;
        self.config.access = new.config.access;
        self.config.classes = new.config.classes;
        self.config.rules = new.config.rules;
    }
}

/// Sets all values in the order of the declarations, so that a preset comes before the settings
/// that override it.
fn with_values(mut config: Config, values: &BTreeMap<&'static str, Value>) -> Config {
    for setting in SETTINGS {
        if let Some(value) = values.get(setting.key) {
            setting.apply(&mut config, value.clone());
        }
    }
    config
}

/// Replaces the list if it differs, and returns whether it did.
fn replace<T: Clone + PartialEq>(old: &mut Vec<T>, new: &[T]) -> bool {
    let differs = *old != new;
    if differs {
        *old = new.to_vec();
    }
    differs
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In effect from now on.
    pub applied: Vec<&'static str>,
    /// In effect only after a restart.
    pub waiting: Vec<&'static str>,
    pub sites: SiteChanges,
}

impl Changes {
    /// Returns whether one of these keys is now in effect.
    pub fn have(&self, keys: &[&str]) -> bool {
        self.applied.iter().any(|key| keys.contains(key))
    }

    fn note(&mut self, key: &'static str, applied: bool) {
        self.applied.extend(applied.then_some(key));
    }
}

#[cfg(test)]
mod tests;
