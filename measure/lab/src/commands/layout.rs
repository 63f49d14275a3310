//! `larder lab layout`: draws how every layout places the same objects on a device.

use std::fs;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use cli::outcome::{Failure, answer};

use crate::layouts::example::{OBJECTS, VARIANTS, example};
use crate::layouts::svg::svg;
use crate::layouts::text::{LEGEND, text};

/// Returns the arguments of `larder lab layout`.
pub fn command() -> Command {
    let objects = *OBJECTS.start() as u64..=*OBJECTS.end() as u64;
    Command::new("layout")
        .about("Draw the placement of the same objects under every layout")
        .after_help(
            "The engine stores, replaces, refreshes and removes the objects in a small cache in \
             memory and reports their placement. See docs/research/layouts.md.",
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Write layouts.svg, and a drawing of each layout, into this directory."),
        )
        .arg(
            Arg::new("objects")
                .long("objects")
                .value_name("N")
                .value_parser(value_parser!(u64).range(objects))
                .default_value("20")
                .help("Number of objects, 12 to 26."),
        )
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let objects = matches.get_one::<u64>("objects").copied().unwrap_or(20) as usize;
    let mut examples = Vec::new();
    for variant in VARIANTS {
        examples.push(example(variant, objects).map_err(Failure::runtime)?);
    }
    for example in &examples {
        answer(&text(example))?;
    }
    answer(LEGEND)?;
    let Some(folder) = matches.get_one::<PathBuf>("out") else { return Ok(()) };
    let write = |name: String, drawing: String| {
        let path = folder.join(name);
        fs::write(&path, drawing)
            .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display())))
    };
    fs::create_dir_all(folder).map_err(|error| {
        Failure::runtime(format!("cannot create the directory {}: {error}", folder.display()))
    })?;
    for example in &examples {
        write(format!("layout-{}.svg", example.variant.name), svg(std::slice::from_ref(example)))?;
    }
    write("layouts.svg".to_owned(), svg(&examples))
}
