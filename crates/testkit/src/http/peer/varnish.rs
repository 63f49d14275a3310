//! Varnish with its built-in rules.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Returns the command that serves on `listen` for `origin`, with its files in `directory`.
pub(super) fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    let (host, port) = (origin.ip(), origin.port());
    let path = directory.join("larder.vcl");
    let text = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new("varnishd");
    command.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,64m", "-a", &listen.to_string()]);
    command.arg("-f").arg(path).arg("-n").arg(directory.join("work"));
    command
}
