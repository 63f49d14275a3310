//! The configurations under which programs are compared.

use std::path::Path;

/// A configuration.
pub struct Configuration {
    /// Name in reports and in the table of intended differences.
    pub name: &'static str,
    /// Text of the configuration file.
    pub text: String,
    /// True if an access log is written.
    pub logs: bool,
}

/// One worker, so that each request meets the state that the previous one left.
const BASE: &str = "workers = 1\n";

/// A rule that matches no request.
const NO_MATCH: &str = "[[rule]]\npaths = [\"/never/*\"]\nttl = \"1h\"\n";

/// Rules that match some of the pages.
const MATCHES: &str = r#"
[purge]
pass-tags = true

[[rule]]
paths = ["/plain"]
headers = ["Cookie: *session=*"]
bypass = true

[[rule]]
paths = ["/plain", "/type"]
request-set = ["X-Asked: yes"]
request-remove = ["Cookie", "User-Agent"]
answer-set = ["X-Answered: yes"]
answer-remove = ["ETag"]

[[rule]]
paths = ["/many"]
query-drop = ["chunks"]
request-remove = ["Accept"]

[[rule]]
paths = ["/varies", "/coded"]
key-headers = ["X-Any"]
key-languages = ["en", "de"]

[[rule]]
paths = ["/stale", "/private"]
ttl = "1h"
answer-remove = ["Cache-Control"]

[[rule]]
paths = ["/missing"]
ttl = ["404 1m"]
answer-max = "100"

[[access]]
action = "deny"
methods = ["DELETE"]
"#;

const TRUST: &str = "[forwarded]\ntrust = [\"127.0.0.0/8\"]\n\
                     trust-fields = [\"X-Forwarded-For\", \"X-Forwarded-Proto\", \
                     \"X-Forwarded-Host\", \"Forwarded\"]\n";

const FLEET: &str = "[fleet]\nlisten = \"{BETWEEN}\"\nnode = \"a\"\n";

/// Returns all configurations. `files` is a directory of files that a site serves.
pub fn all(files: &Path) -> Vec<Configuration> {
    let site = format!("[[site]]\nhosts = [\"files.test\"]\nroot = {:?}\n", files.display());
    let http2 = "[[listener]]\naddress = \"{FRONT}\"\nh2c = true\n";
    let of = |name, text: &str| Configuration {
        name,
        text: format!("{BASE}{text}"),
        logs: name != "bare",
    };
    vec![
        of("bare", ""),
        of("log", ""),
        of("rule without a match", NO_MATCH),
        of("rules", MATCHES),
        of("trust", TRUST),
        of("site", &site),
        of("fleet", FLEET),
        of("http2", http2),
    ]
}
