//! The command line and its help.
//!
//! The flags of `serve` come from the table of settings, so a flag, its key in the configuration
//! file and their documentation always agree.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::units;
use store::{FormatOptions, LayoutName};

use crate::commands::completions;
use crate::commands::convert;
use crate::commands::explain;
use crate::commands::fleet;
use crate::commands::inspect::Inspection;
use crate::commands::operate;
use crate::commands::program::{self, Program};
use crate::commands::purge;
use crate::config::layers::{Layer, Problem, add_flag};
use crate::config::settings::{SETTINGS, Setting};
use crate::config::value::Kind;

#[derive(Clone, Debug)]
pub enum Invocation {
    Serve {
        file: Option<PathBuf>,
        flags: Layer,
        /// Run an origin server as well, see [`crate::commands::demo`].
        demo: bool,
    },
    CheckConfig {
        file: PathBuf,
    },
    /// Convert the configuration of another proxy, see [`crate::commands::convert`].
    Convert(ArgMatches),
    PrintConfig,
    Format {
        path: PathBuf,
        /// Size in bytes.
        size: u64,
        force: bool,
        options: FormatOptions,
    },
    Inspect {
        path: PathBuf,
        what: Inspection,
        json: bool,
    },
    /// Explain how a running proxy treats a request, see [`crate::commands::explain`].
    Explain(ArgMatches),
    /// Purge objects from a running proxy, see [`crate::commands::purge`].
    Purge(ArgMatches),
    /// Show the state or the policy of a fleet, see [`crate::commands::fleet`].
    Fleet(ArgMatches),
    /// Act on a running proxy, see [`crate::commands::operate`].
    Operate(String, ArgMatches),
    /// Print the completions of a shell, see [`crate::commands::completions`].
    Completions(ArgMatches),
    /// Write the man pages, see [`crate::commands::completions`].
    Man(ArgMatches),
    /// Run another program in place of this process.
    Program(&'static Program, ArgMatches),
}

/// Parses the command line. `--help`, `--version` and usage errors end the process here, the latter
/// with exit code 2. Invalid values of flags are returned as problems.
pub fn parse() -> Result<Invocation, Vec<Problem>> {
    from_matches(&command().get_matches())
}

fn from_matches(matches: &ArgMatches) -> Result<Invocation, Vec<Problem>> {
    let path = |matches: &ArgMatches, name: &str| {
        matches.get_one::<PathBuf>(name).cloned().unwrap_or_default()
    };
    match matches.subcommand() {
        Some(("serve", matches)) => {
            let flags = flags(matches)?;
            let (file, demo) = (matches.get_one("config").cloned(), matches.get_flag("demo"));
            Ok(Invocation::Serve { file, flags, demo })
        }
        Some(("check-config", matches)) => {
            Ok(Invocation::CheckConfig { file: path(matches, "file") })
        }
        Some(("convert", matches)) => Ok(Invocation::Convert(matches.clone())),
        Some(("print-config", _)) => Ok(Invocation::PrintConfig),
        Some(("format", matches)) => Ok(Invocation::Format {
            path: path(matches, "path"),
            size: matches.get_one("cache-size").copied().unwrap_or_default(),
            force: matches.get_flag("force"),
            options: format_options(matches),
        }),
        Some(("inspect", matches)) => Ok(Invocation::Inspect {
            path: path(matches, "path"),
            what: inspection(matches),
            json: matches.get_flag("json"),
        }),
        Some(("explain", matches)) => Ok(Invocation::Explain(matches.clone())),
        Some(("purge", matches)) => Ok(Invocation::Purge(matches.clone())),
        Some(("fleet", matches)) => Ok(Invocation::Fleet(matches.clone())),
        Some(("completions", matches)) => Ok(Invocation::Completions(matches.clone())),
        Some(("man", matches)) => Ok(Invocation::Man(matches.clone())),
        Some((
            name @ ("status" | "upstreams" | "reload" | "upgrade" | "drain" | "stop"),
            matches,
        )) => Ok(Invocation::Operate(name.to_owned(), matches.clone())),
        Some((name, matches)) => {
            match program::ALL.iter().find(|program| program.command == name) {
                Some(program) => Ok(Invocation::Program(program, matches.clone())),
                None => Err(Vec::new()),
            }
        }
        // clap requires a subcommand.
        None => Err(Vec::new()),
    }
}

/// Returns the options of the preset, or the defaults, with the requested layout.
fn format_options(matches: &ArgMatches) -> FormatOptions {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let preset = word("preset").and_then(store::preset);
    let options = preset.map_or_else(FormatOptions::default, |preset| preset.format);
    let layout = word("layout").and_then(LayoutName::from_name).unwrap_or(options.layout);
    FormatOptions { layout, ..options }
}

fn inspection(matches: &ArgMatches) -> Inspection {
    match matches.subcommand() {
        Some(("superblock", _)) => Inspection::Superblock,
        Some(("clusters", _)) => Inspection::Clusters,
        Some(("verify", _)) => Inspection::Verify,
        Some(("object", matches)) => Inspection::Object {
            url: matches.get_one::<String>("url").cloned().unwrap_or_default(),
            site: matches.get_one("site").cloned(),
            config: matches.get_one("config").cloned(),
        },
        _ => Inspection::Overview,
    }
}

/// Returns the values of the flags of `serve`, or all problems with them.
fn flags(matches: &ArgMatches) -> Result<Layer, Vec<Problem>> {
    let mut layer = Layer::new();
    let mut problems = Vec::new();
    for (setting, flag) in SETTINGS.iter().filter_map(|setting| Some((setting, setting.flag?))) {
        let texts: Vec<String> = matches.get_many(flag).into_iter().flatten().cloned().collect();
        problems.extend(add_flag(&mut layer, setting.key, &texts).err());
    }
    if problems.is_empty() { Ok(layer) } else { Err(problems) }
}

const EXIT_CODES: &str = "\
Exit codes: 0 after an orderly end, 1 when something failed while running, 2 for a wrong command \
line or configuration, 3 when something was done only in part (not at all nodes of a fleet, not \
every directive of a converted file), 128 + the \
signal's number when a second signal cut the end short.";

pub fn command() -> Command {
    Command::new("larder")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "A caching HTTP proxy whose cache is one file or block device that it manages itself",
        )
        .after_long_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .subcommand(serve())
        .subcommands(operate::commands())
        .subcommand(purge::command())
        .subcommand(explain::command())
        .subcommand(fleet::command())
        .subcommand(inspect())
        .subcommand(format())
        .subcommands(program::ALL.map(Program::command))
        .subcommand(
            Command::new("check-config")
                .about("Validate a configuration file on this machine and list all problems")
                .arg(path_arg("file", "FILE", "The configuration file.").required(true)),
        )
        .subcommand(convert::command())
        .subcommand(Command::new("print-config").about(
            "Print a configuration file with every setting, its default and its description",
        ))
        .subcommand(completions::command())
        .subcommand(completions::man_command())
}

