//! The scripts played to nginx: not to judge it, but to see where we differ from what operators are
//! used to. Not run by default; it prints every difference with the section of the RFC.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::origin::Origin;
use crate::play::{Proxies, play_all};
use crate::program::{await_listener, free_address};

fn configuration(directory: &Path, listen: &str, origin: &str) -> String {
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

#[test]
#[ignore = "plays the scripts to nginx and prints where it differs; needs nginx"]
fn nginx_differs() {
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: nginx is not installed, nothing was compared");
        return;
    }
    let tests = crate::tests();
    let (origin, directory) = (Origin::start(), TempDir::new().unwrap());
    let listen = free_address();
    let text = configuration(directory.path(), &listen.to_string(), &origin.address().to_string());
    let path = directory.path().join("nginx.conf");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(directory.path()).arg("-c").arg(&path).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    assert!(await_listener(&mut child, listen), "nginx did not start");
    let proxies = Proxies { reverse: listen, forward: None };
    let failures = play_all(&tests, &origin, &proxies);
    // SIGKILL would leave its worker behind.
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-QUIT", &pid]).status();
    let _ = child.wait();
    eprintln!("nginx does otherwise in {} of {} tests:\n", failures.len(), tests.len());
    for failure in failures {
        eprintln!("{failure}\n");
    }
}
