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
fn refusals_of_later_locations_hold_for_all_spellings() {
    let (toml, losses) = nginx(
        "server { server_name x; location /static/ { proxy_pass http://a; }
         location /admin/ { deny all; proxy_pass http://a; } location / { proxy_pass http://a; } }",
    );
    assert!(losses.is_empty(), "{losses:?}");
    let texts = [
        "paths = [\"/static/*\"]\nthen = \"continue\"\nbypass = true",
        "name = \"x /static/\"\npaths = [\"/static/*\"]\nmax-body",
        "paths = [\"/admin/*\"]\ndeny = true",
    ];
    assert_order(&toml, &texts);
    // Without restrictions one rule is enough.
    let (toml, _) = nginx(
        "server { location /static/ { proxy_pass http://a; } location / { proxy_pass http://a; } }",
    );
    assert!(!toml.contains("continue"), "{toml}");
    // A later password replaces an earlier one.
    let (toml, _) = nginx(
        "server { location /a/ { auth_basic a; auth_basic_user_file a; proxy_pass http://a; }
         location /b/ { auth_basic b; auth_basic_user_file b; proxy_pass http://a; }
         location / { proxy_pass http://a; } }",
    );
    let texts = ["paths = [\"/a/*\"]\nrespond = \"404", "paths = [\"/b/*\"]\nthen"];
    assert_order(&toml, &texts);
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

#[test]
fn proxied_directories_without_their_slash_are_redirected() {
    let servers = "server { location /admin/ { deny all; proxy_pass http://a; }
         location /own/ { proxy_pass http://a; } location = /own { proxy_pass http://a; }
         location / { proxy_pass http://a; } }";
    let (toml, _) = nginx(servers);
    let texts = [
        "paths = [\"/admin\"]\nquery = [\"*\"]\nredirect = \"301 /admin/?{query}\"",
        "paths = [\"/admin\"]\nnot-query = [\"*\"]\nredirect = \"301 /admin/\"",
        "paths = [\"/admin\"]\nrespond = \"404",
    ];
    assert_order(&toml, &texts);
    assert!(!toml.contains("301 /own/"), "{toml}");
}

#[test]
fn checks_of_modules_deny_and_firewalls_are_listed() {
    let checks = [
        "auth_jwt x; auth_jwt_key_file k;",
        "auth_ldap x;",
        "auth_gss on;",
        "access_by_lua_file x;",
        "js_access a.b;",
    ];
    for check in checks {
        let (toml, losses) =
            nginx(&format!("server {{ location / {{ {check} proxy_pass http://a; }} }}"));
        assert!(toml.contains("deny = true"), "{check}\n{toml}");
        assert!(check.starts_with(&losses[losses.len() - 1]), "{losses:?}");
    }
    for none in ["auth_jwt off;", "auth_delay 1s;", "modsecurity on;"] {
        let (toml, _) =
            nginx(&format!("server {{ location / {{ {none} proxy_pass http://a; }} }}"));
        assert!(!toml.contains("deny"), "{none}\n{toml}");
    }
    let (_, losses) = nginx("server { modsecurity on; location / { proxy_pass http://a; } }");
    assert_eq!(losses, ["modsecurity"]);
}
