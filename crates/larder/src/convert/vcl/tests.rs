//! Conversions of VCL that must not make a response public, a site open, or an answer wrong.

use crate::convert::leak_tests::{ALL_PASS, Row, check, vcl};

const STORING: &[Row] = &[
    vcl(
        "query in a URL",
        "sub vcl_recv { if (req.url ~ \"preview=true\") { return (pass); } return (hash); }",
        &["urls = [\"~preview=true\"]\nthen = \"continue\"\nbypass"],
        &[],
    ),
    vcl(
        "a URL without its parameters",
        "sub vcl_recv { set req.url = regsuball(req.url, \"[?&](utm_[a-z]+)=[^&]*\", \"\");
             if (req.url ~ \"\\.php$\") { return (pass); } return (hash); }",
        // With a parameter that is taken out, all pass.
        &["query = [\"*utm_*\"]\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
    vcl(
        "fields set before",
        "sub vcl_recv { if (req.url ~ \"^/api/\") { set req.http.X-A = \"1\"; }
             if (req.http.X-A) { return (pass); } return (hash); }",
        &["paths = [\"~^/api/\"]\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
    vcl(
        "URL changed before",
        "sub vcl_recv { set req.url = regsub(req.url, \"^/blog\", \"\");
             if (req.url ~ \"^/admin\") { return (pass); } return (hash); }",
        &[ALL_PASS],
        &["/admin"],
    ),
    vcl(
        "negated pattern",
        "sub vcl_recv { if (req.http.Cookie !~ \"^lang=[a-z]{2}$\") { return (pass); }
             unset req.http.Cookie; return (hash); }",
        &["headers = [\"!Cookie: ~^lang=[a-z]{2}$\"]\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
    vcl(
        "cookies removed by a wider pattern",
        "sub vcl_recv { if (req.http.Cookie ~ \"^lang=[a-z][a-z]$\") {
             unset req.http.Cookie; return (hash); } if (req.http.Cookie) { return (pass); }
             return (hash); }",
        &["headers = [\"!Cookie: ~^lang=[a-z][a-z]$\", \"Cookie\"]\nthen = \"continue\"\nbypass"],
        &[],
    ),
    vcl(
        "the query taken away",
        "sub vcl_recv { if (req.url ~ \"\\?(utm_source|gclid)=\") {
             set req.url = regsub(req.url, \"\\?.*$\", \"\"); } return (hash); }",
        &["urls = ['~\\?(utm_source|gclid)=']\nthen = \"continue\"\nquery-keep = []"],
        &[],
    ),
    vcl(
        "lifetimes of what is not stored",
        "sub vcl_backend_response {
             if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.http.Vary == \"*\") {
             set beresp.uncacheable = true; return (deliver); } set beresp.ttl = 1h; }",
        &["default-ttl = [\"200 1h\""],
        &["\nttl"],
    ),
    vcl(
        "surrogates that forbid storing",
        "sub vcl_backend_response { if (beresp.ttl <= 0s
             || beresp.http.Surrogate-Control ~ \"(?i)no-store\"
             || (!beresp.http.Surrogate-Control && beresp.http.Cache-Control ~ \"no-cache\")) {
             set beresp.uncacheable = true; set beresp.ttl = 2m; } }",
        &["responses = [{ headers = [\"surrogate-control: *no-store*\"], store = false }]"],
        &["targets"],
    ),
    vcl(
        "a URL without some parameters",
        "sub vcl_recv { set req.url = std.querysort(req.url);
             if (req.url ~ \"preview=true|xmlrpc.php\") { return (pass); } return (hash); }",
        &["urls = [\"~preview=true|xmlrpc.*php\"]\nthen = \"continue\"\nbypass = true"],
        &["query = "],
    ),
    vcl(
        "cookies removed behind refusals",
        "acl own { \"10.0.0.0\"/8; } sub vcl_recv {
             if (req.url ~ \"^/install\" && !client.ip ~ own) { return (synth(404)); }
             if (req.url ~ \"\\.css$\") { unset req.http.Cookie; }
             if (req.http.Cookie) { return (pass); } return (hash); }",
        &["headers = [\"Cookie\"]\nnot-urls = ['~\\.css$']\nthen = \"continue\"\nbypass = true"],
        &["lost condition", "built-in"],
    ),
    vcl(
        "a key that cannot be stated",
        "sub vcl_hash { if (req.http.X-A ~ \"(?=x)\") { hash_data(req.http.X-B); } }",
        &["key-headers = [\"X-B\"]"],
        &[],
    ),
];

#[test]
fn personal_responses_are_not_stored() {
    check(STORING);
}

const ACCESS: &[Row] = &[
    vcl(
        "negated pattern",
        "sub vcl_recv { if (req.http.X-Key !~ \"^s3cret[0-9]$\") { return (synth(403)); }
             return (hash); }",
        &["headers = [\"!X-Key: ~^s3cret[0-9]$\"]\ndeny = true"],
        &[],
    ),
    vcl(
        "a status without a text",
        "sub vcl_recv { if (req.url ~ \"^/x\") { return (synth(401)); } }",
        &["respond = \"401\""],
        &[],
    ),
    vcl(
        "a ban that is not made",
        "acl p { \"10.0.0.1\"; } sub vcl_recv { if (req.method == \"BAN\") {
             if (client.ip !~ p) { return (synth(403, \"no\")); } ban(\"req.url ~ x\");
             return (synth(200, \"Ban added.\")); } }",
        &["[purge]\nfrom = [\"10.0.0.1\"]"],
        &["Ban added"],
    ),
    vcl(
        "fields of the proxy",
        "sub vcl_deliver { unset resp.http.Via; unset resp.http.X-Varnish;
             unset resp.http.Age; }",
        &["hide = [\"via\"]", "hide = [\"age\"]"],
        &["501"],
    ),
    vcl(
        "texts in their case",
        "sub vcl_recv { if (req.http.X-Token != \"abc\") { return (synth(403)); }
             if (!(req.http.X-Key ~ \"^a.c\")) { return (synth(403)); } }",
        &[
            "headers = [\"!X-Token: ~^abc$\"]\ndeny = true",
            "headers = [\"!X-Key: ~^a.c\"]\ndeny = true",
        ],
        &[],
    ),
    vcl(
        "fields without a text",
        "sub vcl_recv { if (req.http.X-Token == \"\") { return (synth(403)); } }",
        &["headers = [\"!X-Token: ~.\"]\ndeny = true"],
        &[],
    ),
    vcl(
        "backends by the host",
        "backend b { .host = \"10.0.0.2\"; } sub vcl_recv {
             if (req.http.host ~ \"(?i)^api\\.\") { set req.backend_hint = b; } }",
        &[
            "absolute-urls = ['~(?i)^https?://api\\.']\nthen = \"continue\"\nupstream = [\"http://10.0.0.2:80\"]",
        ],
        &[],
    ),
    vcl(
        "a lost part of a refusal",
        "sub vcl_recv { if (req.url ~ \"^/admin\" && req.http.X-A ~ \"(?=x)y\") {
             return (synth(403)); } if (std.random(0, 2) > 1 && (req.url ~ \"^/b\" || req.esi)) {
             return (synth(403)); } }",
        &["paths = [\"~^/admin\"]\ndeny = true", "\"lost condition\"\ndeny = true"],
        &[],
    ),
    vcl(
        "what is behind a refusal",
        "acl own { \"10.0.0.0\"/8; } sub vcl_recv {
             if (req.url ~ \"^/a\" && client.ip !~ own) { return (synth(403)); }
             else if (req.http.X-B) { return (pass); } }",
        &["not-clients = [\"10.0.0.0/8\"]\ndeny = true\n\n[[rule]]\nname = \"pass\"\n\
             headers = [\"X-B\"]\nthen = \"continue\"\nbypass = true"],
        &["not-paths", "\nclients"],
    ),
    vcl(
        "a backend by a lost test of the host",
        "backend b { .host = \"10.0.0.2\"; } sub vcl_recv {
             if (std.healthy(b)) { set req.backend_hint = b; }
             if (req.url ~ \"^/a\" && req.http.host ~ \"(?!x)a\") { set req.backend_hint = b; } }",
        &["paths = [\"~^/a\"]\nthen = \"continue\"\nrespond = \"501 Not converted: backend\""],
        &["10.0.0.2"],
    ),
    vcl(
        "a refusal behind a list with a lost entry",
        "acl own { \"10.0.0.1\"; \"own.test\"; } sub vcl_recv {
             if (req.url ~ \"^/a\" && client.ip ~ own) { set req.http.X-A = \"1\"; return (hash); }
             if (!req.http.X-Token) { return (synth(401)); } }",
        &["not-clients = [\"10.0.0.1\"]\nheaders = [\"!X-Token\"]\nrespond = \"401\""],
        &[],
    ),
    vcl(
        "exceptions of a list",
        "acl own { \"10.0.0.0\"/30; ! \"10.0.0.1\"; } sub vcl_recv {
             if (req.method == \"PURGE\") { if (client.ip !~ own) { return (synth(405)); } }
             if (client.ip !~ own) { return (synth(403)); } }",
        &[
            "from = [\"10.0.0.0\", \"10.0.0.2/31\"]",
            "not-clients = [\"10.0.0.0\", \"10.0.0.2/31\"]\ndeny = true",
        ],
        &[],
    ),
    vcl(
        "lost entries of a list",
        "acl bad { \"bad.test\"; \"10.0.0.1\"; } acl own { \"10.0.0.0\"/8; ! \"bad.test\"; }
             sub vcl_recv { if (req.url ~ \"^/a\" && client.ip ~ bad) { return (synth(403)); }
             if (req.url ~ \"^/b\" && client.ip !~ own) { return (synth(403)); } }",
        &[
            "paths = [\"~^/a\"]\ndeny = true",
            "paths = [\"~^/b\"]\nnot-clients = [\"0.0.0.0/32\"]\ndeny = true",
        ],
        &[],
    ),
    vcl(
        "methods that pass",
        "sub vcl_recv {
             if (req.method != \"GET\" && req.method != \"HEAD\" && req.method != \"POST\") {
             return (pipe); } if (req.method != \"GET\" && req.method != \"HEAD\") {
             return (pass); } return (hash); }",
        &["methods = [\"GET\", \"HEAD\", \"POST\"]\nnot-methods = [\"GET\", \"HEAD\"]\n"],
        &["lost condition"],
    ),
];

#[test]
fn access_stays_controlled() {
    check(ACCESS);
}

const BOUNDS: &[Row] = &[
    vcl(
        "bounds of lifetimes",
        "sub vcl_backend_response {
             if (beresp.ttl < 5m) { set beresp.ttl = 5m; }
             if (beresp.grace < 2m) { set beresp.grace = 2m; } }",
        &["min-ttl = \"5m\"", "stale-while-revalidate = \"2m\""],
        &["lost condition"],
    ),
    vcl(
        "a bound behind what is not stored",
        "sub vcl_backend_response {
             if (beresp.ttl <= 0s) { set beresp.uncacheable = true; return (deliver); }
             if (beresp.ttl < 5m) { set beresp.ttl = 5m; } }",
        &[],
        &["min-ttl"],
    ),
    vcl(
        "large responses are passed",
        "sub vcl_backend_response {
             if (std.integer(beresp.http.Content-Length, 0) > 1000) {
               set beresp.uncacheable = true; return (deliver); }
             set beresp.ttl = 1h; }",
        &["larger-than = \"1000\", store = false"],
        &["lost condition"],
    ),
    vcl(
        "cookies of what is stored",
        "sub vcl_backend_response {
             if (beresp.ttl > 0s && bereq.method == \"GET\") {
               if (bereq.http.Cookie !~ \"a=\" && beresp.http.Set-Cookie ~ \"a=\") {
                 set beresp.ttl = 0s; set beresp.uncacheable = true; }
               unset beresp.http.Set-Cookie; } }",
        &["answer-ignore = [\"Set-Cookie\"]", "headers = [\"!Cookie: ~a=\"]", "store = false"],
        &["answer-remove", "lost condition"],
    ),
    vcl(
        "fields for clients of some responses",
        "sub vcl_deliver {
             if (resp.http.Cache-Control !~ \"private\" && req.url !~ \"^/static/\") {
               set resp.http.Cache-Control = \"no-store\"; }
             if (!resp.http.X-Debug) { unset resp.http.Age; }
             if (resp.http.Cache-Control) { set resp.http.X-A = \"1\"; } }",
        &["not-paths = [\"~^/static/\"]\nthen = \"continue\"\nresponses = \
           [{ headers = [\"!cache-control: ~private\"], \
           client-set = [\"Cache-Control: no-store\"] }]"],
        &["hide", "X-A"],
    ),
    vcl(
        "hits by their number",
        "sub vcl_deliver { if (resp.http.x-varnish ~ \" \") { set resp.http.X-Debug = \"HIT\";
             set resp.http.X-Grace = req.http.grace; } else {
             set resp.http.X-Debug = \"MISS\"; } }",
        &["client-set = [\"X-Debug: {outcome}\"]"],
        &["MISS", "X-Grace"],
    ),
    vcl(
        "a path after an edit, in a bypass",
        "sub vcl_recv { set req.url = regsub(req.url, \"x\", \"y\");
             if (req.http.A && req.url !~ \"/b\") { return (pass); } }",
        &["headers = [\"A\"]\nthen = \"continue\"\nbypass = true"],
        &["lost condition"],
    ),
    vcl(
        "many cookies",
        "sub vcl_recv { if (req.http.Cookie ~ \"aa|bb|cc|dd|ee\") { return (pass); } }",
        &["headers = [\"Cookie: ~aa|bb|cc|dd|ee\"]\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
];

#[test]
fn bounds_what_is_stored() {
    check(BOUNDS);
}

const PURGES: &[Row] = &[
    vcl(
        "refused clients",
        "acl banned { \"10.0.0.0\"/8; } sub vcl_recv { if (req.method == \"PURGE\") {
             if (client.ip ~ banned) { return (synth(405)); } return (purge); } }",
        &[],
        &["10.0.0.0"],
    ),
    vcl(
        "a key beside the list",
        "acl p { \"10.0.0.0\"/8; } sub vcl_recv { if (req.method == \"PURGE\") {
             if (client.ip !~ p || req.http.X-Key != \"secret\") { return (synth(405)); }
             return (purge); } }",
        &[],
        &["10.0.0.0"],
    ),
    vcl(
        "a key behind the list",
        "acl p { \"10.0.0.0\"/8; } sub vcl_recv { if (req.method == \"PURGE\") {
             if (client.ip !~ p) { return (synth(405)); }
             if (req.http.X-Key == \"secret\") { return (purge); } return (synth(405)); } }",
        &[],
        &["10.0.0.0"],
    ),
    vcl(
        "clients in the list",
        "acl p { \"10.0.0.0\"/8; } sub vcl_recv { if (req.method == \"PURGE\") {
             if (client.ip ~ p) { return (purge); } return (synth(405)); } }",
        &["from = [\"10.0.0.0/8\"]"],
        &[],
    ),
];

#[test]
fn purges_are_for_clients_in_the_list_alone() {
    check(PURGES);
}

const FIELDS: &[Row] = &[
    vcl(
        "response fields set before",
        "sub vcl_backend_response { if (bereq.url ~ \"^/p\") { set beresp.http.X-P = \"1\"; }
             if (beresp.http.X-P) { set beresp.uncacheable = true; }
             else { set beresp.ttl = 1h; } }",
        &[ALL_PASS],
        &["responses"],
    ),
    vcl(
        "fields of proxies in front",
        "sub vcl_recv { if (req.http.X-Forwarded-For ~ \"^203\\.\") { return (synth(403)); } }",
        &["deny = true"],
        &["headers = [\"X-Forw", "headers = ['X-Forw"],
    ),
];

#[test]
fn fields_that_are_not_the_messages_own_are_lost() {
    check(FIELDS);
}

const CHECKS: &[Row] = &[
    vcl(
        "cookies removed behind the check",
        "sub vcl_backend_response { if (beresp.http.Set-Cookie) { set beresp.uncacheable = true;
             return (deliver); } unset beresp.http.Set-Cookie; set beresp.ttl = 1h; }",
        &["{ headers = [\"Set-Cookie\"], store = false }"],
        &[],
    ),
    vcl(
        "Cache-Control set behind the check",
        "sub vcl_backend_response { if (beresp.http.Cache-Control ~ \"private\") {
             set beresp.uncacheable = true; return (deliver); } call more; }
             sub more { set beresp.http.Cache-Control = \"public\"; set beresp.ttl = 1h; }",
        &["{ headers = [\"cache-control: ~private\"], store = false }"],
        &[],
    ),
    vcl(
        "Cache-Control removed behind a check of the lifetime",
        "sub vcl_backend_response { if (beresp.ttl <= 0s) { set beresp.uncacheable = true;
             return (deliver); } unset beresp.http.Cache-Control; set beresp.ttl = 1h; }",
        &[
            "{ headers = ['Cache-Control: ~(?i)(?:max-age|s-maxage) *= *\"?0+(?:[^0-9]|$)', \
             '!Cache-Control: ~(?i)s-maxage *= *\"?0*[1-9]'], store = false }",
            "[\"Expires\", \"!Cache-Control: ~(?i)(?:max-age|s-maxage) *=\"], store = false }",
        ],
        &["lost condition"],
    ),
];

#[test]
fn checks_are_stated_if_their_fields_are_edited_behind_them() {
    check(CHECKS);
}
