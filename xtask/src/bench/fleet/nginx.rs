//! nginx as nodes that share the documents: each is a cache for its share, behind a server that
//! forwards each request to the cache whose share it is in.
//!
//! One worker. If the share is its own, it sends itself a request over loopback.

use std::path::Path;

use super::load::{NODE, RESULT};
use super::nodes::Place;

/// Returns the configuration of the node at `place`.
///
/// * `hash … consistent` (ketama) over the whole URL; a cache that does not respond is skipped for
///   a second, and the next one on the ring gets the request.
/// * Connections are kept, from clients, between nodes and to the origin.
/// * `proxy_max_temp_file_size 0` in front of the caches: no file for data that a slow client has
///   not read.
/// * `proxy_cache_lock`: concurrent misses of the same URL cause one fetch.
pub fn configuration(place: &Place, directory: &Path, cache: &Path) -> String {
    let (at, cache) = (directory.display(), cache.display());
    let (origin, front, own, number) =
        (place.origin, place.own().front, place.own().between, place.number);
    let servers: String = place
        .all
        .iter()
        .map(|node| format!("server {} max_fails=1 fail_timeout=1s; ", node.between))
        .collect();
    let mib = place.cache_mib;
    format!(
        "user root; worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log crit;
        events {{ worker_connections 4096; }}
        http {{
            access_log off; sendfile on; tcp_nodelay on;
            keepalive_timeout 1h; keepalive_requests 1000000000;
            client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
            fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
            proxy_http_version 1.1; proxy_set_header Connection \"\";
            proxy_set_header Host $http_host; proxy_connect_timeout 1s;
            proxy_cache_path {cache} levels=1:2 keys_zone=bench:16m max_size={mib}m
                inactive=1d use_temp_path=off manager_files=100000
                manager_threshold=10s manager_sleep=10ms;
            upstream origin {{
                server {origin}; keepalive 128; keepalive_requests 1000000000;
            }}
            upstream caches {{
                hash $scheme$http_host$request_uri consistent;
                {servers}
                keepalive 128; keepalive_requests 1000000000;
            }}
            server {{
                listen {front} backlog=1024;
                location / {{
                    proxy_pass http://caches; proxy_next_upstream error timeout;
                    proxy_buffers 16 16k; proxy_max_temp_file_size 0;
                }}
            }}
            server {{
                listen {own} backlog=1024;
                add_header {NODE} {number}; add_header {RESULT} $upstream_cache_status;
                location / {{
                    proxy_pass http://origin; proxy_cache bench; proxy_cache_lock on;
                    proxy_cache_key $scheme$http_host$request_uri;
                }}
            }}
        }}\n"
    )
}
