//! Drives real applications of several frameworks with several concurrent users, through Larder and
//! directly, and compares every response.
//!
//! This part installs and builds the applications of `xtask/applications` below
//! `target/applications`, where a second run finds them and needs no network. The driver there,
//! which needs only Python's standard library, starts them and checks the responses.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use crate::workspace;

/// An application, and the commands that install and start it in the directory of its copy.
struct Application {
    name: &'static str,
    /// Programs that must be installed.
    tools: &'static [&'static str],
    prepare: &'static [&'static [&'static str]],
    start: &'static [&'static str],
    /// Directory of the static files that all applications share.
    static_directory: &'static str,
    /// Static files that the application serves behind its session middleware.
    static_with_sessions: &'static [&'static str],
}

const NPM_CI: &[&str] = &["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"];

const APPLICATIONS: &[Application] = &[
    Application {
        name: "django",
        tools: &["python3"],
        prepare: &[
            &["python3", "-m", "venv", "venv"],
            &["venv/bin/pip", "install", "--quiet", "-r", "requirements.txt"],
        ],
        start: &["venv/bin/gunicorn"],
        static_directory: "static",
        static_with_sessions: &[],
    },
    Application {
        name: "express",
        tools: &["node", "npm"],
        prepare: &[NPM_CI],
        start: &["node", "shop.js"],
        static_directory: "static",
        static_with_sessions: &["/assets/app.css", "/assets/app.js"],
    },
    Application {
        name: "spring",
        tools: &["java", "mvn"],
        prepare: &[&["mvn", "-q", "-B", "-Dmaven.repo.local=../maven", "package"]],
        start: &["java", "-XX:TieredStopAtLevel=1", "-jar", "target/shop.jar"],
        static_directory: "static",
        static_with_sessions: &[],
    },
    Application {
        name: "chi",
        tools: &["go"],
        prepare: &[&["go", "build", "-o", "shop", "."]],
        start: &["./shop"],
        static_directory: "static",
        static_with_sessions: &[],
    },
    Application {
        name: "next",
        tools: &["node", "npm"],
        prepare: &[NPM_CI, &["node", "node_modules/next/dist/bin/next", "build"]],
        start: &["node", "node_modules/next/dist/bin/next", "start", "-H", "127.0.0.1"],
        static_directory: "public/static",
        static_with_sessions: &[],
    },
];

/// The applications to try, and for how long.
#[derive(Args)]
pub struct Options {
    /// The larder to try; built with the profile of the tests when absent.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Only these applications.
    #[arg(long, num_args = 1.., value_parser = names())]
    pub only: Vec<String>,
    /// Users at once; three of four sign in.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(4..=64))]
    pub users: u32,
    /// Seconds of random steps, for each application and each of the two configurations.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// The seed of the steps; by chance when absent.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Writes the counts and all faults to this file, too.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Returns the names of the applications, as the values that `--only` takes.
fn names() -> clap::builder::PossibleValuesParser {
    APPLICATIONS.iter().map(|application| application.name).collect::<Vec<_>>().into()
}

/// Installs the applications and drives them.
///
/// # Errors
///
/// When an application cannot be installed, or a response was wrong; the output says which.
pub fn run(options: &Options) -> Result<(), String> {
    let cache = workspace::root().join("target/applications");
    let mut ready = Vec::new();
    let mut skipped = BTreeMap::new();
    for application in APPLICATIONS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == application.name) {
            continue;
        }
        if let Some(tool) = application.tools.iter().find(|tool| !workspace::is_installed(tool)) {
            println!("{}: SKIPPED: {tool} is not installed", application.name);
            skipped.insert(application.name, format!("{tool} is not installed"));
            continue;
        }
        let directory = prepare(application, &cache)?;
        ready.push(json!({
            "name": application.name,
            "directory": directory,
            "start": application.start,
            "static": application.static_with_sessions,
        }));
    }
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(()) >> 16);
    println!("seed {seed}");
    let plan = json!({
        "applications": ready,
        "skipped": skipped,
        "binary": binary(options)?,
        "users": options.users,
        "seconds": options.seconds,
        "seed": seed,
        "json": options.json.as_deref().map(std::path::absolute).transpose().map_err(text)?,
    });
    drive(&cache, &plan)
}

