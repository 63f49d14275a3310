//! Access control of nginx that must hold for each spelling of a path, host and rewrite.

use crate::convert::dialect::Dialect;

/// Converts servers; returns the result without comments, and the losses.
fn nginx(servers: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.conf");
    let zone = "proxy_cache_path /c keys_zone=z:1m;";
    std::fs::write(&path, format!("http {{ {zone}\n{servers} }}")).unwrap();
    let mut output = Dialect::Nginx.convert(&path).unwrap();
    let toml = output.finish().unwrap_or_else(|why| panic!("{why}"));
    let lines: Vec<&str> = toml.lines().filter(|line| !line.starts_with('#')).collect();
    (lines.join("\n"), output.losses().iter().map(|loss| loss.directive.clone()).collect())
}

/// Asserts that the texts are in the result in this order.
#[track_caller]
fn assert_order(toml: &str, texts: &[&str]) {
    let mut rest = toml;
    for text in texts {
        let at = rest.find(text).unwrap_or_else(|| panic!("expected {text} in order in\n{toml}"));
        rest = &rest[at..];
    }
}

#[test]
fn whole_names_come_before_wildcards() {
    let (toml, _) = nginx(
        "server { server_name admin.x.test; deny all; location / { proxy_pass http://a; } }
         server { server_name *.x.test; location / { proxy_pass http://a; } }
         server { server_name *.b.x.test; location / { proxy_pass http://b; } }",
    );
    assert!(toml.contains("hosts = [\"admin.x.test\"]\ndeny = true"), "{toml}");
    assert!(
        toml.contains("hosts = [\".x.test\"]\nnot-hosts = [\".b.x.test\", \"admin.x.test\"]"),
        "{toml}"
    );
    assert!(toml.contains("not-hosts = [\".b.x.test\", \".x.test\", \"admin.x.test\"]"), "{toml}");
}
