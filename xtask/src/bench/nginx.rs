//! nginx as its documentation recommends, for files.
//!
//! One worker. The kernel's page cache may hold any part of the files.

use std::net::SocketAddr;
use std::path::Path;

use super::system::WebRoot;

/// Returns the configuration of nginx as a web server.
///
/// * `sendfile` and `tcp_nopush`: no copy of a file's bytes, and the head in one packet with the
///   first of them.
/// * `threads`: reads in 32 threads (`aio threads`). Without them the one worker, with all its
///   connections, waits for the disk; but a thread costs more than a read from memory, so both are
///   measured.
/// * `directio off`: otherwise nginx would bypass the kernel's page cache, the only one that it
///   has.
/// * `open_file_cache` of `open_files`: an open file needs no lookup and no open. Its inode stays
///   in memory, so too many of them take memory from the data of other files. A file is checked
///   again only after a minute, the default.
pub fn of_files(directory: &Path, listen: SocketAddr, files: &WebRoot, threads: bool) -> String {
    let (at, root) = (directory.display(), files.path.display());
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let (open, most) = (files.open_files, files.open_files + 10_000);
    let aio = if threads { "aio threads" } else { "aio off" };
    format!(
        "{user} worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log crit;
        worker_rlimit_nofile {most}; thread_pool default threads=32;
        events {{ worker_connections 4096; }}
        http {{
            types {{ text/html html; image/gif gif; }}
            access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; {aio}; directio off;
            keepalive_timeout 1h; keepalive_requests 1000000000;
            open_file_cache max={open} inactive=1h; open_file_cache_valid 60s;
            client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
            fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
            server {{ listen {listen} backlog=1024; root {root}; }}
        }}\n"
    )
}
