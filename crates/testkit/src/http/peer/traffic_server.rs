//! Apache Traffic Server, mapped to one origin.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const CLIENTS: &str =
    "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";

/// Returns the command that serves on `listen` for `origin`, with its files in `directory`.
pub(super) fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    // It drops root for a user of its own.
    let folder = |name: &str| {
        let path = directory.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    };
    fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    ["etc", "run", "log", "cache", "var", "data"].into_iter().for_each(folder);
    let here = directory.display();
    let layout = format!(
        "prefix: /usr
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: {here}/etc
datadir: {here}/data
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {here}/var
runtimedir: {here}/run
logdir: {here}/log
cachedir: {here}/cache
"
    );
    // It does not serve as root.
    let user = if rustix::process::getuid().is_root() { "nobody" } else { "#-1" };
    let records = format!(
        "CONFIG proxy.config.http.server_ports STRING {}:ip-in={}
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 2
CONFIG proxy.config.admin.user_id STRING {user}
",
        listen.port(),
        listen.ip()
    );
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("runroot.yaml", &layout);
    write("etc/records.config", &records);
    write("etc/remap.config", &format!("map / http://{origin}/\n"));
    write("etc/storage.config", &format!("{here}/cache 64M\n"));
    write("etc/ip_allow.yaml", CLIENTS);
    let mut command = Command::new("traffic_server");
    command.env("TS_RUNROOT", directory.join("runroot.yaml"));
    command
}
