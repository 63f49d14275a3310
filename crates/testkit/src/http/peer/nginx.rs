//! nginx with `proxy_cache` and its options for stale responses.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Returns the command that serves on `listen` for `origin`, with its files in `directory`.
pub(super) fn command(directory: &Path, listen: SocketAddr, origin: SocketAddr) -> Command {
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
