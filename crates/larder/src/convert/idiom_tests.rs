//! Idioms that public configurations share: what becomes of them, without a loss.

use crate::convert::dialect::Dialect;

struct Row {
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
    losses: &'static [&'static str],
}

fn check(rows: &[Row]) {
    let zone = "proxy_cache_path /c keys_zone=z:1m inactive=1d;";
    check_as(Dialect::Nginx, &|text| format!("http {{ {zone}\n{text} }}"), rows);
}

fn check_as(dialect: Dialect, whole: &dyn Fn(&str) -> String, rows: &[Row]) {
    for row in rows {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.conf");
        std::fs::write(&path, whole(row.text)).unwrap();
        let mut output = dialect.convert(&path).unwrap();
        let toml = output.finish().unwrap_or_else(|why| panic!("{}: {why}", row.name));
        for text in row.has {
            assert!(toml.contains(text), "{}: expected {text} in\n{toml}", row.name);
        }
        for text in row.lacks {
            assert!(!toml.contains(text), "{}: did not expect {text} in\n{toml}", row.name);
        }
        let losses: Vec<&str> = output.losses().iter().map(|one| one.directive.as_str()).collect();
        assert_eq!(losses, row.losses, "{}\n{toml}", row.name);
    }
}

#[test]
fn settings_without_an_effect_of_their_own_are_no_loss() {
    check(&[
        Row {
            name: "media types, lookups and slices",
            text: "include /nowhere/mime.types; include /nowhere/other.conf;
            server { listen 80; resolver_timeout 2s; proxy_store off;
            location / { slice 1m; proxy_set_header Range $slice_range; proxy_cache z;
            proxy_pass http://a; } }",
            has: &[],
            lacks: &["Range"],
            losses: &["include", "include"],
        },
        Row {
            name: "a time that is not known",
            text: "server { listen 80; location / { add_header X-Time $upstream_response_time;
            add_header X-Other 1; ssl_stapling_verify on; proxy_pass http://a; } }",
            has: &["X-Other: 1"],
            lacks: &["\"X-Time"],
            losses: &[],
        },
        Row {
            name: "Via",
            text: "server { listen 80;
            location / { proxy_hide_header VIA; proxy_hide_header X-A; proxy_pass http://a; } }",
            has: &["hide = [\"via\"]", "client-remove = [\"X-A\"]"],
            lacks: &[],
            losses: &[],
        },
    ]);
}

#[test]
fn files_paths_and_purges_are_taken_over() {
    check(&[
        Row {
            name: "files of the application",
            text: "server { listen 80; location /p/ { internal; alias /srv/; }
            location / { proxy_set_header X-Sendfile-Type X-Accel-Redirect;
            proxy_set_header X-Accel-Mapping /srv/=/p/; proxy_pass http://a; }
            location /get/ { proxy_method GET; proxy_pass_request_body off;
            proxy_pass http://a; } }",
            has: &[
                "request-remove = [\"X-Sendfile-Type\", \"X-Accel-Mapping\"]",
                "allow-methods = [\"GET\", \"HEAD\"]",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "purges",
            text: "server { listen 80; location / { proxy_pass http://a; proxy_cache z;
            proxy_cache_purge PURGE from 127.0.0.1 10.0.0.0/8; http2_max_requests 9; } }",
            has: &["[purge]\nfrom = [\"127.0.0.1\", \"10.0.0.0/8\"]"],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "the path behind a constant",
            text: "server { listen 80; set $s 'https://b.test'; location / { proxy_pass $s$uri; } }",
            has: &["reverse = [\"https://b.test\"]", "remove-query = [\"*\"]"],
            lacks: &["set-path"],
            losses: &[],
        },
        Row {
            name: "a log in several lines",
            text: "log_format main '$status\n  $host'; access_log /var/log/x main;
            server { listen 80; location / { proxy_pass http://a; } }",
            has: &["log-format = \"{status}   {host}\""],
            lacks: &[],
            losses: &[],
        },
    ]);
}

#[test]
fn access_logs_are_those_of_sites_in_one_format() {
    check(&[
        Row {
            name: "a name that nothing asks for",
            text: "log_format main '$remote_user $server_name $upstream_header_time';
            access_log /var/log/x main;
            server { listen 80; location / { auth_basic off; proxy_pass http://a; } }",
            has: &["log-format = \"- {site} {upstream_time}\""],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "fields and states of responses",
            text: "log_format main '$upstream_status $upstream_http_x_a $sent_http_etag';
            access_log /var/log/x main;
            server { listen 80; location / { proxy_pass http://a; } }",
            has: &["log-format = \"{upstream_status} {response.x-a} {response.etag}\""],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "logs of servers",
            text: "access_log /var/log/all;
            server { listen 80 default_server; location / { proxy_pass http://a; } }
            server { listen 80; server_name b; access_log /var/log/b;
            location / { proxy_pass http://b; location /x/ { access_log /var/log/x; } } }
            server { listen 80; server_name c; access_log off;
            location / { proxy_pass http://c; } }",
            has: &[
                "access-log = \"/var/log/all\"\n",
                "access-log = \"/var/log/b\"\n",
                "access-log = \"off\"\n",
            ],
            lacks: &["/var/log/x\"\n"],
            losses: &["access_log"],
        },
        Row {
            name: "a name that is asked for",
            text: "log_format main '$status $remote_user'; access_log /var/log/x main;
            server { listen 80; auth_basic x; auth_basic_user_file /x;
            location / { proxy_pass http://a; } }",
            has: &[],
            lacks: &[],
            losses: &["log_format main", "auth_basic"],
        },
    ]);
}

#[test]
fn a_bypass_for_all_is_one() {
    check(&[
        Row {
            name: "both",
            text: "server { listen 80; proxy_cache z;
            location /a/ { proxy_pass http://a; proxy_cache_bypass 1; proxy_no_cache 0 1; } }",
            has: &["paths = [\"/a/*\"]\nthen = \"continue\"\nbypass = true"],
            lacks: &["refresh"],
            losses: &[],
        },
        Row {
            name: "a new one each time",
            text: "server { listen 80; proxy_cache z;
            location /a/ { proxy_pass http://a; proxy_cache_bypass yes; } }",
            has: &["paths = [\"/a/*\"]\nthen = \"continue\"\nrefresh = true"],
            lacks: &["bypass = true"],
            losses: &[],
        },
        Row {
            name: "never",
            text: "server { listen 80; proxy_cache z;
            location / { proxy_pass http://a; proxy_cache_bypass 0 ''; proxy_no_cache 0; } }",
            has: &[],
            lacks: &["bypass", "refresh", "store = "],
            losses: &[],
        },
        Row {
            name: "a text with a variable",
            text: "server { listen 80; proxy_cache z;
            location / { proxy_pass http://a; proxy_cache_bypass 0$arg_a; } }",
            has: &["bypass = true"],
            lacks: &[],
            losses: &["proxy_cache_bypass 0$arg_a"],
        },
    ]);
}

#[test]
fn without_a_root_there_are_no_files() {
    check(&[
        Row {
            name: "static files that nothing has",
            text: "server { listen 80; location / { proxy_pass http://a; }
            location ~ \\.png$ { expires max; add_header X-A 1 always; access_log off; } }",
            has: &["paths = ['~\\.png$']\nlog-percent = 0\nrespond = \"404 Not Found\"\n\
                 client-set = [\"X-A: 1\"]\n"],
            lacks: &["try-root"],
            losses: &[],
        },
        Row {
            name: "the pages that nginx comes with",
            text: "server { listen 80; server_name a; location /x/ { proxy_pass http://a; }
            location / { expires max; } }",
            has: &["respond = \"404 Not Found\""],
            lacks: &[],
            losses: &["a /"],
        },
        Row {
            name: "something else answers",
            text: "server { listen 80; location / { proxy_pass http://a; }
            location /x/ { content_by_lua_block x; } }",
            has: &["paths = [\"/x/*\"]\nrespond = \"501 "],
            lacks: &[],
            losses: &["content_by_lua_block"],
        },
        Row {
            name: "an application behind no files",
            text: "server { listen 80; server_name a; location / { try_files $uri @app; }
            location @app { proxy_pass http://a; proxy_cache z; } }",
            has: &["reverse = [\"http://a\"]"],
            lacks: &["try-root", "respond"],
            losses: &[],
        },
        Row {
            name: "an application behind a test of files",
            text: "server { listen 80; location / { proxy_pass http://b; }
            location /osm { proxy_set_header X-A 1; proxy_set_header X-B 2; proxy_cache z;
            if (!-f $request_filename) { rewrite ^/osm(/.*)$ $1 break; proxy_pass http://a;
            break; } } }",
            has: &["set-path = \"{capture.1}\"", "upstream = [\"http://a\"]", "X-A: 1", "X-B: 2"],
            lacks: &["try-root"],
            losses: &[],
        },
        Row {
            name: "files in front of an application",
            text: "server { listen 80; root /srv; location / {
            if (!-e $request_filename) { proxy_pass http://a; } } }",
            has: &["try-root = \"/srv\"", "try-files = [\"{path}\", \"{path}/\"]"],
            lacks: &["try-root-only"],
            losses: &[],
        },
        Row {
            name: "files of a path that changes",
            text: "server { listen 80; root /srv; location / {
            if (!-f $request_filename) { rewrite ^/a/(.*)$ /$1 break; proxy_pass http://a; } } }",
            has: &[],
            lacks: &["try-root"],
            losses: &["if (!-f $request_filename)"],
        },
    ]);
}

#[test]
fn files_that_are_kept_are_stored() {
    check(&[
        Row {
            name: "behind files",
            text: "server { listen 80; root /srv; location / { try_files $uri @far; }
            location @far { proxy_store on; proxy_store_access user:rw; proxy_pass http://a; } }",
            has: &[
                "try-root = \"/srv\"",
                "default-ttl = [\"200 3650d\"]\nquery-keep = []\nquery-send = \"all\"",
                "answer-ignore = [\"Cache-Control\", \"Expires\", \"Set-Cookie\", \"Vary\"]",
            ],
            lacks: &["bypass"],
            losses: &[],
        },
        Row {
            name: "where nothing looks for them",
            text: "server { listen 80; location / { proxy_store on; proxy_pass http://a; } }",
            has: &["bypass = true"],
            lacks: &["ttl"],
            losses: &["proxy_store"],
        },
    ]);
}

#[test]
fn a_map_chooses_among_upstream_blocks() {
    check(&[
        Row {
            name: "by a part of the path",
            text: "upstream core { server 10.0.0.1; server 10.0.0.2; }
            upstream extra { server 10.0.0.3; }
            map $request_uri $repo { default ''; ~^/([^/]+)/os/[^/]+ $1; }
            server { listen 80; location ~ \\.zst$ { proxy_cache z; proxy_pass http://$repo; } }",
            has: &[
                "of = \"{uri}\"\nvalues = [\"~^/core/os/[^/]+ => core\", \
                 \"~^/extra/os/[^/]+ => extra\"]",
                "classes = [\"repo=core\"]\nsites = [\"default\"]",
                "upstream = [\"http://10.0.0.3\"]\nset-host = \"extra\"",
                "paths = ['~\\.zst$']\nrespond = \"502 Bad Gateway\"",
            ],
            lacks: &["allowed-hosts"],
            losses: &[],
        },
        Row {
            name: "by a field, beside hosts",
            text: "upstream new { server 10.0.0.1; }
            map $http_x_to $to { default b.test; new new; }
            server { listen 80; location / { proxy_set_header Host $host;
            proxy_pass http://${to}/x$request_uri; } }",
            has: &[
                "classes = [\"to=new\"]\nsites = [\"default\"]\nmax-body = \"1M\"\n\
                 upstream = [\"http://10.0.0.1\"]\nset-path = \"/x{path}\"",
                "upstream = [\"http://b.test\"]",
            ],
            lacks: &["allowed-hosts"],
            losses: &[],
        },
        Row {
            name: "by a part of the path that is also sent",
            text: "upstream core { server 10.0.0.1; }
            map $request_uri $repo { default ''; ~^/([^/]+)/os/[^/]+ $1; }
            server { listen 80; location / { proxy_pass http://$repo;
            proxy_set_header X-Repo $repo; } }",
            has: &[],
            lacks: &["10.0.0.1"],
            losses: &["proxy_pass", "default /"],
        },
        Row {
            name: "or any host that a resolver finds",
            text: "upstream core { server 10.0.0.1; } resolver 10.0.0.9;
            map $request_uri $repo { default ''; ~^/([^/]+)/os/[^/]+ $1; }
            server { listen 80; location / { proxy_pass http://$repo; } }",
            has: &[],
            lacks: &["10.0.0.1"],
            losses: &["proxy_pass", "default /"],
        },
    ]);
}

#[test]
fn two_uses_of_all_locations_are_an_admission() {
    check(&[
        Row {
            name: "all",
            text: "server { listen 80; proxy_cache z; proxy_cache_min_uses 2;
            location / { proxy_pass http://a; }
            location /b/ { proxy_pass http://a; proxy_cache off; proxy_cache_min_uses 1; } }",
            has: &["[store]\nadmission = \"second-hit\""],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "some",
            text: "server { listen 80; proxy_cache z; location / { proxy_pass http://a; }
            location /b/ { proxy_pass http://a; proxy_cache_min_uses 2; } }",
            has: &[],
            lacks: &["[store]"],
            losses: &["proxy_cache_min_uses"],
        },
        Row {
            name: "three",
            text: "server { listen 80; proxy_cache z; proxy_cache_min_uses 3;
            location / { proxy_pass http://a; } }",
            has: &[],
            lacks: &["[store]"],
            losses: &["proxy_cache_min_uses"],
        },
    ]);
}

#[test]
fn steps_of_vcl_that_larder_does_by_itself_are_no_loss() {
    let whole = |text: &str| format!("vcl 4.0; backend b {{ .host = \"10.0.0.1\"; }} {text}");
    let rows = [
        Row {
            name: "fields",
            text: "acl p { \"10.0.0.0/8\"; } sub vcl_recv {
            if (req.restarts == 0) { if (req.http.X-Forwarded-For) {
            set req.http.X-Forwarded-For = req.http.X-Forwarded-For + \", \" + client.ip; }
            else { set req.http.X-Forwarded-For = client.ip; } }
            if (req.http.Accept-Encoding) { if (req.url ~ \"\\.gz$\") {
            unset req.http.Accept-Encoding; } else { set req.http.Accept-Encoding = \"gzip\"; } }
            if (req.http.X-A) { unset req.http.X-A; }
            if (req.method == \"PURGE\") { if (client.ip !~ p) { return (synth(405)); }
            return (purge); } if (req.http.Cache-Control ~ \"no-cache\") { ban(req.url); } }
            sub vcl_hit { if (!obj.ttl > 0s) { return (pass); } }
            sub vcl_purge { set req.method = \"GET\"; return (restart); }
            sub vcl_deliver { if (obj.hits > 0) { unset resp.http.Set-Cookie; } }",
            has: &[
                "request-remove = [\"X-A\"]",
                "from = [\"10.0.0.0/8\"]",
                "stale-while-revalidate = \"0s\"",
            ],
            lacks: &["Accept-Encoding: ", "request-remove = [\"Accept"],
            losses: &[],
        },
        Row {
            name: "URLs without parameters",
            text: "sub vcl_recv { set req.url = std.querysort(req.url);
            if (req.url ~ \"(?i)\\.(css|js)(\\?.*)?$\") { unset req.http.Cookie; }
            if (req.url ~ \"^/(a|b)(/.*)?$\") { return (pass); } return (hash); }
            sub vcl_backend_response {
            if (bereq.url ~ \"\\.js$\" || beresp.http.Content-Type ~ \"text\") {
            set beresp.do_gzip = true; }
            if (beresp.http.Pragma ~ \"no-cache\") { set beresp.uncacheable = true;
            return (deliver); } set beresp.grace = 6h; }",
            has: &[
                "paths = ['~(?i)\\.(css|js)$']\nthen = \"continue\"\nrequest-remove = [\"Cookie\"]",
                "paths = [\"~^/(a|b)(/.*)?$\"]\nthen = \"continue\"\nbypass = true",
                "stale-if-error = \"6h\"",
            ],
            lacks: &[],
            losses: &[],
        },
        Row {
            name: "errors that are given up",
            text: "sub vcl_backend_response { if (beresp.status == 500 || beresp.status == 502) {
            return (abandon); } set beresp.grace = 1h; }",
            has: &[
                "error-page = [\"500 503 Service Unavailable\", \"502 503 Service Unavailable\"]",
                "store = false",
            ],
            lacks: &[],
            losses: &[],
        },
    ];
    check_as(Dialect::Vcl, &whole, &rows);
}

#[test]
fn responses_of_other_statuses_are_not_stored() {
    let whole = |text: &str| {
        let backend = "backend default { .host = \"10.0.0.1\"; }";
        format!("vcl 4.0; {backend} sub vcl_backend_response {{ {text} }}")
    };
    let rows = [
        Row {
            name: "than one",
            text: "if (bereq.method == \"POST\" || beresp.status != 200) {
            set beresp.uncacheable = true; return (deliver); }
            if (beresp.status == 500) { set beresp.ttl = 1s; } set beresp.ttl = 1h;
            set beresp.grace = 2h;",
            has: &[
                "methods = [\"POST\"]\nthen = \"continue\"\nstore = false",
                "responses = [{ not-statuses = [\"200\"], store = false }]",
                "responses = [{ statuses = [\"200\"], ttl = \"1h\" }]",
                "stale-while-revalidate = \"2h\"",
            ],
            lacks: &["500", "ttl = \"1s\""],
            losses: &[],
        },
        Row {
            name: "than two",
            text: "if (beresp.status != 200 && beresp.status != 404) {
            set beresp.uncacheable = true; return (deliver); } set beresp.ttl = 1h;
            if (beresp.status == 404) { set beresp.grace = 3h; }",
            has: &["responses = [{ not-statuses = [\"200\", \"404\"], store = false }]"],
            lacks: &[],
            losses: &["set beresp.grace = 3h"],
        },
        Row {
            name: "than those of a class",
            text: "if (beresp.status >= 400) { if (beresp.status == 404) { set beresp.ttl = 9s; }
            if (beresp.status == 200) { set beresp.ttl = 8s; } }",
            has: &["404 9s"],
            lacks: &["8s"],
            losses: &[],
        },
    ];
    check_as(Dialect::Vcl, &whole, &rows);
}
