//! Squid as an accelerator in front of one origin, with its cache in memory.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::Peer;

pub(super) const PEER: Peer =
    Peer { name: "squid", probe: &["squid", "-v"], command, reasons: REASONS };

const REASONS: &[(&str, &str)] = &[
    ("age", "it asks with a condition where the stored answer has no validator of the origin's"),
    (
        "cache-control-syntax",
        "names have a case for it, and numbers end where they stop being some",
    ),
    ("cache-status", "of RFC 9211 it writes its own members only"),
    ("conditional", "its 304 leaves fields out; conditions on what is stale are not judged by us"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "it makes a condition of the time of receipt, also without a Last-Modified"),
    ("head", "an answer to a HEAD does not touch what is stored"),
    ("hops", "1xx answers lose their fields and trailers are dropped"),
    ("invalidation", "a relative Location is not resolved"),
    ("partial", "parts are neither kept nor combined"),
    ("request-directives", "it validates with a condition of its own where we fetch anew"),
    ("stale", "it serves nothing stale for an origin that is gone, unless configured to"),
    ("status", "its list of statuses that may be stored is short"),
    ("storing", "it stores no answer with no-cache=\"field\" or private=\"field\""),
    ("targeted", "RFC 9213 is unknown to it"),
    (
        "validation",
        "weak tags are not asked for, and a 304 may change what belongs to the stored bytes",
    ),
    ("vary", "it compares values byte by byte"),
];

fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    // It gives up root for a user of its own.
    std::fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    let (here, host, port) = (directory.display(), origin.ip(), origin.port());
    let text = format!(
        "http_port {listen} accel vhost
cache_peer {host} parent {port} 0 no-query no-digest originserver name=origin
cache_peer_access origin allow all
never_direct allow all
http_access allow all
cache_mem 64 MB
pid_filename {here}/pid
cache_log {here}/cache.log
access_log none
coredump_dir {here}
pinger_enable off
shutdown_lifetime 0 seconds
"
    );
    let path = directory.join("squid.conf");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new("squid");
    command.arg("-N").arg("-f").arg(path);
    command
}
