//! Apache httpd as a web server: its event MPM with one process.
//!
//! Only the modules that a web server of plain files needs are loaded: the MPM, access control, and
//! types by extension.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Module directories of Debian and other distributions.
const MODULES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"];

/// Number of threads, which limits the requests that wait for the disk at a time. Threads beyond
/// the number of connections never work, and each takes memory.
const THREADS: u32 = 64;

/// Returns the configuration.
///
/// * One process with [`THREADS`] threads at any load: starting and ending processes is not
///   measured. One core runs them, like the one worker of other servers.
/// * `EnableSendfile` (off by default) and `EnableMMAP`: no copy of a file's bytes; the tree is on
///   a local file system, where both are safe.
/// * `AllowOverride None`: no search for `.htaccess` in each directory of the path.
/// * `FollowSymLinks`: without it, each name of the path needs another lookup.
/// * Connections are kept as long as they are used, as with all servers.
/// * No access log.
///
/// # Errors
///
/// When the modules are not where they are expected.
pub fn of_files(directory: &Path, listen: SocketAddr, root: &Path) -> Result<String, String> {
    let modules = MODULES.iter().find(|place| Path::new(place).exists());
    let modules = modules.ok_or("the modules of Apache httpd are in no place that is known")?;
    let (at, root) = (directory.display(), root.display());
    // Run as root, it needs a user for its threads.
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

/// Returns the lines that name the user and group of its package.
fn user() -> Result<String, String> {
    let groups = fs::read_to_string("/etc/group").map_err(|e| format!("/etc/group: {e}"))?;
    let named = |name: &str| groups.lines().any(|line| line.split(':').next() == Some(name));
    let name = ["www-data", "apache"].into_iter().find(|name| named(name));
    let name = name.ok_or("there is no user www-data or apache for Apache httpd")?;
    Ok(format!("User {name}\nGroup {name}"))
}
