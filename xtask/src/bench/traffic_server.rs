//! Apache Traffic Server with its defaults, except for one thread, its memory, and its files.
//!
//! It refuses to run as root: its directory and its device belong to the user of its package.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use super::system::Setup;

/// The user that Debian's package makes.
const USER: &str = "trafficserver";

/// Returns the number of its user; `None` when we are not root, so that it runs as our user.
///
/// # Errors
///
/// When there is no such user.
pub fn user() -> Result<Option<u32>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(|e| format!("/etc/passwd: {e}"))?;
    number_of(USER, &users).map(Some).ok_or_else(|| format!("there is no user {USER}"))
}

/// Returns the number of the user of this name.
fn number_of(name: &str, users: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Writes its files into `directory`.
///
/// # Errors
///
/// When a file cannot be written, or there is no user for it.
pub fn configure(
    directory: &Path,
    cache: &Path,
    listen: SocketAddr,
    setup: &Setup,
    origin: SocketAddr,
) -> Result<(), String> {
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    write("runroot.yaml", places(directory))?;
    write("records.config", records(listen, setup))?;
    write("remap.config", format!("map / http://{origin}/\n"))?;
    write("storage.config", format!("{}\n", cache.display()))?;
    write("ip_allow.yaml", ALLOWED.to_owned())?;
    let fail = |e: std::io::Error| format!("{}: {e}", directory.display());
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(fail)?;
    chown(directory, user()?, None).map_err(fail)
}

const ALLOWED: &str = "\
ip_allow:
  - apply: in
    ip_addrs: 127.0.0.1
    action: allow
    methods: ALL
";

/// Returns the places of its parts: the program's where the package has them, all others in
/// `directory`.
fn places(directory: &Path) -> String {
    let at = directory.display();
    format!(
        "prefix: {at}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\n\
         sysconfdir: {at}\ndatadir: /usr/share/trafficserver\nincludedir: /usr/include\n\
         libdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n\
         localstatedir: {at}\nruntimedir: {at}\nlogdir: {at}\ncachedir: {at}\n"
    )
}

fn records(listen: SocketAddr, setup: &Setup) -> String {
    let settings = [
        ("admin.user_id STRING", USER.to_owned()),
        ("exec_thread.autoconfig INT", "0".into()),
        ("exec_thread.limit INT", "1".into()),
        ("http.server_ports STRING", format!("{}:ip-in={}", listen.port(), listen.ip())),
        // Nothing is served before the cache can be used.
        ("http.wait_for_cache INT", "1".into()),
        ("cache.ram_cache.size INT", (setup.memory_mib << 20).to_string()),
        ("log.logging_enabled INT", "0".into()),
        ("crash_log_helper STRING", "NULL".into()),
    ];
    settings.map(|(name, value)| format!("CONFIG proxy.config.{name} {value}\n")).concat()
}

#[test]
fn a_user_is_found_by_its_whole_name() {
    let users = "root:x:0:0:root:/root:/bin/sh\nserver2:x:7:7::/:\nserver:x:102:105::/run:\n";
    assert_eq!(number_of("server", users), Some(102));
    assert_eq!(number_of("serve", users), None);
}
