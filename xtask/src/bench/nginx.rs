//! nginx as its documentation recommends for a cache.
//!
//! One worker. The kernel's page cache may hold any part of its files.

use std::net::SocketAddr;
use std::path::Path;

use super::system::Setup;

/// Returns the configuration file of nginx in `directory`: keep-alive to the origin, no temporary
/// files on another file system, logs off.
pub fn configuration(directory: &Path, cache: &Path, listen: SocketAddr, setup: &Setup) -> String {
    let (at, cache, gib, origin) =
        (directory.display(), cache.display(), setup.cache_gib, setup.origin);
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log crit;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; sendfile on; tcp_nodelay on;
            keepalive_timeout 1h; keepalive_requests 1000000000;
            client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
            fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
            proxy_cache_path {cache} levels=1:2 keys_zone=bench:128m max_size={gib}g
                inactive=1d use_temp_path=off manager_files=100000
                manager_threshold=10s manager_sleep=10ms;
            upstream origin {{
                server {origin}; keepalive 128; keepalive_requests 1000000000;
            }}
            server {{
                listen {listen} backlog=1024;
                location / {{
                    proxy_pass http://origin; proxy_http_version 1.1;
                    proxy_set_header Connection \"\"; proxy_cache bench;
                }}
            }}
        }}\n"
    )
}
