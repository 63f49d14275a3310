//! Squid as an accelerator in front of one origin, with its cache in memory.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Returns the command that serves on `listen` for `origin`, with its files in `directory`.
pub(super) fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    // It drops root for a user of its own.
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
