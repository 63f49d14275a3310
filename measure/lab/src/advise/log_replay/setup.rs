//! The setups to compare: an engine with its layout and policy, memory and disk.

use std::fmt;
use std::str::FromStr;

use store::policy::{Admission, AdmissionName, PolicyName};
use store::{LayoutName, Options, PRESETS};

use crate::run::whole_cache::{CacheError, EngineOptions};

/// A layout of the product, or the preset of a paper's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The product's own preset with this layout, as for `larder serve --layout`.
    Layout(LayoutName),
    /// A preset with its own layout, as for `larder serve --preset`; one of [`store::PRESETS`].
    Preset(&'static str),
}

/// A name of neither a layout nor a preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not one of {}", .names.join(", "))]
pub struct UnknownSystem {
    text: String,
    names: &'static [&'static str],
}

impl System {
    /// Returns the system with the layout of this name.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn layout(text: &str) -> Result<System, UnknownSystem> {
        let unknown = || UnknownSystem { text: text.to_owned(), names: LayoutName::NAMES };
        LayoutName::from_name(text).map(System::Layout).ok_or_else(unknown)
    }

    /// Returns the system with the preset of this name.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn preset(text: &str) -> Result<System, UnknownSystem> {
        let found = PRESETS.iter().find(|name| **name == text);
        let unknown = || UnknownSystem { text: text.to_owned(), names: PRESETS };
        found.map(|name| System::Preset(name)).ok_or_else(unknown)
    }

    fn options(self) -> Result<EngineOptions, CacheError> {
        let name = match self {
            System::Layout(_) => PRESETS[0],
            System::Preset(name) => name,
        };
        let preset = store::preset(name);
        let preset = preset.ok_or_else(|| CacheError(format!("no preset {name:?}")))?;
        let mut options = EngineOptions::from(preset);
        if let System::Layout(layout) = self {
            options.format.layout = layout;
        }
        Ok(options)
    }

    /// Returns whether a policy selects objects for eviction; the layout `cluster` evicts by
    /// references.
    pub fn takes_policy(self) -> bool {
        self.options().is_ok_and(|options| options.format.layout != LayoutName::Cluster)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            System::Layout(layout) => f.pad(layout.as_str()),
            System::Preset(name) => f.pad(&format!("preset {name}")),
        }
    }
}

impl FromStr for System {
    type Err = UnknownSystem;

    fn from_str(text: &str) -> Result<System, UnknownSystem> {
        System::layout(text)
    }
}

/// A cache to replay a log on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Layout or preset.
    pub system: System,
    /// The eviction policy, if the layout has slots; `None`: the preset's.
    pub policy: Option<PolicyName>,
    /// The admission; `None`: the preset's.
    pub admission: Option<AdmissionName>,
    /// Total bytes of memory, as for `larder serve --memory`.
    pub memory: u64,
    /// Size of the cache file in bytes.
    pub disk: u64,
    /// Mean object in bytes, from which the index is sized; `None`: the preset's.
    pub mean_object: Option<u32>,
}

impl Setup {
    /// Returns a system with all other settings from its preset.
    pub fn new(system: System, memory: u64, disk: u64) -> Setup {
        Setup { system, policy: None, admission: None, memory, disk, mean_object: None }
    }

    /// Returns the name of the eviction policy.
    pub fn policy_name(&self) -> &'static str {
        let options = self.system.options();
        match (self.system.takes_policy(), self.policy, options) {
            (false, ..) => "references",
            (true, Some(policy), _) => policy.as_str(),
            (true, None, Ok(options)) => options.options.policy.as_str(),
            (true, None, Err(_)) => "",
        }
    }

    /// Returns the options that the engine is opened with.
    ///
    /// # Errors
    /// The index would take more than half of the memory, or the admission more than a quarter;
    /// `larder serve` refuses such settings.
    pub(super) fn engine(&self) -> Result<EngineOptions, CacheError> {
        let mut engine = self.system.options()?;
        engine.options.memory = self.memory;
        engine.options.policy = self.policy.unwrap_or(engine.options.policy);
        engine.options.admission = self.admission.unwrap_or(engine.options.admission);
        engine.format.mean_object = self.mean_object.or(engine.format.mean_object);
        engine.format.memory = self.memory;
        let mean_object = engine.format.mean_object_for(self.disk);
        let index = engine.options.index.bytes(self.disk, mean_object);
        if index > self.memory / 2 {
            return Err(CacheError(format!(
                "the index of a cache of {} bytes takes {index} bytes, more than half of the \
                 memory: use more --memory, a smaller --disk or a larger --mean-object",
                self.disk
            )));
        }
        let Options { admission, admission_keys, .. } = engine.options;
        let admission = Admission::bytes(admission, admission_keys);
        if admission > self.memory / 4 {
            return Err(CacheError(format!(
                "its admission policy takes {admission} bytes, more than a quarter of the memory: \
                 use more --memory"
            )));
        }
        Ok(engine)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.system, self.policy_name())?;
        if let Some(admission) = self.admission.filter(|name| *name != AdmissionName::All) {
            write!(f, " {admission}")?;
        }
        write!(f, ", {} MiB + {} MiB", self.memory >> 20, self.disk >> 20)
    }
}

/// Returns every system with every policy that it takes, every admission, every memory and every
/// disk. If there are no policies or admissions, those of the presets are used.
pub fn combinations(
    systems: &[System],
    policies: &[PolicyName],
    admissions: &[AdmissionName],
    memories: &[u64],
    disks: &[u64],
) -> Vec<Setup> {
    let mut setups = Vec::new();
    for disk in disks {
        for memory in memories {
            for system in systems {
                let alone = Setup::new(*system, *memory, *disk);
                let policies = if system.takes_policy() { policies } else { &[] };
                for policy in choices(policies) {
                    let with = |admission| Setup { policy, admission, ..alone };
                    setups.extend(choices(admissions).map(with));
                }
            }
        }
    }
    setups
}

/// Returns each of the values, or one `None` (the preset's) if there are none.
fn choices<T: Copy>(values: &[T]) -> impl Iterator<Item = Option<T>> {
    let preset = if values.is_empty() { Some(None) } else { None };
    values.iter().copied().map(Some).chain(preset)
}
