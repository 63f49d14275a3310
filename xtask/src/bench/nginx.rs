//! nginx as its documentation recommends, for files.
//!
//! One worker. The kernel's page cache may hold any part of its files.

use std::net::SocketAddr;
use std::path::Path;

use super::system::WebRoot;

/// Returns the configuration of nginx as a web server.
///
/// * `sendfile` and `tcp_nopush`: no copy of a file's bytes, and the head with the first of them in
///   one packet.
/// * `threads`: reads in 32 threads (`aio threads`), without which the one worker waits for the
///   disk with all its connections; a thread costs more than a read of what is in memory, so that
///   both are measured.
/// * `directio off`: it would read past the kernel's cache, which is the only one that nginx has.
/// * `open_file_cache` of `open_files`: a file that is open is neither looked for nor opened. Its
///   inode stays in memory, so that more of them than have room there take it from the data of
///   others. A file is looked at again after a minute, the default, and then only.
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
