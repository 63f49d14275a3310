//! `larder convert`: converts the configuration of another proxy into Larder's.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use crate::convert::dialect::Dialect;
use crate::convert::source;

pub fn command() -> Command {
    Command::new("convert")
        .about("Convert a configuration of nginx, Varnish (VCL 4) or Squid")
        .after_long_help(
            "Prints what was not taken over as FILE:LINE: DIRECTIVE: REASON on standard error, \
             and the same as comments in the result. Exit codes: 0 when everything was taken \
             over, 3 when something was not, 1 when the file cannot be read or recognised.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The configuration file; files that it includes are read as well."),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("WORD")
                .value_parser(PossibleValuesParser::new(["nginx", "vcl", "squid"]))
                .help("Its language [default: recognised by its contents]"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("File to write [default: standard output]"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Replace an existing file."),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let named = matches.get_one::<String>("from").and_then(|name| Dialect::named(name));
    let dialect = match named {
        Some(dialect) => dialect,
        None => {
            let text = source::read(&path).map_err(Failure::runtime)?;
            Dialect::of(&text).ok_or_else(|| {
                let path = path.display();
                Failure::runtime(format!("{path}: not recognised: name its language (--from)"))
            })?
        }
    };
    let mut output = dialect.convert(&path).map_err(Failure::runtime)?;
    let text = output.finish().map_err(|problems| {
        Failure::runtime(format!("the converted configuration is not valid:\n{problems}"))
    })?;
    match matches.get_one::<PathBuf>("out") {
        Some(out) => write(out, &text, matches.get_flag("force"))?,
        None => answer(text.trim_end())?,
    }
    match output.losses() {
        [] => Ok(()),
        losses => {
            let mut losses = losses.to_vec();
            losses.sort_by(|one, other| {
                (&one.at.file, one.at.line).cmp(&(&other.at.file, other.at.line))
            });
            let lines: Vec<String> = losses.iter().map(ToString::to_string).collect();
            Err(Failure::partial(lines.join("\n")))
        }
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::AlreadyExists => " (--force replaces it)",
            _ => "",
        };
        Failure::runtime(format!("{}: {error}{advice}", path.display()))
    })
}
