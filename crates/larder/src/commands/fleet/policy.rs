//! `larder fleet policy`: shows the table of classes in force in a fleet, and replaces it in the
//! whole fleet.

use std::fs;
use std::io::{self, Read};

use clap::{Arg, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use fleet::class::{PRESETS, TEXT_MAX};
use serde_json::Value;

use crate::commands::admin_client::AdminClient;
use crate::commands::asking::{ask, json_flag, understood};

pub fn show_command() -> Command {
    Command::new("show")
        .about("Print the policy in force, in the form that `set` reads")
        .after_long_help(
            "Version 0 is the policy of the node's own configuration. Exit codes: 0; 1 if there \
             is no response or no fleet; 2 for a wrong command line or configuration.",
        )
        .arg(json_flag())
}

pub fn set_command() -> Command {
    Command::new("set")
        .about("Replace the policy of the whole running fleet")
        .after_long_help(format!(
            "The presets are {}. A file has [[class]] tables, or preset = \"NAME\" \
             (docs/guide/classes.md). All live nodes are first asked whether they can apply it; if \
             one cannot, nothing changes. Each request follows one policy from start to end. An \
             absent node applies the policy when it is back. To keep the policy across a restart \
             of the whole fleet, also write it into the configuration. Exit codes: 0 if it is in \
             force everywhere; 1 if it was refused and nothing has changed; 2 for a wrong command \
             line or configuration; 3 if it is in force but a node has yet to apply it.",
            PRESETS.join(", ")
        ))
        .arg(
            Arg::new("policy")
                .value_name("FILE|PRESET")
                .required(true)
                .help("A file with the policy, - for standard input, or a preset name."),
        )
}

pub fn show(matches: &ArgMatches) -> Result<(), Failure> {
    let told = ask(matches, "/fleet/policy")?;
    if matches.get_flag("json") {
        return answer(&format!("{told:#}"));
    }
    let text = told["text"].as_str().unwrap_or_default().trim_end();
    answer(&format!("# version {}\n{text}", told["version"]))
}

pub fn set(matches: &ArgMatches) -> Result<(), Failure> {
    let given = matches.get_one::<String>("policy").map_or("", String::as_str);
    let text = read(given).map_err(Failure::usage)?;
    let told = AdminClient::of(matches)?.post_as("application/toml", "/fleet/policy", &text)?;
    let told = understood(&told)?;
    let version = &told["version"];
    answer(&format!("policy {version} is in force here and at {} other nodes", told["nodes"]))?;
    let late = told["unreached"].as_object().into_iter().flatten();
    let late: Vec<String> =
        late.map(|(name, why)| format!("{name} has yet to apply it: {}", words(why))).collect();
    if late.is_empty() { Ok(()) } else { Err(Failure::partial(late.join("\n"))) }
}

fn words(why: &Value) -> &str {
    why.as_str().unwrap_or("no reason is given")
}

/// Returns the text of a policy: of a preset, from standard input, or from a file.
fn read(given: &str) -> Result<String, String> {
    if PRESETS.contains(&given) {
        return Ok(format!("preset = \"{given}\"\n"));
    }
    let text = match given {
        "-" => bounded(io::stdin().lock()),
        path => fs::File::open(path).and_then(bounded),
    };
    let text = text.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{given} is neither a file nor a preset; those are {}", PRESETS.join(", "))
        }
        _ => format!("{given}: {error}"),
    })?;
    match text.trim().is_empty() {
        true => Err(format!("{given}: it is empty")),
        false => Ok(text),
    }
}

/// Reads everything, up to the maximum size of a policy.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(TEXT_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > TEXT_MAX {
        let why = format!("it is longer than {TEXT_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_named_and_a_file_is_read() {
        assert_eq!(read("replicated").unwrap(), "preset = \"replicated\"\n");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        let given = path.display().to_string();
        assert!(
            read(&given).unwrap_err().contains("neither a file nor a preset; those are larder")
        );
        fs::write(&path, " \n").unwrap();
        assert!(read(&given).unwrap_err().contains("empty"));
        fs::write(&path, "[[class]]\n").unwrap();
        assert_eq!(read(&given).unwrap(), "[[class]]\n");
        fs::write(&path, "#".repeat(TEXT_MAX + 1)).unwrap();
        assert!(read(&given).unwrap_err().contains("longer than"));
        fs::write(&path, [0xff]).unwrap();
        assert!(read(&given).unwrap_err().contains("UTF-8"));
    }
}
