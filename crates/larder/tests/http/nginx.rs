//! The scripts played to nginx: not to judge it, but to know where we differ from what operators
//! are used to, and why. Every difference is printed with the section of the RFC and our reason;
//! one in a script without a reason fails.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::origin::Origin;
use crate::play::{Proxies, play_all};
use crate::program::{await_listener, free_address};

/// Why we do otherwise, by script.
const REASONS: [(&str, &str); 16] = [
    ("age", "it reads no Age and no Date and sends no Age: an answer would live twice as long"),
    ("cache-control-syntax", "it searches the field for words; we parse the list that it is"),
    ("cache-status", "RFC 9211 is unknown to it"),
    ("conditional", "it drops conditions on what is not stored and answers If-Match by itself"),
    ("errors", "RFC 9209 is unknown to it"),
    ("freshness", "it holds Expires against its own clock and reads dates loosely"),
    ("head", "it fetches a HEAD as GET"),
    ("hops", "it writes no Via, leaves fields of one hop, passes no 1xx answers and no trailers"),
    ("invalidation", "an unsafe method leaves what it has stored"),
    ("request-directives", "it heeds none of them unless configured to"),
    ("stale", "its configuration alone decides; the directives of origin and client do not"),
    ("status", "it makes no guesses, and stores any status that has a lifetime"),
    ("storing", "it stores nothing with Set-Cookie and shares answers to Authorization"),
    ("targeted", "RFC 9213 is unknown to it"),
    ("validation", "a 304 renews its lifetime and none of the stored fields"),
    ("vary", "it compares values byte by byte"),
];

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
fn nginx_differs_where_we_have_a_reason() {
    if std::env::var("LARDER_DIFFERENTIAL").as_deref() != Ok("nginx") {
        eprintln!("SKIPPED: nothing is compared with nginx unless LARDER_DIFFERENTIAL=nginx");
        return;
    }
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
    let proxies = Proxies { reverse: listen, forward: None, rules: None };
    let failures = play_all(&tests, &origin, &proxies);
    // SIGKILL would leave its worker behind.
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-QUIT", &pid]).status();
    let _ = child.wait();
    eprintln!("nginx does otherwise in {} of {} tests:\n", failures.len(), tests.len());
    for failure in failures {
        let script = failure.place.file.trim_end_matches(".http");
        let reason = REASONS.iter().find(|(name, _)| *name == script);
        let (_, reason) = reason.unwrap_or_else(|| panic!("without a reason: {failure}"));
        eprintln!("{failure}\n  we: {reason}\n");
    }
}
