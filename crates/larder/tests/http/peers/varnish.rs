//! Varnish with the rules that it has built in.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::Peer;

pub(super) const PEER: Peer =
    Peer { name: "varnish", probe: &["varnishd", "-V"], command, reasons: REASONS };

const REASONS: &[(&str, &str)] = &[
    ("age", "it looks at no Date, and reads an odd Age as zero freshness"),
    (
        "cache-control-syntax",
        "it reads the beginning of a number and passes over quotes; we parse the list that it is",
    ),
    ("cache-status", "RFC 9211 is unknown to it"),
    (
        "conditional",
        "a list of tags is compared as one text; conditions on what is not stored go no further",
    ),
    ("errors", "RFC 9209 is unknown to it; its error is 503"),
    ("freshness", "an Expires that cannot be read counts as none"),
    ("head", "it fetches a HEAD as GET, and lets it change nothing"),
    ("hops", "it speaks of no Via to the origin, knows no 1xx answers, leaves fields of one hop"),
    ("invalidation", "an unsafe method leaves what it has stored"),
    ("partial", "it asks for wholes only, and takes a part that comes unasked for an error"),
    ("request-directives", "it heeds none of them unless told to in its language"),
    ("stale", "its grace of 10 seconds decides; the directives of origin and client do not"),
    ("status", "its list of statuses that may be stored is short, and makes no guesses"),
    (
        "storing",
        "it stores nothing with Cookie, Set-Cookie or Authorization, whatever the origin says",
    ),
    ("targeted", "RFC 9213 is unknown to it"),
    ("validation", "within its grace it answers with what is stale and asks behind"),
    ("vary", "it compares values byte by byte, and takes an asterisk for a name"),
];

fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    let (host, port) = (origin.ip(), origin.port());
    let path = directory.join("larder.vcl");
    let text = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new("varnishd");
    command.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,64m", "-a", &listen.to_string()]);
    command.arg("-f").arg(path).arg("-n").arg(directory.join("work"));
    command
}
