//! Varnish as nodes that share the documents, by the shard director of `vmod_directors`: every node
//! finds the owner of a document (consistent hashing). It keeps and fetches its own documents;
//! requests for others' it passes to their owners without storing the response.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::load::{NODE, RESULT};
use super::nodes::Place;

/// Time after which a node that missed a probe has been found: two probes.
pub const FOUND: Duration = Duration::from_millis(2_500);

/// Field that marks a request from another node.
const ASKED: &str = "x-asked";

/// Returns the VCL program of the node at `place`.
///
/// * A node that does not respond to a probe or to a request is skipped: the next one on the ring
///   gets the request (`alt`), or is this one.
/// * A node that receives a request from another node serves it, even if it considers a different
///   node the owner.
pub fn program(place: &Place) -> String {
    let (origin, number) = (place.origin, place.number);
    let mut nodes = String::new();
    let mut add = String::new();
    for (at, node) in place.all.iter().enumerate() {
        let (host, port) = (node.front.ip(), node.front.port());
        let _ = writeln!(
            nodes,
            "backend node{at} {{ .host = \"{host}\"; .port = \"{port}\"; .probe = alive; \
             .connect_timeout = 1s; }}"
        );
        let _ = writeln!(add, "nodes.add_backend(node{at});");
    }
    let (host, port) = (origin.ip(), origin.port());
    format!(
        "vcl 4.1;
        import directors;
        probe alive {{
            .request = \"HEAD /probe HTTP/1.1\" \"Host: probe\" \"Connection: close\";
            .interval = 1s; .timeout = 1s; .window = 2; .threshold = 1; .initial = 2;
        }}
        backend origin {{ .host = \"{host}\"; .port = \"{port}\"; }}
        {nodes}
        sub vcl_init {{
            new nodes = directors.shard();
            {add}
            nodes.reconfigure();
        }}
        sub vcl_recv {{
            if (req.url == \"/probe\") {{ return (synth(200)); }}
            if (req.http.{ASKED}) {{
                unset req.http.{ASKED};
                set req.backend_hint = origin;
                return (hash);
            }}
            set req.backend_hint = nodes.backend(by=KEY,
                key=nodes.key(req.http.host + req.url), alt=req.restarts, resolve=NOW);
            if (req.backend_hint == node{number}) {{
                set req.backend_hint = origin;
                return (hash);
            }}
            return (pass);
        }}
        sub vcl_pass {{ set req.http.{ASKED} = \"{number}\"; }}
        sub vcl_hash {{
            hash_data(req.url); hash_data(req.http.host);
            return (lookup);
        }}
        sub vcl_backend_error {{
            if (bereq.http.{ASKED}) {{ return (abandon); }}
        }}
        sub vcl_synth {{
            if (resp.status == 503 && req.restarts < 2) {{
                unset req.http.{ASKED};
                return (restart);
            }}
        }}
        sub vcl_deliver {{
            if (!resp.http.{NODE}) {{
                set resp.http.{NODE} = \"{number}\";
                if (obj.hits > 0) {{ set resp.http.{RESULT} = \"HIT\"; }}
                else {{ set resp.http.{RESULT} = \"MISS\"; }}
            }}
        }}\n"
    )
}

/// Completes the command that starts the node at `place`.
///
/// * The cache is a mapped file: the kernel decides which of its pages are in memory, as with
///   nginx.
/// * `vsl_space` is less than the default of 80 MB, because memory is measured.
/// * `nuke_limit`: this many small documents may be evicted for a large one.
pub fn arguments(place: &Place, directory: &Path, cache: &Path, command: &mut Command) {
    command.args(["-F", "-j", "none", "-n"]).arg(directory.join("work"));
    command.arg("-f").arg(directory.join("node.vcl"));
    command.args(["-i", &format!("node{}", place.number)]);
    command.args(["-a", &place.own().front.to_string()]);
    command.args(["-s", &format!("file,{},{}M", cache.display(), place.cache_mib)]);
    command.args(["-s", "Transient=malloc,16M"]);
    let parameters = [
        "vsl_space=2M",
        "http_gzip_support=off",
        "nuke_limit=1000",
        "timeout_idle=3600",
        "backend_idle_timeout=3600",
        "thread_pools=1",
        "thread_pool_min=100",
    ];
    for parameter in parameters {
        command.args(["-p", parameter]);
    }
}
