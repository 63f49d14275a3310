//! Advice as settings: the command line and the configuration file of `larder serve` that create
//! the advised cache. The server's tests read both (`larder/src/caches/advised.rs`).

use std::path::Path;

use cli::units::size;

use crate::advise::log_replay::{Setup, System};

/// Settings as keys and TOML values: those outside tables, and those in `[store]`.
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

/// Returns the configuration file that creates this cache.
pub fn config_file(setup: &Setup) -> String {
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

/// Returns the command line that creates this cache. `path` is where [`config_file()`] is written,
/// for settings that have no flag.
pub fn command_line(setup: &Setup, path: &Path) -> String {
    let Settings { top, store } = Settings::of(setup);
    if !store.is_empty() {
        return format!("larder serve --config {}", path.display());
    }
    let flags: Vec<String> = top.iter().map(|(key, value)| format!("--{key} {value}")).collect();
    format!("larder serve {}", flags.join(" "))
}

#[cfg(test)]
mod tests {
    use store::LayoutName;

    use super::*;

    #[test]
    fn a_command_line_says_what_flags_can_say() {
        let setup = Setup::new(System::Layout(LayoutName::Cluster), 192 << 20, 96 << 20);
        let path = Path::new("out/larder.toml");
        assert_eq!(
            command_line(&setup, path),
            "larder serve --cache-size 96M --memory 192M --layout cluster"
        );
        let store = Setup { mean_object: Some(4096), ..setup };
        assert_eq!(command_line(&store, path), "larder serve --config out/larder.toml");
    }
}
