//! `larder fleet forget`: takes a node that is lost for good out of the fleet.

use clap::{Arg, ArgMatches, Command};
use cli::outcome::{Failure, answer};
use fleet::MemberId;

use crate::commands::admin_client::AdminClient;
use crate::commands::asking::understood;

pub fn command() -> Command {
    Command::new("forget")
        .about("Take a node that is lost for good out of the fleet")
        .after_long_help(
            "A node that was lost and did not leave in order counts for purges: they name it, and \
             with too many such nodes the others validate what they have stored. It counts again \
             when it is heard again. Exit codes: 0; 1 if there is no response, no fleet, or the \
             node is not lost; 2 for a wrong command line or configuration; 3 if a node has yet \
             to learn it.",
        )
        .arg(
            Arg::new("node")
                .value_name("NAME")
                .required(true)
                .value_parser(|name: &str| name.parse::<MemberId>())
                .help("The name of the node."),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let name = matches.get_one::<MemberId>("node").map_or("", MemberId::as_str);
    let told = AdminClient::of(matches)?.post(&format!("/fleet/forget?node={name}"), "")?;
    let told = understood(&told)?;
    answer(&format!("{} is forgotten here and at {} other nodes", name, told["nodes"]))?;
    let late = told["unreached"].as_object().into_iter().flatten();
    let late: Vec<String> = late.map(|(name, why)| format!("not at {name}: {why}")).collect();
    if late.is_empty() { Ok(()) } else { Err(Failure::partial(late.join("\n"))) }
}
