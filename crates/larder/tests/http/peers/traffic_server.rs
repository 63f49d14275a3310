//! Apache Traffic Server, mapped to one origin.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::Peer;

pub(super) const PEER: Peer =
    Peer { name: "trafficserver", probe: &["traffic_server", "-V"], command, reasons: REASONS };

const REASONS: &[(&str, &str)] = &[
    ("age", "what stands behind an Age spoils it; one too long does not"),
    ("cache-control-syntax", "a number counts up to where it stops being one"),
    ("cache-status", "RFC 9211 is unknown to it"),
    ("conditional", "If-Match is answered from what is stored; lines are not joined"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "dates are read loosely"),
    ("head", "an answer to a HEAD does not touch what is stored"),
    ("hops", "what Connection names goes on, 1xx answers end a request, trailers are dropped"),
    ("invalidation", "PATCH, unknown methods and Location leave what is stored"),
    ("partial", "parts are neither kept nor combined"),
    ("request-directives", "those of clients are ignored unless configured otherwise"),
    ("stale", "it serves what is stale also against no-cache; no outcome can be read off"),
    ("status", "statuses that answer one request's condition, and those of RFC 6585, are stored"),
    ("storing", "Authorization and no-store of a request do not keep its answer out"),
    ("targeted", "RFC 9213 is unknown to it"),
    ("validation", "weak tags become strong, a 304 changes what belongs to stored bytes"),
    ("vary", "values are compared without regard to case, and the lines of a Vary not joined"),
];

const CLIENTS: &str =
    "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";

fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    // It gives up root for a user of its own.
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
    // It serves nobody as root.
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
