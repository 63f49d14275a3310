//! Refusals and conditions that are lost, in place of which more requests are refused or pass the
//! cache.

use crate::convert::leak_tests::{ALL_PASS, Row, check, nginx, squid, vcl};

const NGINX: &[Row] = &[
    nginx(
        "a redirect",
        "server { location / { if ($geoip_x = y) { return 302 /denied; } proxy_pass http://a; } }",
        &["name = \"default / access\"\ndeny = true"],
        &["302"],
    ),
    nginx(
        "another path",
        "server { location / { if ($geoip_x) { rewrite ^ /denied last; } proxy_pass http://a; } }",
        &["name = \"default / access\"\ndeny = true"],
        &["set-path"],
    ),
    nginx(
        "a rewrite by an expression with a lookahead",
        "server { location / { rewrite ^/(?!pub)a$ /login redirect; proxy_pass http://a; } }",
        &["paths = [\"~^/a$\"]\ndeny = true"],
        &["login"],
    ),
    nginx(
        "a rewrite to an unknown variable",
        "server { location / { rewrite ^/a /$geoip_x redirect; proxy_pass http://a; } }",
        &["paths = [\"~^/a\"]\ndeny = true"],
        &[],
    ),
    nginx(
        "a program before the response",
        "server { location / { rewrite_by_lua_block { ngx.exit(403) } proxy_pass http://a; } }",
        &["name = \"default / access\"\ndeny = true"],
        &[],
    ),
    nginx(
        "a program in place of files",
        "server { server_name x; root /srv; location / { } location /a/ {
             content_by_lua_file a.lua; } }",
        &["paths = [\"/a/*\"]\nrespond = \"501 "],
        &[],
    ),
    nginx(
        "a missing file",
        "server { include /nowhere/deny.conf; location / { proxy_pass http://a; } }",
        &["name = \"default / access\"\ndeny = true"],
        &[],
    ),
    nginx(
        "a missing file of fields",
        "server { include /nowhere/proxy_params; location / { proxy_pass http://a; } }",
        &[],
        &["deny"],
    ),
    nginx(
        "a missing file of a map",
        "map $http_x_a $m { default 0; include /nowhere/m; }
             server { location / { if ($m) { return 403; } proxy_pass http://a; } }",
        &["name = \"default / access\"\ndeny = true"],
        &["[[class]]"],
    ),
    nginx(
        "a parameter in either case",
        "server { location / { if ($arg_debug) { return 403; } proxy_pass http://a; } }",
        &["urls = [\"~[?&](?i:debug)=[^&]\"]\ndeny = true"],
        &["query"],
    ),
    nginx(
        "a key by a field of proxies in front",
        "server { location / { CACHED proxy_cache_key $request_uri$http_x_real_ip; } }",
        &["bypass = true"],
        &["key-headers"],
    ),
    nginx(
        "networks that purge some locations",
        "server { location / { CACHED proxy_cache_purge PURGE from 127.0.0.1 10.0.0.0/8; }
             location /a/ { CACHED proxy_cache_purge PURGE from 127.0.0.1; } }",
        &["[purge]\nfrom = [\"127.0.0.1\"]"],
        &[],
    ),
    nginx(
        "the default server of another port",
        "server { listen 80; listen 81; server_name a.test; location / { proxy_pass http://a; } }
             server { listen 81 default_server; deny all; location / { proxy_pass http://a; } }",
        &[
            "listeners = [\"80\"]\nnot-hosts = [\"a.test\"]",
            "listeners = [\"81\"]\nnot-hosts = [\"a.test\"]\ndeny = true",
        ],
        &[],
    ),
];

#[test]
fn lost_conditions_of_nginx_refuse() {
    check(NGINX);
}

const VCL: &[Row] = &[
    vcl(
        "a refusal of a miss",
        "sub vcl_miss { if (req.http.X-A) { return (synth(403)); } return (fetch); }",
        &["headers = [\"X-A\"]\ndeny = true"],
        &[],
    ),
    vcl(
        "a refusal of a bypass, in a called subroutine",
        "sub vcl_pass { if (req.url ~ \"^/a\") { call no; } }
             sub no { set req.http.X-B = \"1\"; return (synth(404)); }",
        &["paths = [\"~^/a\"]\nrespond = \"404"],
        &["X-B"],
    ),
    vcl(
        "a failure of a fetch",
        "sub vcl_backend_fetch { if (bereq.http.X-A == \"b\") { return (fail); } }",
        &["headers = [\"X-A: ~^b$\"]\nrespond = \"503 Service Unavailable\""],
        &[],
    ),
    vcl(
        "a refusal by what is stored",
        "sub vcl_hit { if (obj.http.X-A) { return (synth(403)); } }",
        &["name = \"lost condition\"\ndeny = true"],
        &[],
    ),
    vcl(
        "a refusal of a response",
        "sub vcl_deliver { if (req.http.X-A && resp.http.X-B) { return (synth(403)); } }",
        &["headers = [\"X-A\"]\nthen = \"continue\"\ndeny = true"],
        &[],
    ),
    vcl(
        "a page in place of an error",
        "sub vcl_deliver { if (resp.status == 500) { return (synth(503, \"Later\")); } }",
        &["error-page = [\"500 503 Later\"]"],
        &["deny"],
    ),
    vcl(
        "a lost condition of a status of its own",
        "sub vcl_recv { if (std.random(0, 2) > 1) { return (synth(750, \"/denied\")); }
             return (hash); } sub vcl_synth { if (resp.status == 750) {
             set resp.http.Location = resp.reason; set resp.status = 302; return (deliver); } }",
        &["name = \"lost condition\"\ndeny = true"],
        &["302"],
    ),
    vcl(
        "a lost condition of a failure",
        "sub vcl_recv { if (std.random(0, 2) > 1) { return (fail); } return (hash); }",
        &["name = \"lost condition\"\ndeny = true"],
        &[],
    ),
    vcl(
        "a key by the client",
        "sub vcl_hash { hash_data(req.http.X-Forwarded-For); }",
        &[ALL_PASS],
        &["key-headers"],
    ),
    vcl(
        "a field that only those who purge send",
        "acl p { \"10.0.0.0\"/8; } sub vcl_recv { if (req.method == \"PURGE\") {
             if (client.ip !~ p) { return (synth(405)); }
             if (!req.http.X-Key) { return (synth(405)); } return (purge); } }",
        // Otherwise purges are passed on.
        &["from = [\"0.0.0.0/32\"]"],
        &["10.0.0.0"],
    ),
];

