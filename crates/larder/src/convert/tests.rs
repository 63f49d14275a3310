//! Small configurations of each dialect: what becomes of them, and what is lost.

use std::fs;
use std::path::Path;

use crate::convert::dialect::Dialect;
use crate::convert::output::Output;

/// Converts a text, also checked as a configuration of Larder.
fn convert(dialect: Dialect, text: &str) -> (String, Vec<String>) {
    let mut output = read(dialect, text).unwrap_or_else(|why| panic!("{why}"));
    let toml = output.finish().unwrap_or_else(|why| panic!("{why}\n{text}"));
    let losses = output.losses().iter();
    (toml, losses.map(|loss| format!("{}: {}", loss.at.line, loss.directive)).collect())
}

fn read(dialect: Dialect, text: &str) -> Result<Output, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.conf");
    fs::write(&path, text).unwrap();
    dialect.convert(&path)
}

/// Returns the table of the rule or site with a name.
fn table<'a>(toml: &'a str, name: &str) -> &'a str {
    let begin = toml.find(&format!("name = {name}")).unwrap_or_else(|| panic!("{name}: {toml}"));
    toml[begin..].split("\n\n").next().unwrap()
}

fn nginx(server: &str) -> (String, Vec<String>) {
    convert(Dialect::Nginx, &format!("http {{\n{server}\n}}"))
}