/// Returns the path of the larder to test, building it unless one was given.
fn binary(options: &Options) -> Result<PathBuf, String> {
    if let Some(path) = &options.binary {
        return path.canonicalize().map_err(|e| format!("{}: {e}", path.display()));
    }
    workspace::succeed(workspace::cargo(&["build", "--package", "larder"]))?;
    Ok(workspace::root().join("target/debug/larder"))
}

/// Runs the driver with its plan.
fn drive(cache: &Path, plan: &Value) -> Result<(), String> {
    if !workspace::is_installed("python3") {
        return Err("the driver needs python3, which is not installed".into());
    }
    fs::create_dir_all(cache).map_err(text)?;
    let file = cache.join("plan.json");
    fs::write(&file, plan.to_string()).map_err(text)?;
    let mut command = Command::new("python3");
    command.arg(sources().join("driver/main.py")).arg(&file);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    workspace::succeed(command)
}

/// Copies an application's sources below `cache` and installs its dependencies there, unless this
/// was already done for the same sources. Returns the directory of the copy.
fn prepare(application: &Application, cache: &Path) -> Result<PathBuf, String> {
    let from = sources().join(application.name);
    let shared = sources().join("static");
    let to = cache.join(application.name);
    let mut files = Vec::new();
    list(&from, &mut files).and_then(|()| list(&shared, &mut files)).map_err(text)?;
    let stamp = stamp(application, &files).map_err(text)?;
    let stamp_file = to.join(".prepared");
    if fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp) {
        return Ok(to);
    }
    println!("{}: installing below {}", application.name, to.display());
    for file in &files {
        let target = match file.strip_prefix(&shared) {
            Ok(name) => to.join(application.static_directory).join(name),
            Err(_) => to.join(file.strip_prefix(&from).map_err(text)?),
        };
        fs::create_dir_all(target.parent().unwrap_or(&to)).map_err(text)?;
        fs::copy(file, &target).map_err(text)?;
    }
    for words in application.prepare {
        let [program, arguments @ ..] = words else { continue };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&to);
        command.env("GOMODCACHE", cache.join("go")).env("GOFLAGS", "-modcacherw");
        command.env("GOTOOLCHAIN", "local").env("NEXT_TELEMETRY_DISABLED", "1");
        workspace::succeed(command).map_err(|e| format!("{}: {e}", application.name))?;
    }
    fs::write(stamp_file, stamp).map_err(text)?;
    Ok(to)
}

/// Returns a text that changes whenever the sources or the commands do.
fn stamp(application: &Application, files: &[PathBuf]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    application.prepare.hash(&mut hasher);
    for file in files {
        file.hash(&mut hasher);
        fs::read(file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Adds the files below `directory` to `found`, in a fixed order.
fn list(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() { list(&entry, found)? } else { found.push(entry) }
    }
    Ok(())
}

/// Returns the directory of the applications' sources.
fn sources() -> PathBuf {
    workspace::root().join("xtask/applications")
}

/// Returns an error as text.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_has_its_sources() {
        let shared = fs::read_dir(sources().join("static")).unwrap().count();
        assert!(shared > 0);
        for application in APPLICATIONS {
            let mut files = Vec::new();
            list(&sources().join(application.name), &mut files).unwrap();
            assert!(!files.is_empty(), "{}", application.name);
            assert!(!application.prepare.is_empty() && !application.start.is_empty());
        }
    }

    #[test]
    fn a_changed_source_is_prepared_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("shop.js");
        fs::write(&file, "one").unwrap();
        let before = stamp(&APPLICATIONS[0], std::slice::from_ref(&file)).unwrap();
        assert_eq!(before, stamp(&APPLICATIONS[0], std::slice::from_ref(&file)).unwrap());
        fs::write(&file, "two").unwrap();
        assert_ne!(before, stamp(&APPLICATIONS[0], std::slice::from_ref(&file)).unwrap());
    }
}