#[test]
fn lost_conditions_of_vcl_refuse() {
    check(VCL);
}

const SQUID: &[Row] = &[
    squid(
        "what may be cached",
        "acl free urlpath_regex ^/free/
             acl late time 10:00-12:00
             cache allow late
             cache allow free",
        &["not-urls = [\"~^/free/\"]\nthen = \"continue\"\nbypass = true"],
        &["10:00"],
    ),
    squid(
        "what may be sent and stored",
        "acl own urlpath_regex ^/own/
             acl type rep_mime_type text/html
             send_hit deny own
             store_miss deny type",
        &[
            "urls = [\"~^/own/\"]\nthen = \"continue\"\nbypass = true",
            "then = \"continue\"\nstore = false",
        ],
        &[],
    ),
    squid(
        "a missing file",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             include /nowhere/deny.conf
             http_access allow all",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\"", ALL_PASS],
        &[],
    ),
    squid(
        "comments behind spaces before joined lines",
        "  # note \\\nacl bad src \\\n  10.0.0.0/8\nhttp_access deny bad\nhttp_access allow all",
        &["action = \"deny\"\nclients = [\"10.0.0.0/8\"]"],
        &[],
    ),
    squid(
        "proxies in front",
        "acl front src 10.0.0.1
             follow_x_forwarded_for allow front
             follow_x_forwarded_for deny all",
        &["trust = [\"10.0.0.1\"]"],
        &["not converted"],
    ),
    squid(
        "bounds of refresh patterns",
        "refresh_pattern \\.a$ 0 20% 60 reload-into-ims
             refresh_pattern \\.b$ 60 20% 90 override-expire ignore-no-cache
             refresh_pattern . 0 20% 4320",
        &["heuristic-without-date = \"0s\"\nmin-ttl = \"0s\"", "min-ttl = \"1h\""],
        &["not converted"],
    ),
];

#[test]
fn lost_conditions_of_squid_refuse() {
    check(SQUID);
}