#[test]
fn nginx_locations_are_tried_in_its_order() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name a.test;
        location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; }
        location /img/big/ { proxy_pass http://10.0.0.1; proxy_set_header Host $host; }
        location ^~ /img/ { proxy_pass http://10.0.0.1; proxy_set_header Host $host; }
        location ~* \\.png$ { proxy_pass http://10.0.0.1; proxy_set_header Host $host; }
        location = /img/x { return 204; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let is_name = |line: &&str| line.starts_with("name") && !line.contains("slash");
    let names: Vec<&str> = toml.lines().filter(is_name).collect();
    let expected = [
        "name = \"a.test = /img/x return\"",
        "name = \"a.test ^~ /img/\"",
        "name = 'a.test ~* \\.png$'",
        "name = \"a.test /img/big/\"",
        "name = \"a.test /\"",
    ];
    assert_eq!(names, expected);
    assert!(table(&toml, "\"a.test ^~ /img/\"").contains("not-paths = [\"/img/big/*\"]"), "{toml}");
    assert!(toml.contains("paths = ['~(?i)\\.png$']"), "{toml}");
    assert!(toml.contains("reverse = [\"http://10.0.0.1\"]"), "{toml}");
}

#[test]
fn nginx_ignored_headers_decide_nothing_and_reach_clients() {
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m;
        server { listen 80; server_name a.test; location / { proxy_pass http://10.0.0.1;
        proxy_set_header Host $host; proxy_cache z; proxy_cache_valid 200 1h;
        proxy_ignore_headers Cache-Control Expires Set-Cookie Vary X-Accel-Redirect; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let ignored = "answer-ignore = [\"Cache-Control\", \"Expires\", \"Set-Cookie\", \"Vary\"]";
    assert!(toml.contains(ignored), "{toml}");
    assert!(toml.contains("default-ttl = [\"200 1h\"]"), "{toml}");
}

#[test]
fn nginx_servers_at_other_ports_are_told_apart() {
    let (toml, losses) = nginx(
        "server { listen 80; location / { proxy_pass http://10.0.0.1; } }
        server { listen 127.0.0.1:8001; location / { proxy_pass http://10.0.0.2; } }
        server { listen 80; server_name a.test; location / { proxy_pass http://10.0.0.3; } }",
    );
    assert_eq!(losses, ["4: a.test at 127.0.0.1:8001"]);
    for part in [
        "hosts = [\"a.test\"]\nlisteners = [\"127.0.0.1:8001\"]\ndeny = true",
        "listeners = [\"127.0.0.1:8001\"]\nsites = [\"default\"]",
        "listeners = [\"80\"]\nnot-hosts = [\"a.test\"]",
    ] {
        assert!(toml.contains(part), "{part}: {toml}");
    }
}

#[test]
fn nginx_directories_stand_beside_origin_servers() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name a.test; root /srv;
        location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; }
        location ~ ^/assets/ { try_files $uri =404; }
        location = /sw.js { add_header X-A b; try_files $uri =404; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let rule = table(&toml, "\"a.test ~ ^/assets/\"");
    for part in ["try-root = \"/srv\"", "try-root-only = true", "paths = [\"~^/assets/\"]"] {
        assert!(rule.contains(part), "{part}: {toml}");
    }
}

#[test]
fn nginx_texts_of_set_stand_where_they_are_used() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name a.test; set $up http://10.0.0.1:8080; set $n 1;
        location / { proxy_pass $up; proxy_set_header X-N ${n}x; proxy_set_header Host $host;
          proxy_redirect ~https?://b\\.test(/.*) $1; }
        location ~ ^/([^/]+)/os/(.*)$ { set $file $2;
          proxy_pass http://10.0.0.1:8080/core/$file; proxy_set_header Host $host; }
        location ~ ^/if/(.*)$ { set $two $1; if ($uri ~ b(.)) { return 404; }
          proxy_pass http://10.0.0.1:8080/$two; } }",
    );
    assert_eq!(losses, ["7: proxy_pass"]);
    let all = table(&toml, "\"a.test /\"");
    for part in ["X-N: 1x", "\"http://b.test/ /\", \"https://b.test/ /\""] {
        assert!(all.contains(part), "{part}: {toml}");
    }
    let core = table(&toml, "\"a.test ~ ^/([^/]+)/os/(.*)$\"");
    for part in ["set-path = \"/core/{capture.2}\"", "remove-query = [\"*\"]"] {
        assert!(core.contains(part), "{part}: {toml}");
    }
}

#[test]
fn nginx_variables_name_servers() {
    let (toml, losses) = nginx(
        "map $host $to { default $host; a.test b.test:8443; }
        map $host $same { default $host; }
        server { listen 80; server_name a.test c.test;
        location / { proxy_pass https://$to; proxy_ssl_verify on; proxy_set_header Host $host; }
        location /same/ { proxy_pass http://$same:81$request_uri; }
        location /path/ { proxy_pass http://$http_host/x; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let rule = |name: &str| table(&toml, &format!("\"a.test {name}\""));
    for (name, parts) in [
        ("/", &["upstream = [\"https://{class.to}\"]", "allowed-hosts = [\"b.test\"]"][..]),
        (
            "/ otherwise",
            &["classes = [\"to=\"]", "upstream = [\"https://{host}\"]", "\"a.test\", \"c.test\"]"],
        ),
        ("/ otherwise", &["set-host = \"{host}\""]),
        ("/same/", &["upstream = [\"http://{host}:81\"]"]),
        ("/path/", &["upstream = [\"http://{host}\"]", "set-path = \"/x\""]),
    ] {
        for part in parts {
            assert!(rule(name).contains(part), "{name} {part}: {toml}");
        }
    }
}

#[test]
fn nginx_named_groups_are_groups() {
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m;
        server { listen 80; server_name a.test;
        location ~ ^/[(]?(?:x|y)/(\\(.)/(?<to>[a-z.]+)/(?P<file>.*)$ {
          proxy_pass http://${to}.b.test/$file; proxy_cache z; proxy_cache_key $file; } }",
    );
    assert_eq!(losses, ["4: proxy_pass"]);
    for part in ["\"http://{capture.2}.b.test\"", "set-path = \"/{capture.3}\""] {
        assert!(toml.contains(part), "{part}: {toml}");
    }
    assert!(toml.contains("key-path = \"/{capture.3}\""), "{toml}");
    assert!(!toml.contains("bypass"), "{toml}");
}

#[test]
fn nginx_redirects_are_followed_and_loops_refused() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name a.test;
        if ($http_x_by = $hostname) { return 508; }
        location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host;
          proxy_set_header X-By $hostname; proxy_intercept_errors on;
          error_page 301 302 307 = @follow; }
        location @follow { set $to $upstream_http_location; proxy_pass $to; } }",
    );
    assert_eq!(losses, ["6: error_page"]);
    for part in [
        "headers = [\"x-by: {env:HOSTNAME:larder}\"]\nrespond = \"508 Loop Detected\"",
        "request-set = [\"X-By: {env:HOSTNAME:larder}\"]",
        "follow-redirects = 1",
    ] {
        assert!(toml.contains(part), "{part}: {toml}");
    }
}

#[test]
fn nginx_caches_as_told() {
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m max_size=2g inactive=1h;
        map $http_cookie $personal { default 0; ~*session 1; }
        server { server_name a.test; location / {
          proxy_pass http://10.0.0.1; proxy_set_header Host $host; proxy_cache z;
          proxy_cache_valid 200 10m; proxy_cache_valid 404 1m;
          proxy_cache_bypass $personal $arg_preview; proxy_no_cache $personal $arg_preview;
          proxy_cache_use_stale error updating; proxy_cache_key $host$uri$http_x_lang; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let rule = table(&toml, "\"a.test /\"");
    for line in [
        "default-ttl = [\"200 10m\", \"404 1m\"]",
        "stale-when-unreachable = \"1h\"",
        "stale-while-revalidate = \"1h\"",
        "query-keep = []",
        "key-headers = [\"x-lang\"]",
        "max-body = \"1M\"",
    ] {
        assert!(rule.contains(line), "{line}: {rule}");
    }
    let bypass = table(&toml, "\"a.test / bypass\"");
    let any =
        "any = [{ headers = [\"cookie: *session*\"] }, { urls = [\"~[?&](?i:preview)=[^&]\"] }]";
    assert!(bypass.contains(any) && bypass.contains("bypass = true"), "{bypass}");
    assert!(toml.contains("cache-size = \"2G\""), "{toml}");
}

#[test]
fn nginx_what_is_not_cached_passes() {
    let (toml, _) = nginx("server { location / { proxy_pass http://10.0.0.1; } }");
    let rule = table(&toml, "\"default /\"");
    assert!(rule.contains("bypass = true") && rule.contains("set-host = \"10.0.0.1\""), "{rule}");
}

#[test]
fn nginx_lost_conditions_and_users_fail_closed() {
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m;
        server { server_name a.test; root /srv;
        location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; proxy_cache z;
          proxy_cache_bypass $geoip_x; proxy_no_cache $geoip_x; }
        location /users/ { auth_request /x; proxy_pass http://10.0.0.1; }
        location ~ \\.php$ { fastcgi_pass unix:/run/php; } }",
    );
    let expected = ["7: fastcgi_pass", "6: auth_request", "5: proxy_cache_bypass $geoip_x"];
    assert_eq!(losses, expected);
    assert!(table(&toml, "\"a.test / bypass\"").contains("bypass = true"), "{toml}");
    assert!(table(&toml, "\"a.test /users/ access\"").contains("deny = true"), "{toml}");
    assert!(toml.contains("respond = \"501 Not converted: fastcgi_pass\""), "{toml}");
}

#[test]
fn nginx_paths_are_replaced() {
    for (location, pass, expected) in [
        ("/api/", "http://b/v2/", "remove-prefix = \"/api\"\nadd-prefix = \"/v2\""),
        ("/api/", "http://b/", "remove-prefix = \"/api\""),
        ("/api", "http://b/v2", "set-path = \"/v2{capture.1}\""),
        ("= /one", "http://b/two", "set-path = \"/two\""),
    ] {
        let (toml, _) = nginx(&format!(
            "server {{ server_name a.test; location / {{ proxy_pass http://b; }}
             location {location} {{ proxy_pass {pass}; proxy_redirect off; }} }}"
        ));
        let rule = table(&toml, &format!("\"a.test {location}\""));
        assert!(rule.contains(expected), "{location} {pass}: {rule}");
    }
}

#[test]
fn nginx_rewrites_keep_the_query_where_there_is_one() {
    let (toml, losses) = nginx(
        "server { server_name a.test; rewrite ^/old/(.*)$ /new/$1 permanent;
        if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }
        if ($http_user_agent ~* (bot|crawler)) { return 403; }
        location / { proxy_pass http://b; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    for line in [
        "redirect = \"301 /new/{capture.1}?{query}\"",
        "redirect = \"301 /new/{capture.1}\"",
        "not-methods = [\"GET\", \"HEAD\", \"POST\"]",
        "respond = \"405 Method Not Allowed\"",
        "headers = [\"user-agent: *crawler*\"]",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
}

#[test]
fn nginx_unknown_directives_and_allowed_networks() {
    let (toml, losses) = nginx(
        "server { server_name a.test; frobnicate 3;
        location / { proxy_pass http://b; proxy_set_header Host $host; limit_req zone=x;
          deny 10.1.0.0/16; allow 10.0.0.0/8; deny all; } }",
    );
    assert_eq!(losses, ["2: frobnicate", "3: limit_req"]);
    assert!(toml.contains("clients = [\"10.1.0.0/16\"]\ndeny = true"), "{toml}");
    assert!(toml.contains("not-clients = [\"10.0.0.0/8\"]\ndeny = true"), "{toml}");
}

#[test]
fn nginx_files_are_sites() {
    let (toml, losses) = nginx(
        "server { listen 80 default_server; location / { proxy_pass http://b; proxy_set_header Host $host; } }
        server { server_name f.test; root /srv/www; index a.html; error_page 404 /404.html;
        location / { try_files $uri $uri/ =404; }
        location /s/ { alias /srv/s/; autoindex on; expires 1h; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let site = table(&toml, "\"f.test\"");
    assert!(site.contains("try-files = [\"$uri\", \"$uri/\", \"=404\"]"), "{site}");
    assert!(site.contains("error-pages = [\"404=/404.html\"]"), "{site}");
    let site = table(&toml, "\"f.test /s/\"");
    assert!(site.contains("root = \"/srv/s\"\nstrip-prefix = true"), "{site}");
    assert!(toml.contains("answer-set = [\"Cache-Control: max-age=3600\"]"), "{toml}");
}

#[test]
fn nginx_tls_and_redirects_from_http() {
    let (toml, losses) = nginx(
        "server { listen 80; server_name a.test; return 301 https://$host$request_uri; }
        server { listen 443 ssl http2; server_name a.test; ssl_certificate /c.pem;
        ssl_certificate_key /k.pem; location / { proxy_pass http://b; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    assert!(toml.contains("address = \"0.0.0.0:443\"\ntls = true"), "{toml}");
    let rule = table(&toml, "\"a.test return\"");
    assert!(
        rule.contains("schemes = [\"http\"]\nredirect = \"301 https://{host}{uri}\""),
        "{rule}"
    );
    assert!(table(&toml, "\"a.test /\"").contains("schemes = [\"https\"]"), "{toml}");
}

#[test]
fn vcl_is_walked_with_its_conditions() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.1;
        backend default { .host = \"10.0.0.1\"; .port = \"8080\"; }
        acl purgers { \"10.0.0.0\"/8; }
        sub vcl_recv {
          if (req.method == \"PURGE\") {
            if (!client.ip ~ purgers) { return (synth(405)); }
            return (purge);
          }
          if (req.url ~ \"^/admin\" || req.http.X-Preview) { return (pass); }
          unset req.http.Cookie;
        }
        sub vcl_backend_response {
          set beresp.ttl = 1h;
          if (beresp.status == 404) { set beresp.ttl = 10s; }
          set beresp.grace = 6h;
        }
        sub vcl_deliver { unset resp.http.Server; }
        sub vcl_hash { hash_data(req.http.X-Country); }",
    );
    assert_eq!(losses, Vec::<String>::new());
    for text in [
        "reverse = [\"http://10.0.0.1:8080\"]",
        "from = [\"10.0.0.0/8\"]",
        "paths = [\"~^/admin\"]\nthen = \"continue\"\nbypass = true",
        "not-paths = [\"~^/admin\"]\nheaders = [\"!X-Preview\"]\nthen = \"continue\"\n\
         request-remove = [\"Cookie\"]",
        "ttl = [\"404 10s\", \"200 1h\"",
        "stale-while-revalidate = \"6h\"",
        "client-remove = [\"Server\"]",
        "key-headers = [\"X-Country\"]",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
}

#[test]
fn vcl_bans_that_the_purge_dialect_knows() {
    let purging = |body: &str| {
        let acl = "vcl 4.1; backend default { .host = \"10.0.0.1\"; } acl own { \"10.0.0.0\"/8; }";
        convert(Dialect::Vcl, &format!("{acl} sub vcl_recv {{ {body} }}"))
    };
    let (toml, losses) = purging(
        "if (req.method == \"PURGE\") {
          if (client.ip !~ own) { return (synth(405)); }
          if (req.http.X-Magento-Tags-Pattern) {
            ban(\"obj.http.X-Magento-Tags ~ \" + req.http.X-Magento-Tags-Pattern);
          }
          if (req.http.X-Purge-Method == \"regex\") {
            ban(\"req.url ~ \" + req.url + \" && req.http.host == \" + req.http.host);
          }
          return (purge);
        }
        if (req.method == \"BAN\") {
          ban(\"obj.http.x-url ~ \" + req.http.x-url + \" && obj.http.content-type ~ \"
            + req.http.x-content-type + \" && obj.http.Cache-Tags ~ \" + req.http.Cache-Tags);
        }
        if (req.method == \"TAGS\") { ban(\"obj.http.x ~ ;\" + req.http.y + \";\"); }
        if (req.method == \"WIPE\") { ban(\"req.http.host ~ .*\"); }",
    );
    assert_eq!(losses, Vec::<String>::new());
    assert!(toml.contains("from = [\"10.0.0.0/8\"]"), "{toml}");
    assert!(toml.contains("\"BAN=ban\"") && toml.contains("\"WIPE=everything\"]"), "{toml}");
    assert!(toml.contains("\"soft-purge=soft\"") && toml.contains("\"y=regex:x\"]"), "{toml}");
    for ban in ["req.url ~ \" + req.url", "obj.age > 1d\""] {
        let body =
            format!("if (req.method == \"BAN\") {{ if (client.ip ~ own) {{ ban(\"{ban}); }} }}");
        let (_, losses) = purging(&body);
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(losses[0].contains("ban ("), "{losses:?}");
    }
}

#[test]
fn vcl_cookies_and_parameters() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.0; backend b { .host = \"10.0.0.1\"; }
        sub vcl_recv {
          set req.http.Cookie = \";\" + req.http.Cookie;
          set req.http.Cookie = regsuball(req.http.Cookie, \"; +\", \";\");
          set req.http.Cookie = regsuball(req.http.Cookie, \";(sid|lang)=\", \"; \\1=\");
          set req.http.Cookie = regsuball(req.http.Cookie, \";[^ ][^;]*\", \"\");
          set req.http.Cookie = regsuball(req.http.Cookie, \"^[; ]+|[; ]+$\", \"\");
          if (req.http.Cookie == \"\") { unset req.http.Cookie; }
          set req.url = regsuball(req.url, \"[?&](utm_[a-z]+|gclid)=[^&]*\", \"\");
          set req.url = std.querysort(req.url);
          if (req.proto == \"HTTP/1.0\") { return (pass); }
        }",
    );
    assert_eq!(losses, ["11: if ( req.proto == \"HTTP/1.0\" )"]);
    for text in [
        "cookie-keep = [\"sid\", \"lang\"]",
        "query-drop = [\"utm_*\", \"gclid\"]",
        "query-sort = true",
        "cookies = [\"sid\", \"lang\"]",
        "name = \"lost condition\"\nthen = \"continue\"\nbypass = true",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
}

#[test]
fn vcl_tests_of_cookies_follow_their_edits() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.0; backend b { .host = \"10.0.0.1\"; }
        sub vcl_recv {
          if (req.url ~ \"^/static/\") { unset req.http.Cookie; }
          if (req.http.Cookie) {
            set req.http.Cookie = \";\" + req.http.Cookie;
            set req.http.Cookie = regsuball(req.http.Cookie, \"; +\", \";\");
            set req.http.Cookie = regsuball(req.http.Cookie, \";(sid)=\", \"; \\1=\");
            set req.http.Cookie = regsuball(req.http.Cookie, \";[^ ][^;]*\", \"\");
            set req.http.Cookie = regsuball(req.http.Cookie, \"^[; ]+|[; ]+$\", \"\");
            if (req.http.Cookie == \"\") { unset req.http.Cookie; } else { return (pass); }
          }
          if (req.http.X-Kind ~ \"^a[0-9]\\.5$\") { return (pass); }
        }",
    );
    assert_eq!(losses, Vec::<String>::new(), "{toml}");
    for text in [
        "headers = [\"Cookie\"]\nnot-paths = [\"~^/static/\"]\ncookies = [\"sid\"]\n\
         then = \"continue\"\nbypass",
        "headers = ['X-Kind: ~^a[0-9]\\.5$']\nthen = \"continue\"\nbypass",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
}

#[test]
fn vcl_tests_of_urls_follow_their_edits() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.1; backend b { .host = \"10.0.0.1\"; }
        sub vcl_recv {
          if (req.restarts == 0) { set req.http.X-A = \"1\"; }
          if (req.url ~ \"\\.css(\\?|$)\") { set req.url = regsub(req.url, \"\\?.*$\", \"\"); }
          if (req.url ~ \"preview\" || req.url == \"/a?b\") { return (pass); }
          unset req.http.Cookie;
          return (hash);
        }
        sub vcl_backend_response {
          if (beresp.status == 403 || beresp.status >= 500) {
            set beresp.uncacheable = true;
            set beresp.ttl = 2m;
            return (deliver);
          }
          set beresp.grace = 1h;
          set beresp.http.X-Host = bereq.http.host;
        }",
    );
    assert_eq!(losses, Vec::<String>::new(), "{toml}");
    for text in [
        "urls = ['~\\.css(\\?|$)']\npaths = [\"~preview\", '~^/a\\?b$']\n\
         then = \"continue\"\nbypass",
        "not-urls = ['~\\.css(\\?|$)']\nurls = [\"~preview\", '~^/a\\?b$']\nthen = \"continue\"",
        "not-urls = ['~\\.css(\\?|$)', \"~preview\", '~^/a\\?b$']\nthen = \"continue\"\n\
         request-remove = [\"Cookie\"]",
        "ttl = [\"403 0s\", \"5xx 0s\"]",
        "not-statuses = [\"403\"], answer-set = [\"X-Host: {host}\"]",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
    assert!(!toml.contains("403 2m"), "{toml}");
}

#[test]
fn vcl_subroutines_that_do_what_larder_does() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.1; backend b { .host = \"10.0.0.1\"; } acl own { \"10.0.0.0\"/8; }
        sub vcl_recv {
          if (req.method == \"PURGE\") {
            if (client.ip !~ own) { return (synth(405)); }
            return (hash);
          }
          if (req.http.host == \"a.test\") {
            return (synth(720, \"https://www.a.test\" + req.url));
          }
          return (hash);
        }
        sub vcl_hit {
          if (req.method == \"PURGE\") { return (synth(200, \"OK\")); }
          if (obj.ttl >= 0s) { return (deliver); }
          if (std.healthy(req.backend_hint)) {
            if (obj.ttl + 30s > 0s) { return (deliver); } else { return (miss); }
          } else {
            if (obj.ttl + obj.grace > 0s) { return (deliver); }
          }
        }
        sub vcl_miss { return (fetch); }
        sub vcl_pipe { if (req.http.upgrade) { set bereq.http.upgrade = req.http.upgrade; } }
        sub vcl_purge { return (restart); }
        sub vcl_synth {
          if (resp.status == 720) {
            set resp.status = 301;
            set resp.http.Location = resp.reason;
            return (deliver);
          }
          set resp.http.Retry-After = \"5\";
        }
        sub vcl_backend_response { set beresp.grace = 6h; }",
    );
    assert_eq!(losses, ["30: vcl_synth"], "{toml}");
    for text in [
        "redirect = \"301 https://www.a.test{uri}\"",
        "stale-while-revalidate = \"10s\"",
        "stale-while-revalidate = \"30s\"\nstale-if-error = \"6h\"",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
}

#[test]
fn squid_forward_and_reverse() {
    let (toml, losses) = convert(
        Dialect::Squid,
        "http_port 3128
        acl lan src 10.0.0.0/8
        acl SSL_ports port 443
        acl bad dstdomain .ads.example
        acl CONNECT method CONNECT
        http_access deny CONNECT !SSL_ports
        http_access deny bad
        http_access allow lan
        http_access deny all
        cache_mem 256 MB
        cache_dir ufs /c 1024 16 256
        forwarded_for delete
        delay_pools 1
        refresh_pattern . 0 20% 4320",
    );
    assert_eq!(losses, ["13: delay_pools"]);
    for text in [
        "methods = [\"CONNECT\"]\nports = [\"1-442\", \"444-65535\"]",
        "action = \"deny\"\nhosts = [\".ads.example\"]",
        "action = \"allow\"\nclients = [\"10.0.0.0/8\"]",
        "cache-size = \"1G\"",
        "memory = \"256M\"",
        "heuristic-percent = 20",
    ] {
        assert!(toml.contains(text), "{text}: {toml}");
    }
    let (toml, losses) = convert(
        Dialect::Squid,
        "http_port 80 accel defaultsite=a.test
        cache_peer 10.0.0.1 parent 8080 0 no-query originserver
        acl x time 10:00-12:00
        http_access deny x",
    );
    assert_eq!(losses, ["4: http_access deny x"]);
    assert!(toml.contains("reverse = [\"http://10.0.0.1:8080\"]"), "{toml}");
    assert!(toml.contains("[[access]]\naction = \"deny\""), "{toml}");
}

#[test]
fn dialects_are_recognised() {
    for (text, dialect) in [
        ("# x\nuser a;\nhttp {\n}", Some(Dialect::Nginx)),
        ("server { }", Some(Dialect::Nginx)),
        ("vcl 4.0;\n", Some(Dialect::Vcl)),
        ("acl a src 10.0.0.0/8\n", Some(Dialect::Squid)),
        ("listen = 3\n", None),
        ("", None),
    ] {
        assert_eq!(Dialect::of(text), dialect, "{text}");
    }
}

#[test]
fn hostile_files_are_refused() {
    let deep = "location / {".repeat(10_000);
    for text in [
        "http { server { ",
        "}",
        "server { location / { proxy_pass http://a; } } }",
        "server { a \"b",
        "\0server { }",
        &deep,
    ] {
        assert!(read(Dialect::Nginx, text).is_err(), "{:.40}", text);
    }
    let many = format!("vcl 4.0; sub vcl_recv {{ if ({} req.http.a", "(".repeat(100_000));
    let nested = "if (req.http.a) {".repeat(10_000);
    for text in ["sub a {", "/* ", "set a = \"b", "{\"", &many, &nested] {
        assert!(read(Dialect::Vcl, text).is_err(), "{:.40}", text);
    }
    let long = format!("server {{ location / {{ proxy_pass http://{}; }} }}", "a".repeat(10 << 20));
    let mut long = read(Dialect::Nginx, &long).unwrap();
    let _ = long.finish();
    let missing = Dialect::Nginx.convert(Path::new("/does/not/exist"));
    assert!(missing.is_err());
}

#[test]
fn files_that_include_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for (dialect, text) in [
        (Dialect::Nginx, "include b*; server { }"),
        (Dialect::Vcl, "include \"a\";"),
        (Dialect::Squid, "include b"),
    ] {
        fs::write(&path, text).unwrap();
        fs::write(folder.path().join("b"), "include a;\ninclude a\n").unwrap();
        let why = dialect.convert(&path).map(|_| ()).unwrap_err();
        assert!(why.contains("include each other") || why.contains("within"), "{why}");
    }
}

/// Words of all dialects.
const WORDS: &[&str] = &[
    r#"http server location if { } { } ; ; ; ( ) / ~ $ ${ $uri * = ^~ /a é proxy_pass"#,
    r#"http://a/ return 301 rewrite ^/(.*)$ /$1 last map upstream listen 80 server_name _"#,
    r#".a.test proxy_cache proxy_cache_valid any 1m add_header expires deny allow all"#,
    r#"10.0.0.0/8 root try_files alias error_page vcl 4.1 backend sub vcl_recv req.url !~"#,
    r#"&& || ! set unset req.http.Cookie beresp.ttl regsuball , acl call else return pass"#,
    r#"http_access src port 1- refresh_pattern cache_peer 999999999999999999999 -1"#,
    r#"{env:HOME} proxy_set_header Host client_max_body_size"#,
];

/// Words of all dialects in random order must not panic, and what comes out is valid.
#[test]
fn random_words_never_panic() {
    let lines = WORDS.iter().flat_map(|line| line.split(' '));
    let words: Vec<&str> = lines.chain(["\n", "\n", "\"", "'", "\\"]).collect();
    let mut seed: u64 = 7;
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % most
    };
    for round in 0..300 {
        let mut text = String::new();
        if round % 3 == 0 {
            text.push_str("server { location / { ");
        } else if round % 3 == 1 {
            text.push_str("sub vcl_recv { ");
        }
        for _ in 0..next(60) {
            text.push_str(words[next(words.len())]);
            text.push_str([" ", "", " "][next(3)]);
        }
        text.push_str(["", " ; } }", " } "][next(3)]);
        for dialect in [Dialect::Nginx, Dialect::Vcl, Dialect::Squid] {
            if let Ok(mut output) = read(dialect, &text) {
                let _ = output.finish();
            }
        }
    }
}

#[test]
fn nginx_responses_are_changed() {
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m inactive=1h;
        server { server_name a.test; root /srv;
        location / { proxy_pass http://app:8080; proxy_set_header Host $host; proxy_cache z;
          proxy_redirect http://app:8080/ $scheme://$host/; proxy_intercept_errors on;
          error_page 404 =200 /lost.html; error_page 502 504 /50x.html;
          sub_filter 'http://app' 'https://$host'; sub_filter_once off; sub_filter_types text/css;
          proxy_cache_use_stale error http_404 http_503; }
        location = /50x.html { root /pages; } }",
    );
    assert_eq!(losses, Vec::<String>::new(), "{toml}");
    let rule = table(&toml, "\"a.test /\"");
    for line in [
        "location-rewrite = [\"http://app:8080/ {scheme}://{host}/\"]",
        "error-page = [\"404 200 @/srv/lost.html\", \"502 @/pages/50x.html\", \
         \"504 @/pages/50x.html\"]",
        "substitute = [{ from = \"http://app\", to = \"https://{host}\" }]",
        "substitute-ignore-case = true",
        "substitute-types = [\"text/css\", \"text/html\"]",
        "stale-if = [\"unreachable\", \"404\", \"503\"]",
        "stale-if-error = \"1h\"",
    ] {
        assert!(rule.contains(line), "{line}: {rule}");
    }
    let (toml, losses) = nginx(
        "server { location /a/ { proxy_pass http://app/b/; error_page 404 @lost;
        sub_filter a $remote_addr; } }",
    );
    assert_eq!(losses.len(), 2, "{losses:?}");
    assert!(toml.contains("location-rewrite = [\"http://app/b/ /a/\"]"), "{toml}");
    let (toml, losses) = nginx(
        "proxy_cache_path /c keys_zone=z:1m;
        map $sent_http_content_type $expires { default off; text/html epoch; ~image/ max; }
        server { location / { proxy_pass http://app; proxy_set_header Host $host; proxy_cache z;
          expires $expires; } }",
    );
    assert_eq!(losses, Vec::<String>::new(), "{toml}");
    let html =
        "headers = [\"Content-Type: text/html\"], client-set = [\"Cache-Control: no-cache\"] }";
    let image =
        "[\"Content-Type: *image/*\"], client-set = [\"Cache-Control: max-age=315360000\"] }";
    assert!(toml.contains(html) && toml.contains(image), "{toml}");
}

#[test]
fn vcl_conditions_on_responses_become_entries() {
    let (toml, losses) = convert(
        Dialect::Vcl,
        "vcl 4.1;
        backend b { .host = \"10.0.0.1\"; }
        sub vcl_backend_response {
          if (beresp.http.Content-Type ~ \"^image/\") { set beresp.ttl = 1d; }
          if (std.integer(beresp.http.Content-Length, 0) > 1000) { set beresp.uncacheable = true; }
          if (!beresp.http.X-Cache && beresp.status == 404) { unset beresp.http.Set-Cookie; }
          set beresp.http.X-Last = \"1\";
        }
        sub vcl_backend_error { synthetic(\"Sorry\"); return (deliver); }",
    );
    assert_eq!(losses, Vec::<String>::new(), "{toml}");
    for line in [
        "headers = [\"content-type: ~^image/\"], ttl = \"1d\" }]",
        "responses = [{ larger-than = \"1000\", store = false }]",
        "responses = [{ statuses = [\"404\"], headers = [\"!X-Cache\"], \
         answer-remove = [\"Set-Cookie\"] }]",
        "responses = [{ answer-set = [\"X-Last: 1\"] }]",
        "error-page = [\"5xx Sorry\"]",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
}

#[test]
fn nginx_limits_and_passwords_are_rules_that_continue() {
    let (toml, losses) = nginx(
        "limit_req_zone $binary_remote_addr zone=one:10m rate=5r/s;
        limit_conn_zone $server_name zone=all:10m; limit_req_zone $arg_x zone=odd:1m rate=1r/s;
        server { server_name a.test; root /srv; limit_rate 500k; limit_rate_after 1m;
        location / { limit_req zone=one burst=20 delay=8; limit_req_status 429;
          limit_conn all 10; limit_conn_dry_run on; }
        location /b { limit_req zone=one nodelay burst=3; limit_rate 0; }
        location /c { limit_req zone=odd; limit_rate 0; }
        location /d { auth_basic \"Staff only\"; auth_basic_user_file /etc/users; limit_rate 0; }
        }
        server { server_name b.test; auth_basic x; auth_basic_user_file /etc/users;
          location / { proxy_pass http://10.0.0.1; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, ["8: limit_req", "11: auth_basic"]);
    for (name, lines) in [
        (
            "\"a.test / limit_req\"",
            "limit-name = \"one\"\nlimit-rate = \"5/s\"\nlimit-burst = 20\nlimit-queue = 12",
        ),
        (
            "\"a.test / limit_conn\"",
            "limit-by = \"site\"\nlimit-status = 503\nlimit-dry-run = true\n\
             limit-name = \"all\"\nlimit-concurrent = 10",
        ),
        (
            "\"a.test / limit_rate\"",
            "limit-bandwidth = \"500K\"\nlimit-bandwidth-after = \"1M\"\nlimit-by = \"request\"",
        ),
        (
            "\"a.test /b limit_req\"",
            "limit-status = 503\nlimit-name = \"one\"\nlimit-rate = \"5/s\"\nlimit-burst = 3",
        ),
        ("\"a.test /d auth_basic\"", "basic-auth = \"@/etc/users\"\nrealm = \"Staff only\""),
    ] {
        let rule = table(&toml, name);
        assert!(rule.contains(&format!("then = \"continue\"\n{lines}")), "{lines}: {rule}");
    }
}

#[test]
fn nginx_files_come_before_an_application() {
    let (toml, losses) = nginx(
        "server { server_name a.test; root /srv/public;
        location / { try_files $uri @app; }
        location @app { proxy_pass http://b; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let rule = table(&toml, "\"a.test /\"");
    assert!(rule.contains("try-root = \"/srv/public\"") && !rule.contains("respond"), "{toml}");
    assert!(toml.contains("\"http://b\""), "{toml}");
    let (toml, losses) = nginx(
        "server { server_name a.test; root /srv; index index.php index.html;
        location / { try_files $uri $uri/ @app; }
        location @app { proxy_pass http://b; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, ["2: index"]);
    assert!(toml.contains("try-files = [\"{path}\", \"{path}/\"]"), "{toml}");
}

#[test]
fn nginx_files_and_an_application_share_a_server() {
    let (toml, losses) = nginx(
        "server { listen 80; root /srv/app; index index.php index.htm;
        location = / { if ($http_user_agent ~ ^Dav) { return 302 /dav/$is_args$args; } }
        location / { try_files $uri $uri/ /index.php$request_uri; }
        location /plain/ { try_files $uri /index.php?q=$uri; }
        location ~* \\.css$ { expires 1h; }
        location = /logo { alias /srv/logos/one.png; }
        location /media/ { alias /srv/media/; }
        location ~ ^/t/(\\d+)$ { set $z $1; try_files /tiles/$z.png /tiles/0.png =404; }
        location ~ \\.php(?:$|/) { proxy_pass http://127.0.0.1:9; proxy_set_header Host $host; } }",
    );
    assert_eq!(losses, ["2: index"]);
    assert!(toml.contains("reverse = [\"http://127.0.0.1:9\"]"), "{toml}");
    assert!(toml.contains("index = [\"index.htm\"]"), "{toml}");
    for (name, parts) in [
        ("\"default /\"", &["set-path = \"/index.php{path}\"", "[\"{path}\", \"{path}/\"]"][..]),
        ("\"default /plain/\"", &["set-path = \"/index.php\"\nset-query = \"q={path}\""]),
        (
            "'default ~* \\.css$'",
            &["try-root-only = true", "[\"{path}\", \"{path}/\"]", "max-age=3600"],
        ),
        ("\"default = /logo\"", &["try-root = \"/srv/logos\"", "try-files = [\"/one.png\"]"]),
        ("\"default /media/\"", &["\"/srv/media/\"", "[\"/{capture.1}\", \"/{capture.1}/\"]"]),
        ("'default ~ ^/t/(\\d+)$'", &["[\"/tiles/{capture.1}.png\", \"/tiles/0.png\"]"]),
        ("\"default = / return\"", &["query = [\"*\"]\nredirect = \"302 /dav/?{query}\""]),
    ] {
        let rule = table(&toml, name);
        parts.iter().for_each(|part| assert!(rule.contains(part), "{name} {part}: {toml}"));
    }
}

#[test]
fn nginx_files_are_those_of_rewritten_paths() {
    let (toml, losses) = nginx(
        "server { listen 80; root /srv; location / { proxy_pass http://b; proxy_set_header Host $host; }
        location /v/ { rewrite ^/v/(.*)$ /$1 break; }
        location = /one { alias /srv/1; } }",
    );
    assert_eq!(losses, ["3: rewrite"]);
    let rule = table(&toml, "\"default /v/\"");
    assert!(rule.contains("try-root") && !rule.contains("try-files"), "{toml}");
}

#[test]
fn nginx_named_locations_have_the_variables_of_the_location_before_them() {
    let text = "proxy_cache_path /c keys_zone=z:1m;
        server { listen 80; root /srv;
        location ~ ^/t/(\\d+)\\.(png|jpg)$ { set $z $1; set $e $2;
          try_files /t/$z.$e /t/$z.png @tiler; }
        location @tiler { set $to /tiles/$z.$e?url=x&from=$z; proxy_pass http://b$to;
          proxy_set_header Host $host; proxy_cache z; proxy_cache_key $z$e; } OTHER }";
    let (toml, losses) = nginx(&text.replace("OTHER", ""));
    assert_eq!(losses, Vec::<String>::new());
    let rule = table(&toml, "'default ~ ^/t/(\\d+)\\.(png|jpg)$'");
    for part in [
        "try-files = [\"/t/{capture.1}.{capture.2}\", \"/t/{capture.1}.png\"]",
        "set-path = \"/tiles/{capture.1}.{capture.2}\"",
        "set-query = \"url=x&from={capture.1}\"",
        "query-keep = []",
    ] {
        assert!(rule.contains(part), "{part}: {toml}");
    }
    // With two of them, it is not known which one was before.
    let two = text.replace("OTHER", "location ~ ^/u/(.*)$ { try_files $uri @tiler; }");
    let (toml, _) = nginx(&two);
    assert!(!toml.contains("set-path") && toml.contains("501"), "{toml}");
}

#[test]
fn nginx_timeouts_and_next_servers_are_those_of_the_location() {
    let (toml, losses) = nginx(
        "upstream b { server 10.0.0.1; server 10.0.0.2; }
        proxy_read_timeout 30s;
        server { server_name a.test; proxy_set_header Host $host;
        location / { proxy_pass http://b; }
        location /slow/ { proxy_pass http://b; proxy_read_timeout 5m; proxy_connect_timeout 2s; }
        location /mirror/ { proxy_pass http://b; proxy_next_upstream error http_404; } }",
    );
    assert_eq!(losses, Vec::<String>::new());
    let slow = table(&toml, "\"a.test /slow/\"");
    assert!(
        slow.contains("connect-timeout = \"2s\"") || toml.contains("connect-timeout = \"2s\""),
        "{toml}"
    );
    let rest = table(&toml, "\"a.test /\"");
    assert!(rest.contains("head-timeout = \"30s\"\nbody-timeout = \"30s\""), "{toml}");
    let mirror = table(&toml, "\"a.test /mirror/\"");
    assert!(mirror.contains("next-upstream = [\"error\", \"http-404\"]"), "{toml}");
}

#[test]
fn nginx_maps_become_classes() {
    let (toml, losses) = nginx(
        "map $http_user_agent $kind { default web; ~*bot bot; ~Mobile phone; \"\" none; }
        map $kind$arg_v $old { volatile; bot1 1; web1 yes; }
        map $host $name { hostnames; default x; .a.test a; *.b.test b; www.* w; @c c; }
        geo $net { default 0; 10.0.0.0/8 1; 10.1.0.0/16 lab; }
        geo $http_x_net $other { 10.0.0.0/8 1; }
        split_clients \"${remote_addr}AAA\" $variant { 0.5% .one; 20% .two; * \"\"; }
        map $http_x_plan $unused { a b; }
        map $http_x_to $to { default $host; a b; }
        map $request_uri $part { ~^/a a; default b; }
        proxy_cache_path /x keys_zone=z:1m;
        server { listen 80; server_name a.test; location / {
            proxy_pass http://10.0.0.1; proxy_set_header Host $host; proxy_cache z;
            proxy_cache_key $host$request_uri$variant;
            proxy_set_header X-Kind \"$kind:$name\"; add_header X-To $to; add_header X-Part $part;
            proxy_cache_bypass $net $old; proxy_no_cache $net $old;
            if ($kind = phone) { return 302 /m; }
            if ($net ~ ^l) { return 403; }
            if ($part = a) { return 403; } } }",
    );
    for words in [
        "[[class]]\nname = \"kind\"\nof = \"{header.user-agent}\"\nvalues = [\" => none\", \
         \"~*bot => bot\", \"~Mobile => phone\"]\ndefault = \"web\"",
        "name = \"old\"\nof = \"{class.kind}{query.v}\"\nvalues = [\"bot1 => 1\", \"web1 => yes\"]",
        "values = [\"a.test => a\", '~*^\\x40c$ => c', \"*.a.test => a\", \"*.b.test => b\", \
         \"www.* => w\"]",
        "of = \"{client_ip}\"\nvalues = [\"10.0.0.0/8 => 1\", \"10.1.0.0/16 => lab\"]",
        "shares = [\"0.5% => .one\", \"20% => .two\"]",
        "request-set = [\"X-Kind: {class.kind}:{class.name}\"]",
        "key-classes = [\"variant\"]",
        "X-Part: {class.part}",
        "not-classes = [\"net=0\"]",
        "not-classes = [\"old=\"]",
        "classes = [\"kind=phone\"]",
        "classes = [\"net=lab\"]",
    ] {
        assert!(toml.contains(words), "{words}\n{toml}");
    }
    assert!(!toml.contains("unused"), "{toml}");
    let expected = ["6: geo $other", "15: add_header X-To", "19: if ($part = a)"];
    assert_eq!(losses, expected, "{toml}");
}
