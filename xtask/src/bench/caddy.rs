//! Caddy as a web server.

use std::net::SocketAddr;
use std::path::Path;

/// Its surroundings, for a limit of so many MiB for it and what the kernel keeps for it.
///
/// * `GOMAXPROCS=1`: one core runs it, as it does the one worker of others. Threads that wait for
///   the disk do not count for Go.
/// * `GOMEMLIMIT`: at most a quarter is its own, so that its garbage does not take the memory that
///   the kernel would have for files.
/// * What it would keep in the user's home lies in `directory`.
pub fn environment(directory: &Path, limit_mib: u64) -> [(&'static str, String); 4] {
    let at = directory.display().to_string();
    [
        ("GOMAXPROCS", "1".to_owned()),
        ("GOMEMLIMIT", format!("{}MiB", (limit_mib / 4).max(16))),
        ("XDG_DATA_HOME", at.clone()),
        ("XDG_CONFIG_HOME", at),
    ]
}

/// Returns its Caddyfile: `file_server` alone, without the interface for administration, without
/// TLS and HTTP/2, connections kept as long as they are used, and without an access log, which is
/// the default. A site is for all hosts. It has no setting for files beyond that: each request
/// opens its file.
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
