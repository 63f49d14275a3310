//! Apache httpd as a web server: its event MPM with one process.
//!
//! No more is loaded than a web server of plain files wants: the MPM, the check of who may come,
//! and types by extension.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Where Debian and others put its modules.
const MODULES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"];

/// Threads: as many requests wait for the disk at a time. More than there are connections never
/// work, and each takes memory.
const THREADS: u32 = 64;

/// Returns its configuration.
///
/// * One process with [`THREADS`] threads, however little there is to do: starting and ending some
///   is not what is measured. One core runs them, as it does the one worker of others.
/// * `EnableSendfile` (off by default) and `EnableMMAP`: no copy of a file's bytes; the tree is on
///   a local file system, where both are safe.
/// * `AllowOverride None`: no look for `.htaccess` in each directory on the way.
/// * `FollowSymLinks`: without it each name on the way is looked at once more.
/// * Connections are kept as long as they are used, as those of all servers.
/// * No access log.
///
/// # Errors
///
/// When its modules are not where they are expected.
pub fn of_files(directory: &Path, listen: SocketAddr, root: &Path) -> Result<String, String> {
    let modules = MODULES.iter().find(|place| Path::new(place).exists());
    let modules = modules.ok_or("the modules of Apache httpd are in no place that is known")?;
    let (at, root) = (directory.display(), root.display());
    // As root it wants a user for its threads.
    let user = if rustix::process::geteuid().is_root() { user()? } else { String::new() };
    Ok(format!(
        "ServerRoot {at}
        ServerName bench.test
        DefaultRuntimeDir {at}
        PidFile {at}/pid
        Mutex pthread
        {user}
        LoadModule mpm_event_module {modules}/mod_mpm_event.so
        LoadModule authz_core_module {modules}/mod_authz_core.so
        LoadModule mime_module {modules}/mod_mime.so
        TypesConfig /dev/null
        AddType text/html .html
        AddType image/gif .gif
        Listen {listen}
        ListenBacklog 1024
        ServerLimit 1
        StartServers 1
        ThreadLimit {THREADS}
        ThreadsPerChild {THREADS}
        MaxRequestWorkers {THREADS}
        MinSpareThreads 1
        MaxSpareThreads {THREADS}
        MaxConnectionsPerChild 0
        Timeout 3600
        KeepAlive On
        KeepAliveTimeout 3600
        MaxKeepAliveRequests 0
        EnableSendfile On
        EnableMMAP On
        HostnameLookups Off
        ErrorLog {at}/error.log
        LogLevel crit
        DocumentRoot {root}
        <Directory />
            AllowOverride None
            Options FollowSymLinks
            Require all granted
        </Directory>\n"
    ))
}

/// Returns the lines that name the user and the group of its package.
fn user() -> Result<String, String> {
    let groups = fs::read_to_string("/etc/group").map_err(|e| format!("/etc/group: {e}"))?;
    let named = |name: &str| groups.lines().any(|line| line.split(':').next() == Some(name));
    let name = ["www-data", "apache"].into_iter().find(|name| named(name));
    let name = name.ok_or("there is no user www-data or apache for Apache httpd")?;
    Ok(format!("User {name}\nGroup {name}"))
}