fn serve() -> Command {
    let config = path_arg("config", "FILE", "Configuration file (TOML); flags override it.");
    Command::new("serve")
        .about("Run the proxy")
        .after_long_help(
            "SIZE is a number of bytes with K, M, G or T for powers of 1,024. More settings are \
             keys of the configuration file: see docs/reference/configuration.md. Each setting is \
             also an environment variable, store.mean-object as LARDER_STORE_MEAN_OBJECT; flags \
             override it, and it overrides the file. SIGTERM and \
             SIGINT end the proxy in order, a second one at once; SIGHUP re-reads the \
             configuration file and reopens the access log.",
        )
        .arg(config.long("config"))
        .arg(
            Arg::new("demo")
                .long("demo")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["config", "reverse", "static"])
                .help(
                    "Run an origin server as well, with a temporary cache, and print what to try.",
                ),
        )
        .args(SETTINGS.iter().filter_map(|setting| Some(flag(setting, setting.flag?))))
}

fn flag(setting: &'static Setting, called: &'static str) -> Arg {
    let (value, many) = match setting.kind {
        Kind::List(item) => (item.value_name(), true),
        kind => (kind.value_name(), false),
    };
    let mut limits = String::new();
    if let Kind::OneOf(words) = setting.kind {
        limits.push_str(&format!(" [{}]", words.join(", ")));
    }
    if let Kind::Size(min, _) = setting.kind {
        limits.push_str(&format!(" [at least {}]", units::size(min)));
    }
    limits.push_str(&format!(" [default: {}]", default_text(setting)));
    Arg::new(called)
        .long(called)
        .value_name(value)
        .help(format!("{}{limits}", first_sentence(setting.text)))
        .long_help(format!("{}{limits}", setting.text))
        .action(if many { ArgAction::Append } else { ArgAction::Set })
}

