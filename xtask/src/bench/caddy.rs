//! Caddy as a web server.

use std::net::SocketAddr;
use std::path::Path;

/// Returns the environment, for a limit of `limit_mib` MiB for the process and its kernel memory.
///
/// * `GOMAXPROCS=1`: one core runs it, like the one worker of other servers. Threads that wait for
///   the disk do not count for Go.
/// * `GOMEMLIMIT`: at most a quarter is its own, so that its garbage does not take the memory that
///   the kernel needs to cache files.
/// * Files that it would keep in the user's home lie in `directory`.
pub fn environment(directory: &Path, limit_mib: u64) -> [(&'static str, String); 4] {
    let at = directory.display().to_string();
    [
        ("GOMAXPROCS", "1".to_owned()),
        ("GOMEMLIMIT", format!("{}MiB", (limit_mib / 4).max(16))),
        ("XDG_DATA_HOME", at.clone()),
        ("XDG_CONFIG_HOME", at),
    ]
}

/// Returns the Caddyfile: `file_server` alone, without the admin interface, TLS and HTTP/2.
/// Connections are kept as long as they are used. There is no access log, which is the default. The
/// site serves all hosts. Caddy has no further settings for files: each request opens its file.
pub fn of_files(listen: SocketAddr, root: &Path) -> String {
    let (root, address, port) = (root.display(), listen.ip(), listen.port());
    format!(
        "{{
    admin off
    auto_https off
    servers {{
        protocols h1
        timeouts {{
            idle 1h
        }}
    }}
    log {{
        level ERROR
    }}
}}
http://:{port} {{
    bind {address}
    root * {root}
    file_server
}}\n"
    )
}
