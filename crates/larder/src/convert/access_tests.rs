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
    // A rule's .x.test includes x.test, which nginx gives to the default server.
    let texts = [
        "\nhosts = [\"admin.x.test\", \"x.test\"]\ndeny = true",
        "\nnot-hosts = [\".b.x.test\", \".x.test\", \"b.x.test\", ",
        "\nhosts = [\"b.x.test\"]",
        "\nhosts = [\".x.test\"]\nnot-hosts = [\".b.x.test\", \"admin.x.test\", \"x.test\", ",
        "\nhosts = [\".b.x.test\"]\nnot-hosts = [\"b.x.test\"]",
    ];
    assert_order(&toml, &texts);
    let (toml, _) = nginx(
        "server { server_name x.test; deny all; location / { proxy_pass http://a; } }
         server { server_name *.x.test; location / { proxy_pass http://a; } }",
    );
    assert!(toml.contains("\nhosts = [\"x.test\"]\ndeny = true"), "{toml}");
    assert!(toml.contains("\nhosts = [\".x.test\"]\nnot-hosts = [\"x.test\"]"), "{toml}");
}

#[test]
fn hosts_below_a_domain_have_the_site_of_all_hosts() {
    let (toml, _) = nginx(
        "server { server_name admin.x.test; location / { deny all; } }
         server { server_name *.x.test; location / { proxy_pass http://a; } }",
    );
    assert!(toml.contains("reverse = [\"http://a\"]") && !toml.contains("501"), "{toml}");
    let others = "not-hosts = [\".x.test\", \"admin.x.test\", \"x.test\"]\ndeny = true";
    let own = "hosts = [\"admin.x.test\", \"x.test\"]\ndeny = true";
    let texts = [own, others, "hosts = [\".x.test\"]"];
    assert_order(&toml, &texts);
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
        "access_by_lua_block { if a == '}' then -- it's }\n x = [=[}]=] else t = {} end }",
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

#[test]
fn rewrites_lead_into_other_locations_with_their_refusals() {
    let admin = "location /admin/ { deny all; proxy_pass http://a; }";
    let (toml, losses) = nginx(&format!(
        "server {{ server_name x; rewrite ^/panel/(.*)$ /admin/$1 last; {admin}
         location /staff {{ rewrite ^/staff(.*)$ /secure$1 last; }}
         location /secure {{ auth_basic x; auth_basic_user_file u; proxy_pass http://a; }}
         location /en/ {{ rewrite ^/en/(.*)$ /$1; }}
         location / {{ proxy_pass http://a; proxy_cache z; }} }}"
    ));
    assert_order(&toml, &["paths = [\"~^/panel/(.*)$\"]\ndeny = true", "paths = [\"/admin/*\"]"]);
    let texts = [
        "paths = [\"~^/staff(.*)$\"]\nany = [{ paths = [\"/staff*\"] }]\n\
         then = \"continue\"\nbasic",
        "paths = [\"~^/staff(.*)$\"]\nany = [{ paths = [\"/staff*\"] }]\n\
         set-path = \"/secure{capture.1}\"",
    ];
    assert_order(&toml, &texts);
    // The beginning of a path can be put back.
    let texts = [
        "paths = [\"/en/admin/*\"]\nany = [{ paths = [\"/en/*\"] }]\ndeny = true",
        "paths = [\"/en/secure*\"]\nany = [{ paths = [\"/en/*\"] }]\nthen = \"continue\"\nbasic",
        "paths = [\"~^/en/(.*)$\"]\nany = [{ paths = [\"/en/*\"] }]\nset-path",
    ];
    assert_order(&toml, &texts);
    assert!(!losses.iter().any(|loss| loss.starts_with("rewrite to")), "{losses:?}");
    // What cannot be put back is denied.
    let (toml, losses) = nginx(&format!(
        "server {{ {admin} location / {{ rewrite ^(.*)x$ $1y last; proxy_pass http://a; }} }}"
    ));
    assert!(
        toml.contains("any = [{ paths = [\"/admin/*\"] }]\ndeny = true")
            || toml.contains("paths = [\"~^(.*)x$\"]\ndeny = true"),
        "{toml}"
    );
    assert_eq!(losses, ["rewrite to location /admin/"]);
    let (toml, losses) = nginx(
        "server { location /a/ { rewrite ^/a/(.*)$ /b/$1 last; proxy_pass http://a; }
         location /b/ { root /srv; try_files $uri @app; }
         location @app { deny all; proxy_pass http://b; } location / { proxy_pass http://a; } }",
    );
    assert!(toml.contains("any = [{ paths = [\"/a/*\"] }]\ndeny = true"), "{toml}");
    assert_eq!(losses, ["rewrite to location /b/"]);
    // A location without restrictions of its own is left alone.
    let (toml, losses) = nginx(
        "server { location ~ /\\. { deny all; } location /v1/ { rewrite ^/v1/(.*)$ /$1 break;
         proxy_pass http://a; } location / { rewrite ^/v2/(.*)$ /$1 last; proxy_pass http://a; } }",
    );
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(toml.matches("deny").count(), 1, "{toml}");
}

#[test]
fn rewrites_to_programs_do_not_send_their_source() {
    let (toml, _) = nginx(
        "server { root /srv; location /wiki/ { rewrite ^/wiki/(.*)$ /index.php last; }
         location /run/ { rewrite ^/run/(.*)$ /$1.php last; }
         location ~ \\.php$ { proxy_pass http://a; } location / { proxy_pass http://a; } }",
    );
    for paths in ["~^/wiki/(.*)$", "~^/run/(.*)$"] {
        let at = toml.find(&format!("paths = [\"{paths}\"]")).unwrap();
        let rule = toml[at..].split("\n\n").next().unwrap();
        assert!(rule.contains("bypass = true") && !rule.contains("try-root"), "{rule}");
    }
    let (toml, _) = nginx(
        "server { root /srv; location /wiki/ { rewrite ^/wiki/(.*)$ /index.php last; }
         location ~ \\.php$ { fastcgi_pass a; } location / { proxy_pass http://a; } }",
    );
    assert!(toml.contains("paths = [\"/wiki/*\"] }]\nrespond = \"501"), "{toml}");
}

#[test]
fn directories_of_certificate_challenges_leave_the_site_its_servers() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name x; root /srv;
         location /.well-known/acme-challenge/ { allow all; }
         location / { return 301 https://$host$request_uri; } }
         server { listen 8443; server_name x; root /srv; location / { try_files $uri @app; }
         location ~ ^/assets/ { try_files $uri =404; } location @app { proxy_pass http://a; } }",
    );
    assert!(losses.is_empty(), "{losses:?}");
    assert!(toml.contains("reverse = [\"http://a\"]"), "{toml}");
    let texts = [
        "listeners = [\"80\"]\npaths = [\"/.well-known/acme-challenge/*\"]\nsites",
        "try-root = \"/srv\"\ntry-root-only = true",
        "listeners = [\"8443\"]\npaths = [\"~^/assets/\"]",
        "try-root = \"/srv\"\ntry-root-only = true",
        "name = \"x /\"\nlisteners = [\"8443\"]",
        "try-root = \"/srv\"",
    ];
    assert_order(&toml, &texts);
    assert!(!toml.contains("501"), "{toml}");
}

#[test]
fn rewrites_keep_what_the_path_before_them_has() {
    // The expression for programs matches the path before, too, and comes after all rewrites.
    let (toml, losses) = nginx(
        "server { root /srv; rewrite ^/old/(.*)$ /new/$1 last;
         location ~ /\\.ht { deny all; } location ~ \\.php$ { proxy_pass http://a; }
         location / { proxy_pass http://b; } }",
    );
    assert!(losses.is_empty(), "{losses:?}");
    let texts = [
        "paths = [\"~^/old/(.*)$\"]\nany = [{ paths = ['~/\\.ht'] }]\ndeny = true",
        "paths = [\"~^/old/(.*)$\"]\nset-path = \"/new/{capture.1}\"",
        "paths = ['~/\\.ht']\ndeny = true",
    ];
    assert_order(&toml, &texts);
    // A text before or behind the captured part can make a refused path.
    for rewrite in ["^/old/(.*)$ /.$1", "^/old/(.*)$ /a/.h$1", "^/old(.*)$ /$1"] {
        let (toml, losses) = nginx(&format!(
            "server {{ location ~ /\\.ht {{ deny all; }} location / {{ rewrite {rewrite} last;
             proxy_pass http://b; }} }}"
        ));
        assert_eq!(losses, ["rewrite to location /\\.ht"], "{toml}");
        assert_eq!(toml.matches("deny = true").count(), 2, "{toml}");
    }
    for rewrite in ["^/old/(.*)$ /a/$1.css", "^/old(.*)$ $1", "^/old(.*)$ /new$1"] {
        let (toml, losses) = nginx(&format!(
            "server {{ location ~ /\\.ht {{ deny all; }} location / {{ rewrite {rewrite} last;
             proxy_pass http://b; }} }}"
        ));
        assert!(losses.is_empty(), "{losses:?} {toml}");
    }
}
