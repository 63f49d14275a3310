//! nginx, with `proxy_cache` and what it can do about stale answers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::Peer;

pub(super) const PEER: Peer =
    Peer { name: "nginx", probe: &["nginx", "-v"], command, reasons: REASONS };

const REASONS: &[(&str, &str)] = &[
    ("age", "it reads no Age and no Date and sends no Age: an answer would live twice as long"),
    ("cache-control-syntax", "it searches the field for words; we parse the list that it is"),
    ("cache-status", "RFC 9211 is unknown to it"),
    ("conditional", "it drops conditions on what is not stored and answers If-Match by itself"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "it holds Expires against its own clock and reads dates loosely"),
    ("head", "it fetches a HEAD as GET"),
    ("hops", "it writes no Via, leaves fields of one hop, passes no 1xx answers and no trailers"),
    ("invalidation", "an unsafe method leaves what it has stored"),
    ("partial", "it asks for wholes only"),
    ("request-directives", "it heeds none of them unless configured to"),
    ("stale", "its configuration alone decides; the directives of origin and client do not"),
    ("status", "it makes no guesses, and stores any status that has a lifetime"),
    ("storing", "it stores nothing with Set-Cookie and shares answers to Authorization"),
    ("targeted", "RFC 9213 is unknown to it"),
    ("validation", "a 304 renews its lifetime and none of the stored fields"),
    ("vary", "it compares values byte by byte"),
];

fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
    let path = directory.join("nginx.conf");
    std::fs::write(&path, configuration(directory, listen, origin)).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(directory).arg("-c").arg(path);
    command
}

fn configuration(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> String {
    let here = directory.display();
    format!(
        "daemon off; pid {here}/pid; error_log {here}/error.log; worker_processes 1;
events {{}}
http {{
  access_log off;
  client_body_temp_path {here}/body; proxy_temp_path {here}/temp; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  proxy_cache_path {here}/cache keys_zone=z:1m;
  server {{
    listen {listen};
    location / {{
      proxy_pass http://{origin};
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host $host;
      proxy_cache z;
      proxy_cache_revalidate on;
      proxy_cache_use_stale error timeout http_502 http_503 http_504 updating;
      proxy_cache_background_update on;
    }}
  }}
}}
"
    )
}
