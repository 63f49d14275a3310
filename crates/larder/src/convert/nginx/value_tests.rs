//! Conditions on values of the request, and fields with them.

use crate::convert::dialect::Dialect;

struct Row {
    /// The contents of a server.
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
    losses: &'static [&'static str],
}

fn check(rows: &[Row]) {
    for row in rows {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.conf");
        let (maps, server) = row.text.split_once("---").unwrap_or(("", row.text));
        let text = format!("http {{ {maps} server {{ listen 80; {server} }} }}");
        std::fs::write(&path, text).unwrap();
        let mut output = Dialect::Nginx.convert(&path).unwrap();
        let toml = output.finish().unwrap_or_else(|why| panic!("{why}"));
        for text in row.has {
            assert!(toml.contains(text), "{}: expected {text} in\n{toml}", row.text);
        }
        for text in row.lacks {
            assert!(!toml.contains(text), "{}: did not expect {text} in\n{toml}", row.text);
        }
        let losses: Vec<&str> = output.losses().iter().map(|one| one.directive.as_str()).collect();
        assert_eq!(losses, row.losses, "{}\n{toml}", row.text);
    }
}

#[test]
fn fields_of_proxies_in_front_decide_no_refusal() {
    check(&[
        Row {
            text: "if ($http_x_real_ip ~ ^6) { return 403; } location / { proxy_pass http://a; }",
            has: &["name = \"default access\"\ndeny = true"],
            lacks: &["headers"],
            losses: &["$http_x_real_ip", "if ($http_x_real_ip ~ ^6)"],
        },
        Row {
            text: "map $http_cf_connecting_ip $bad { default 0; ~^6 1; } ---
                location / { if ($bad) { return 403; } proxy_pass http://a; }",
            has: &["name = \"default / access\"\ndeny = true"],
            lacks: &["[[class]]"],
            losses: &["$http_cf_connecting_ip", "if ($bad)"],
        },
        Row {
            text: "if ($http_x_forwarded_proto != https) { return 301 https://$host$request_uri; }
                location / { proxy_set_header Host $host;
                  proxy_set_header X-Forwarded-Proto $http_x_forwarded_proto;
                  proxy_set_header X-Forwarded-For \"$http_x_forwarded_for, $remote_addr\";
                  proxy_pass http://a; }",
            has: &["schemes = [\"http\"]\nredirect = \"301 https://{host}{uri}\""],
            lacks: &["request-set"],
            losses: &["$http_x_forwarded_proto"],
        },
        Row {
            text: "map $http_x_forwarded_proto $proto { default $http_x_forwarded_proto;
                  '' $scheme; }
                set_real_ip_from 10.0.0.0/8; --- location / { proxy_set_header Host $host;
                  proxy_set_header X-Proto $proto; proxy_pass http://a; }",
            has: &["request-set = [\"X-Proto: {scheme}\"]", "trust = [\"10.0.0.0/8\"]"],
            lacks: &["[[class]]"],
            losses: &[],
        },
    ]);
}

#[test]
fn empty_values_and_secrets_are_compared_exactly() {
    check(&[
        Row {
            text: "if ($http_apikey = '') { return 401; } if ($http_x_k != aB-1) { return 403; }
                if ($http_x_n != 12) { return 404; } location / { proxy_pass http://a; }",
            has: &[
                "headers = [\"!apikey: ~.\"]\nrespond = \"401",
                "headers = ['!x-k: ~^aB\\-1$']\ndeny",
                "headers = [\"!x-n: 12\"]\nrespond = \"404",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            text: "if ($cookie_sid = '') { return 401; } location / { proxy_pass http://a; }",
            has: &[
                "headers = [\"!Cookie: ~(?:^|[;,] *)(?i:sid) *= *[^; ]\"]\nrespond = \"401",
                "headers = [\"Cookie: ~(?:^|[;,] *)(?i:sid) *= *.*(?:[;,] *)(?i:sid) *= *\"]",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            text: "map $arg_t $no { default 0; '' 1; } ---
                if ($no) { return 401; } if ($arg_k != 'a.b') { return 403; }
                if ($arg_x != '') { return 404; } location / { proxy_pass http://a; }",
            has: &[
                "not-urls = [\"~[?&](?i:t)=[^&]\"]",
                "urls = [\"~[?&](?i:t)=.*&(?i:t)=\"]",
                "not-urls = ['~[?&](?i:k)=a\\.b(?:&|$)']",
                "urls = [\"~[?&](?i:k)=.*&(?i:k)=\"]",
                "\nurls = [\"~[?&](?i:x)=[^&]\"]\nrespond = \"404",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            text: "if ($http_user_agent ~* '^$|wget') { return 403; }
                if ($http_x_v !~ ^v[12]$) { return 404; } location / { proxy_pass http://a; }",
            has: &["user-agent: *wget*", "!x-v: ~^v[12]$\"]\nrespond = \"404", "\"!user-agent\""],
            lacks: &[],
            losses: &[],
        },
    ]);
}

#[test]
fn lost_request_fields_are_not_those_of_clients() {
    check(&[Row {
        text: "location / { proxy_set_header X-Cert $ssl_client_escaped_cert;
              proxy_set_header Via $unknown; proxy_set_header Host $host; proxy_pass http://a; }",
        has: &["request-remove = [\"X-Cert\"]"],
        lacks: &[],
        losses: &["proxy_set_header X-Cert", "proxy_set_header Via"],
    }]);
}

#[test]
fn fields_of_several_directives_are_joined() {
    check(&[
        Row {
            text: "location / { expires 1h; add_header Cache-Control private; proxy_pass http://a;
                add_header Link '</a>'; add_header Set-Cookie a=1; add_header Link '</b>';
                add_header Set-Cookie b=2; }",
            has: &[
                "answer-set = [\"Cache-Control: max-age=3600, private\", \"Link: </a>, </b>\", \
                 \"Set-Cookie: b=2\"]",
            ],
            lacks: &["a=1\""],
            losses: &["add_header Set-Cookie"],
        },
        Row {
            text: "location / { expires 1h; add_header Cache-Control private always;
                proxy_pass http://a; } location = /x { expires 1h; return 200 ok;
                add_header Cache-Control public; }",
            has: &[
                "client-set = [\"Cache-Control: private\"]",
                "client-set = [\"Cache-Control: max-age=3600, private\"] }]",
                "client-set = [\"Cache-Control: max-age=3600, public\"]",
            ],
            lacks: &[],
            losses: &[],
        },
    ]);
}

#[test]
fn media_types_of_locations_are_kept() {
    check(&[
        Row {
            text: "default_type application/x-a; types { text/x-b md; } --- server_name a;
                root /srv; location /raw/ { types { text/plain html txt; image/png png; } }
                location /up/ { types { } default_type application/octet-stream; }
                location / { proxy_pass http://a; }",
            has: &[
                "media-types = [\"md=text/x-b\"]",
                "default-type = \"application/x-a\"",
                "client-set = [\"Content-Type: application/octet-stream\"]",
                "headers = [\"Content-Type: text/html*\"], \
                 client-set = [\"Content-Type: text/plain\"]",
                "headers = [\"!Content-Type: image/png*\", \"!Content-Type: text/html*\", \
                 \"!Content-Type: text/plain*\"], client-set = [\"Content-Type: application/x-a\"]",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            text: "default_type application/octet-stream; --- root /srv;
                location = /a { default_type application/json; return 200 '{}'; }
                location = /b { default_type application/json; }
                location /c/ { default_type text/html; }
                location /d/ { types { } default_type text/plain; autoindex on; }",
            has: &[
                "client-set = [\"Content-Type: application/json\"]\n",
                "headers = [\"Content-Type: application/octet-stream*\"], client-set = \
                 [\"Content-Type: application/json\"]",
            ],
            lacks: &["text/html"],
            losses: &["default_type", "root", "types"],
        },
    ]);
}

#[test]
fn requests_are_counted_once() {
    check(&[
        Row {
            text: "limit_req_zone $remote_addr zone=a:1m rate=6r/m; limit_req_status 429; ---
                root /srv; location / { limit_req zone=a burst=5; try_files $uri @app; }
                location @app { limit_req zone=a burst=5; proxy_pass http://a; }",
            has: &["limit-burst = 5"],
            lacks: &["limit_req (2)", "limit-status"],
            losses: &[],
        },
        Row {
            text: "limit_req_zone $remote_addr zone=a:1m rate=6r/m; limit_req_status 429; ---
                root /srv; location / { try_files $uri @app; }
                location @app { limit_req zone=a; proxy_pass http://a; }",
            has: &["limit-rate"],
            lacks: &["limit-status"],
            losses: &[],
        },
    ]);
}

#[test]
fn redirects_to_the_own_host_keep_its_port() {
    check(&[Row {
        text: "location = /a { return 301 $scheme://$http_host/x; }
            location = /b { return 302 $scheme://$host:$server_port/y?z; }
            location = /c { return 301 $scheme://$http_host$request_uri; }
            location / { proxy_pass http://a; }",
        has: &["\"301 /x\"", "\"302 /y?z\"", "\"301 {scheme}://{host}{uri}\"", "without its port"],
        lacks: &[],
        losses: &[],
    }]);
}

#[test]
fn referers_are_tested_by_expressions() {
    check(&[Row {
        text: "server_name a.test; location / { valid_referers none blocked server_names *.b.test;
            if ($invalid_referer) { return 403; } proxy_pass http://a; }",
        has: &["headers = [\"Referer\", \"Referer: ~(?i)^https?://\", \
             '!Referer: ~(?i)^https?://a\\.test(?:[:/]|$)', \
             '!Referer: ~(?i)^https?://[^/:]+\\.b\\.test(?:[:/]|$)']\ndeny = true"],
        lacks: &[],
        losses: &[],
    }]);
}

#[test]
fn limits_count_by_fields_and_by_maps_with_exceptions() {
    check(&[Row {
        text: "geo $own { default 0; 10.0.0.0/8 1; }
            map $own $key { 0 $binary_remote_addr; 1 ''; }
            limit_req_zone $http_apikey zone=a:1m rate=1r/s;
            limit_req_zone $key zone=b:1m rate=2r/s;
            limit_req_zone $http_x_real_ip zone=c:1m rate=2r/s; ---
            location / { limit_req zone=a; limit_req zone=b; limit_req zone=c;
              proxy_pass http://a; }",
        has: &[
            "headers = [\"apikey: ~.\"]\nthen = \"continue\"\nlimit-by = \"header.apikey\"",
            "classes = [\"own=0\"]\nthen = \"continue\"\nlimit-status",
        ],
        lacks: &["limit-by = \"client\""],
        losses: &["$http_x_real_ip", "limit_req"],
    }]);
}

#[test]
fn responses_are_not_stored_by_their_fields() {
    check(&[Row {
        text: "proxy_cache_path /c keys_zone=z:1m; --- location / { proxy_cache z;
            proxy_no_cache $upstream_http_x_no_cache $arg_n; proxy_pass http://a; }",
        has: &[
            "responses = [{ headers = [\"x-no-cache: ~[^0]|..\"], store = false }]",
            "urls = [\"~[?&](?i:n)=[^&]\"]",
        ],
        lacks: &["\nbypass"],
        losses: &[],
    }]);
}

#[test]
fn fields_by_a_map_of_the_origin_are_rules() {
    check(&[Row {
        text: "map $http_origin $cors { default ''; https://a.test $http_origin;
            ~^https://.*\\.b\\.test$ $http_origin; } ---
            location / { add_header Access-Control-Allow-Origin $cors always;
              add_header Vary Origin; proxy_pass http://a; }",
        has: &[
            "any = [{ headers = [\"origin: https://a.test\"] }, \
             { headers = ['origin: ~^https://.*\\.b\\.test$'] }]",
            "then = \"continue\"\nclient-set = [\"Access-Control-Allow-Origin: {header.origin}\"]",
        ],
        lacks: &[],
        losses: &[],
    }]);
}

#[test]
fn texts_of_named_locations_are_error_pages() {
    check(&[
        Row {
            text: "location / { error_page 502 504 = @down; error_page 404 @none;
              error_page 500 @json; proxy_pass http://a; }
            location @down { return 503 'Back soon'; } location @none { return 410 'Not here'; }
            location @json { default_type application/json; return 500 '{}'; }",
            has: &["error-page = [\"502 503 Back soon\", \"504 503 Back soon\", \"404 Not here\"]"],
            lacks: &["{}"],
            losses: &["location @json", "error_page"],
        },
        Row {
            text: "default_type application/json; --- location @a { return 404 '{}'; }
            location / { error_page 404 @a; proxy_pass http://a; }",
            has: &["error-page = [\"404 {{}}\"]"],
            lacks: &[],
            losses: &["error_page"],
        },
    ]);
}

#[test]
fn refusals_hold_in_either_case_and_for_parts_of_methods() {
    check(&[
        Row {
            text: "if ($request_method ~ ^P) { return 405; } location / { proxy_pass http://a; }",
            has: &["not-methods = [\"GET\", \"HEAD\", \"DELETE\", \"OPTIONS\""],
            lacks: &["\"POST\"", "\nmethods"],
            losses: &["if ($request_method ~ ^P)"],
        },
        Row {
            text: "if ($request_method !~ ^(GET|HEAD)$) { return 405; }
                if ($request_method ~ POST|PUT) { return 403; }
                location / { proxy_pass http://a; }",
            has: &["not-methods = [\"GET\", \"HEAD\"]", "\nmethods = [\"POST\", \"PUT\"]"],
            lacks: &[],
            losses: &[],
        },
        Row {
            text:
                "map $arg_role $d { default 0; admin 1; } map $uri $s { default 0; /secret 1; } ---
                if ($arg_t ~* '^evil$') { return 403; } if ($d) { return 403; }
                if ($s) { return 403; } if ($cookie_role ~* '^guest$') { return 403; }
                location / { proxy_pass http://a; }",
            has: &[
                "urls = [\"~[?&](?i:t)=(?i:evil)(?:&|$)\"]",
                "urls = [\"~[?&](?i:role)=(?i:admin)(?:&|$)\"]",
                "paths = [\"~(?i)^/secret$\"]",
                "headers = [\"Cookie: ~(?:^|[;,] *)(?i:role) *= *(?i:guest)(?:;|$)\"]",
            ],
            lacks: &[],
            losses: &[],
        },
    ]);
}

#[test]
fn refusals_beside_other_acts_and_of_servers_are_refusals() {
    check(&[
        Row {
            text: "if ($args ~ 'token=') { add_header X-Why bad; return 403; }
                location / { proxy_pass http://a; }",
            has: &["query = [\"*token*\"]\ndeny = true"],
            lacks: &["X-Why"],
            losses: &["if ($args ~ token=)"],
        },
        Row {
            text: "if ($remote_addr !~ ^10\\.) { return 503; } location / { proxy_pass http://a; }",
            has: &["name = \"default access\"\ndeny = true"],
            lacks: &[],
            losses: &["if ($remote_addr !~ ^10\\.)"],
        },
        Row {
            text:
                "location /private/ { internal; proxy_pass http://a;
                  location ~ \\.pdf$ { proxy_pass http://a; } } location / { proxy_pass http://a; }",
            has: &["name = 'default ~ \\.pdf$ refused'"],
            lacks: &[],
            losses: &["internal"],
        },
    ]);
}

#[test]
fn an_if_sees_the_values_before_it() {
    check(&[
        Row {
            text: "set $bad 0; if ($http_user_agent ~ evil) { set $bad 1; }
                if ($bad) { return 403; } set $bad 0; location / { proxy_pass http://a; }",
            has: &["headers = [\"user-agent: ~evil\"]\ndeny = true"],
            lacks: &[],
            losses: &[],
        },
        Row {
            text: "set $a 1; if ($http_a) { set $a 0; } if ($a) { return 403; }
                if ($http_b) { set $a 0; } location / { proxy_pass http://a; }",
            has: &["headers = [\"!a: ~.\"]\ndeny = true"],
            lacks: &["b: ~."],
            losses: &[],
        },
    ]);
}

#[test]
fn cookies_are_compared_in_either_case() {
    check(&[Row {
        text: "proxy_cache_path /c keys_zone=z:1m; --- location / { proxy_cache z;
            proxy_cache_key $request_uri$cookie_sid; proxy_cache_bypass $cookie_phpsessid;
            proxy_no_cache $cookie_phpsessid; proxy_pass http://a; }",
        has: &[
            "key-cookies = [\"sid\", \"SID\"]",
            "[\"Cookie: ~(?:^|[;,] *)(?i:sid) *=\", \"!Cookie: ~(?:^|[;,] *)(?:sid|SID) *=\"]",
            "{ headers = [\"Cookie: ~(?:^|[;,] *)(?i:phpsessid) *= *[^; ]\"] }",
        ],
        lacks: &[],
        losses: &[],
    }]);
}

#[test]
fn hosts_of_lost_names_are_denied_where_they_are_restricted() {
    check(&[Row {
        text: "location / { proxy_pass http://a; } }
            server { listen 80; server_name ~^admin\\.; location / { deny all; } }
            server { listen 80; server_name b.test; location / { proxy_pass http://b; }",
        has: &[
            "not-hosts = [\"b.test\"]\ndeny = true",
            "absolute-urls = ['~(?i)^https?://admin\\.']",
        ],
        lacks: &[],
        losses: &["server_name ~^admin\\.", "server_name ~^admin\\.", "server"],
    }]);
}
