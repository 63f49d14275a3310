//! Settings given as environment variables: `store.mean-object` is `LARDER_STORE_MEAN_OBJECT`.

use std::ffi::OsString;

use crate::config::layers::{Layer, Place, Problem, VARIABLE_PREFIX, add_given, nearest, variable};
use crate::config::setting::Field;
use crate::config::settings::{SETTINGS, Setting};
use crate::config::value::Kind;

/// Beginnings of variables, without the prefix, that are no settings and no mistakes either: of an
/// upgrade, of Larder's tests and tools, and of Kubernetes for a service named `larder`.
const OTHER_USES: [&str; 22] = [
    "BENCH_",
    "BLESS",
    "CASE",
    "DIFFERENTIAL",
    "EXPERIMENT",
    "FLEET_FAULTS_",
    "FUZZ_",
    "HANDOVER",
    "HTTP",
    "NEW",
    "NODES",
    "OLD",
    "ONLY",
    "PORT",
    "PROGRAM",
    "SECONDS",
    "SEED",
    "SERVICE_",
    "SOAK_SECONDS",
    "STACKS",
    "TEST_",
    "WRITE_FIXTURES",
];

/// The settings that the environment gives.
#[derive(Debug, Default)]
pub struct Environment {
    pub layer: Layer,
    pub problems: Vec<Problem>,
    /// A sentence for each variable that looks like a setting and is none.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn read() -> Environment {
        Environment::of(std::env::vars_os())
    }

    fn of(variables: impl Iterator<Item = (OsString, OsString)>) -> Environment {
        let mut environment = Environment::default();
        let mut all: Vec<_> = variables
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        all.sort_unstable();
        for (name, value) in all {
            match settings().find(|setting| variable(setting.key) == name) {
                Some(setting) => environment.add(setting, value),
                None => environment.warnings.extend(unknown(&name)),
            }
        }
        environment
    }

    fn add(&mut self, setting: &'static Setting, value: OsString) {
        let key = setting.key;
        let added = match value.into_string() {
            Ok(text) => add_given(&mut self.layer, key, &texts(setting, &text), Place::Variable),
            Err(_) => Err(Problem {
                place: Place::Variable,
                key: key.to_owned(),
                text: "expected UTF-8 text".to_owned(),
            }),
        };
        self.problems.extend(added.err());
    }
}

/// Returns the settings that the environment may give. Files alone include others.
fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.key != "include")
}

/// Splits the value of a list at its commas.
fn texts<T>(field: &Field<T>, text: &str) -> Vec<String> {
    match field.kind {
        Kind::List(_) if text.trim().is_empty() => Vec::new(),
        Kind::List(_) => text.split(',').map(|text| text.trim().to_owned()).collect(),
        _ => vec![text.to_owned()],
    }
}

/// Returns the warning about a variable that is not a setting; `None` if it has another use.
fn unknown(name: &str) -> Option<String> {
    let rest = name.strip_prefix(VARIABLE_PREFIX)?;
    if OTHER_USES.iter().any(|other| rest.starts_with(other)) {
        return None;
    }
    let known: Vec<String> = settings().map(|setting| variable(setting.key)).collect();
    let hint = nearest(name, known.iter().map(String::as_str));
    let hint = hint.map(|hint| format!("; did you mean {hint}?")).unwrap_or_default();
    Some(format!("{name}: no setting has this environment variable{hint}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::config::file::File;
    use crate::config::layers::add_flag;
    use crate::config::loaded::Loaded;

    fn read(variables: &[(&str, &str)]) -> Environment {
        Environment::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn flags_come_before_variables_and_variables_before_the_file() {
        let mut environment = read(&[
            ("LARDER_MEMORY", "64M"),
            ("LARDER_WORKERS", "3"),
            ("LARDER_LISTEN", "127.0.0.1:1, [::1]:2"),
            ("LARDER_ALLOW", ""),
            ("LARDER_STORE_DURABILITY_BOUND", "250ms"),
            ("LARDER_UPSTREAM_TLS_VERIFY", "false"),
            ("LARDER_ADMIN", "off"),
            ("PATH", "x"),
        ]);
        assert!(environment.problems.is_empty() && environment.warnings.is_empty());
        add_flag(&mut environment.layer, "workers", &["5".to_owned()]).unwrap();
        let text = "memory = '32M'\nworkers = 2\ndrain = '7s'\nallow = '10.0.0.0/8'\n";
        let file = File::parse("larder.toml", text).unwrap();
        let config = Loaded::build(&file, &environment.layer).unwrap().config;
        assert_eq!((config.memory, config.workers, config.admin), (64 << 20, Some(5), None));
        assert_eq!(config.listen.len(), 2);
        assert!(config.allow.is_empty() && config.upstream_settings.is_unverified());
        assert_eq!(config.store.durability_bound.as_millis(), 250);
        assert_eq!(config.client.drain.as_secs(), 7);
    }

    #[test]
    fn the_compose_file_states_settings() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/compose.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let stated: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.trim().split_once(": "))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        let environment = read(&stated);
        assert!(environment.problems.is_empty() && environment.warnings.is_empty());
        let file = File::parse("larder.toml", "").unwrap();
        let config = Loaded::build(&file, &environment.layer).unwrap().config;
        assert_eq!((stated.len(), config.memory), (3, 256 << 20));
    }

    #[test]
    fn wrong_values_are_errors_and_unknown_names_warnings() {
        let environment = read(&[
            ("LARDER_MEMORY", "1M"),
            ("LARDER_CACHE", "none,x"),
            ("LARDER_MEMROY", "64M"),
            ("LARDER_INCLUDE", "x"),
            ("LARDER_SEED", "7"),
            ("LARDER_PORT_80_TCP_ADDR", "10.0.0.1"),
        ]);
        let told: Vec<_> = environment.problems.iter().map(|p| (&*p.key, &*p.text)).collect();
        let memory = "expected a size such as 10G, from 16M to 64T, or \"auto\", got \"1M\"";
        let cache = "expected \"none\" alone, or values without it";
        assert_eq!(told, [("cache", cache), ("memory", memory)]);
        let unknown = "no setting has this environment variable";
        assert_eq!(
            environment.warnings,
            [
                format!("LARDER_INCLUDE: {unknown}"),
                format!("LARDER_MEMROY: {unknown}; did you mean LARDER_MEMORY?"),
            ]
        );
        let bytes = OsString::from_vec(vec![0xff]);
        let environment = Environment::of([("LARDER_USER".into(), bytes)].into_iter());
        assert_eq!(environment.problems[0].text, "expected UTF-8 text");
    }

    #[test]
    fn each_setting_has_a_variable_of_its_own() {
        let all: BTreeSet<String> = SETTINGS.iter().map(|setting| variable(setting.key)).collect();
        assert_eq!(all.len(), SETTINGS.len());
    }
}