/// Returns the part of a description that `-h` prints; `--help` prints all of it.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Returns the default as help and documentation print it.
pub fn default_text(setting: &Setting) -> String {
    match setting.default {
        None | Some([]) => "none".to_owned(),
        Some(texts) => texts.join(", "),
    }
}

fn inspect() -> Command {
    Command::new("inspect")
        .about("Inspect a cache, even one in use, without changing it")
        .arg(path_arg("path", "PATH", "File or block device of the cache.").required(true))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .global(true)
                .help("Print JSON instead of text."),
        )
        .subcommand(Command::new("superblock").about("Both copies of the superblock"))
        .subcommand(Command::new("clusters").about("The table of clusters"))
        .subcommand(Command::new("verify").about("Read and check every record"))
        .subcommand(
            Command::new("object")
                .about("What is stored for a URL")
                .arg(Arg::new("url").value_name("URL").required(true).help("The object's URL."))
                .arg(
                    path_arg(
                        "config",
                        "FILE",
                        "The proxy's configuration file: its sites, their hosts and its rules say \
                         what an object may be called.",
                    )
                    .long("config"),
                )
                .arg(Arg::new("site").long("site").value_name("NAME").help(
                    "The site of a reverse proxy, under which alone it is looked for; without it \
                     and --config: by the forward proxy's name for it, the site \"default\"'s, and \
                     that of the site called like its host.",
                )),
        )
}

fn format() -> Command {
    Command::new("format")
        .about("Create an empty cache")
        .arg(path_arg("path", "PATH", "File (created if missing) or block device.").required(true))
        .arg(
            Arg::new("cache-size")
                .long("cache-size")
                .value_name("SIZE")
                .required(true)
                .value_parser(|text: &str| {
                    units::parse_size(text)
                        .ok_or_else(|| format!("expected {}", units::SIZE_EXAMPLE))
                })
                .help("Size of the cache: bytes, with K, M, G or T for powers of 1,024."),
        )
        .arg(
            Arg::new("preset")
                .long("preset")
                .value_name("NAME")
                .value_parser(PossibleValuesParser::new(store::PRESETS))
                .help("Preset of the cache [default: larder]"),
        )
        .arg(
            Arg::new("layout")
                .long("layout")
                .value_name("NAME")
                .value_parser(PossibleValuesParser::new(LayoutName::NAMES))
                .help("Layout of objects in the cache [default: that of the preset]"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Overwrite existing contents of any kind; they are lost."),
        )
}

fn path_arg(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).value_name(name).value_parser(value_parser!(PathBuf)).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    fn parse(line: &str) -> Result<Invocation, Vec<Problem>> {
        from_matches(&command().try_get_matches_from(line.split(' ')).unwrap())
    }

    #[test]
    fn help_names_every_default() {
        let help = serve().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in SETTINGS {
            let Some(flag) = setting.flag else { continue };
            assert!(help.contains(&format!("--{flag} <")), "{flag}");
            assert!(help.contains(&format!("[default: {}]", default_text(setting))), "{help}");
        }
    }

    #[test]
    fn inspections() {
        let Ok(Invocation::Inspect { path, what, json }) =
            parse("larder inspect x.cache object http://a/ --json")
        else {
            panic!("not an inspection");
        };
        assert_eq!(path, PathBuf::from("x.cache"));
        assert_eq!(
            what,
            Inspection::Object { url: "http://a/".to_owned(), site: None, config: None }
        );
        assert!(json);
        let Ok(Invocation::Inspect { what, json, .. }) = parse("larder inspect x.cache") else {
            panic!("not an inspection");
        };
        assert_eq!((what, json), (Inspection::Overview, false));
    }

    #[test]
    fn every_wrong_flag_is_reported() {
        let problems = parse("larder serve --cache-size 10X --workers 0 --allow 10.0.0.0/8")
            .expect_err("two wrong values");
        let texts: Vec<_> = problems.iter().map(|p| format!("{}: {}", p.key, p.text)).collect();
        assert_eq!(
            texts,
            [
                "cache-size: expected a size such as 10G, from 8M to 1024T, or \"auto\", got \
                 \"10X\"",
                r#"workers: expected a whole number from 1 to 1024, or "auto", got "0""#,
            ]
        );
    }
}
