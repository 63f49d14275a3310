//! Advice as settings: the command line and the configuration file of `larder serve` that make the
//! advised cache. Both are read by the server's own code before they are shown.

use std::path::Path;

use lab::advise::log_replay::{Setup, System};

use crate::caches::store_options;
use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;
use crate::config::sizing;
use crate::config::units::size;

/// Settings as text, outside of tables and in `[store]`: keys and values as TOML.
struct Settings {
    top: Vec<(&'static str, String)>,
    store: Vec<(&'static str, String)>,
}

impl Settings {
    fn of(setup: &Setup) -> Settings {
        let mut top = vec![("cache-size", size(setup.disk)), ("memory", size(setup.memory))];
        match setup.system {
            System::Layout(layout) => top.push(("layout", layout.to_string())),
            System::Preset(name) => top.push(("preset", name.to_owned())),
        }
        let mut store = Vec::new();
        if let Some(mean) = setup.mean_object {
            store.push(("mean-object", size(u64::from(mean))));
        }
        if let Some(policy) = setup.policy.filter(|_| setup.system.takes_policy()) {
            store.push(("policy", policy.to_string()));
        }
        if let Some(admission) = setup.admission {
            store.push(("admission", admission.to_string()));
        }
        Settings { top, store }
    }
}

/// The configuration file that makes this cache.
pub fn file(setup: &Setup) -> String {
    let Settings { top, store } = Settings::of(setup);
    let lines = |settings: &[(&str, String)]| -> String {
        settings.iter().map(|(key, value)| format!("{key} = \"{value}\"\n")).collect()
    };
    let mut text = lines(&top);
    if !store.is_empty() {
        text.push_str(&format!("\n[store]\n{}", lines(&store)));
    }
    text
}

/// The command line that makes this cache; `path` is where [`file()`] is written, for what only a
/// file can say.
pub fn command_line(setup: &Setup, path: &Path) -> String {
    let Settings { top, store } = Settings::of(setup);
    if !store.is_empty() {
        return format!("larder serve --config {}", path.display());
    }
    let flags: Vec<String> = top.iter().map(|(key, value)| format!("--{key} {value}")).collect();
    format!("larder serve {}", flags.join(" "))
}

/// Whether the server takes it: every setting, and the memory for the index.
///
/// # Errors
/// What the server would say.
pub fn check(text: &str) -> Result<(), String> {
    let file = File::parse("larder.toml", text).map_err(|problems| problems.to_string())?;
    let loaded = Loaded::build(&file, &Layer::new()).map_err(|problems| problems.to_string())?;
    let config = &loaded.config;
    let disk = config.cache_size.unwrap_or(0);
    let mean_object = config.format_options().mean_object_for(disk);
    sizing::check_index(config.store.index.bytes(disk, mean_object), config.memory)?;
    sizing::check_admission(store_options::admission_bytes(config), config.memory)
}

#[cfg(test)]
mod tests {
    use store::LayoutName;
    use store::policy::{AdmissionName, PolicyName};

    use super::*;
    use crate::config::configuration::Config;

    const M: u64 = 1 << 20;

    fn config(text: &str) -> Config {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        loaded.unwrap_or_else(|problems| panic!("{problems}")).config
    }

    #[test]
    fn every_advice_is_a_configuration_that_means_it() {
        for layout in LayoutName::ALL {
            for policy in [None, Some(PolicyName::WTinyLfu)] {
                for admission in [None, Some(AdmissionName::SecondHit)] {
                    for mean_object in [None, Some(512), Some(256 << 10)] {
                        let system = System::Layout(layout);
                        let setup = Setup { system, policy, admission, mean_object, ..setup() };
                        let text = file(&setup);
                        assert_eq!(check(&text), Ok(()), "{text}");
                        let config = config(&text);
                        assert_eq!((config.memory, config.cache_size), (192 * M, Some(96 * M)));
                        let format = config.format_options();
                        assert_eq!(format.layout, layout);
                        assert_eq!(format.mean_object, mean_object);
                        let options = store_options::options(&config, &[]);
                        let policy = policy.filter(|_| layout != LayoutName::Cluster);
                        assert_eq!(options.policy, policy.unwrap_or(PolicyName::Lru));
                        assert_eq!(options.admission, admission.unwrap_or(AdmissionName::All));
                    }
                }
            }
        }
    }

    fn setup() -> Setup {
        Setup::new(System::Layout(LayoutName::Cluster), 192 * M, 96 * M)
    }

    #[test]
    fn a_command_line_says_what_flags_can_say() {
        let path = Path::new("out/larder.toml");
        assert_eq!(
            command_line(&setup(), path),
            "larder serve --cache-size 96M --memory 192M --layout cluster"
        );
        let store = Setup { mean_object: Some(4096), ..setup() };
        assert_eq!(command_line(&store, path), "larder serve --config out/larder.toml");
        let small = Setup { disk: 1 << 40, ..setup() };
        assert!(check(&file(&small)).unwrap_err().contains("more than half"));
    }
}
