//! Conversions that must not make a response public, a site open, or an answer wrong.

use crate::convert::dialect::Dialect;
use crate::convert::output::Output;

struct Row {
    name: &'static str,
    dialect: Dialect,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
}

const CACHED: &str = "proxy_pass http://a; proxy_cache z; proxy_cache_valid 200 10m;";

fn converted(row: &Row) -> (String, Output) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.conf");
    let zone = "proxy_cache_path /c keys_zone=z:1m;";
    let text = match row.dialect {
        Dialect::Nginx => format!("{zone}\n{}", row.text.replace("CACHED", CACHED)),
        Dialect::Vcl => {
            format!("vcl 4.0; backend default {{ .host = \"10.0.0.1\"; }}\n{}", row.text)
        }
        Dialect::Squid => row.text.to_owned(),
    };
    std::fs::write(&path, text).unwrap();
    let mut output = row.dialect.convert(&path).unwrap_or_else(|why| panic!("{}: {why}", row.name));
    let toml = output.finish().unwrap_or_else(|why| panic!("{}: {why}", row.name));
    // Comments are no part of what is checked.
    let lines = toml.lines().filter(|line| !line.starts_with('#'));
    (lines.collect::<Vec<_>>().join("\n"), output)
}

fn check(rows: &[Row]) {
    for row in rows {
        let (toml, _) = converted(row);
        for text in row.has {
            assert!(toml.contains(text), "{}: expected {text} in\n{toml}", row.name);
        }
        for text in row.lacks {
            assert!(!toml.contains(text), "{}: unexpected {text} in\n{toml}", row.name);
        }
    }
}

const fn nginx(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Nginx, text, has, lacks }
}

const fn vcl(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Vcl, text, has, lacks }
}

const fn squid(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Squid, text, has, lacks }
}

/// A bypass for all requests of a rule without further conditions.
const ALL_PASS: &str = "then = \"continue\"\nbypass = true";

const NGINX_STORING: &[Row] = &[
    nginx(
        "headers off",
        "server { location / { CACHED proxy_pass_request_headers off; } }",
        &["request-remove = [\"*\"]"],
        &[],
    ),
    nginx(
        "joined variables",
        "server { location / { CACHED proxy_cache_bypass $arg_a$arg_b;
             proxy_no_cache $arg_a$arg_b; } }",
        &["query = [\"a\"]", "query = [\"b\"]"],
        &["$"],
    ),
    nginx(
        "bypasses that store",
        "server { location / { CACHED
             proxy_cache_bypass $arg_nocache $cookie_session $http_authorization; } }",
        &[
            "query = [\"nocache\"]\nthen = \"continue\"\nrefresh = true",
            "{ cookies = [\"session\"] }, { headers = [\"authorization\"] }",
            "bypass = true",
        ],
        &[],
    ),
    nginx(
        "texts of a module",
        "server { location / { CACHED subs_filter a.test b.test; subs_filter x+ y r;
             subs_filter_types application/json; } }",
        &[
            "substitute = [{ from = \"a.test\", to = \"b.test\" }]",
            "substitute-types = [\"application/json\", \"text/html\"]",
        ],
        &["substitute-ignore-case"],
    ),
    nginx(
        "fields of an if",
        "server { location / { CACHED
             if ($arg_a) { add_header X-A 1; }
             if ($cookie_b) { set $c 1; } } }",
        &["query = [\"a\"]\nnot-cookies = [\"b\"]\nthen = \"continue\"\nresponses = "],
        &[],
    ),
    nginx(
        "fields of a location outside of an if",
        "server { location / { CACHED add_header X-B 2;
             if ($arg_a) { add_header X-A 1; }
             if ($cookie_b) { set $c 1; } } }",
        &[
            "any = [{ not-query = [\"a\"] }, { cookies = [\"b\"] }]\nthen = \"continue\"\n\
             responses = ",
            "client-set = [\"X-B: 2\"]",
        ],
        &["not converted", "answer-set"],
    ),
    nginx(
        "servers with settings of their own",
        "upstream two { server 10.0.0.2; server 10.0.0.3; }
         upstream one { server c.test:443; server c.test:443; }
         server { location / { CACHED } location /two/ { proxy_pass http://two; }
             location /also/ { proxy_pass http://two; }
             location /one/ { proxy_pass https://one; proxy_ssl_name c.test; } }",
        &[
            "upstream = [\"http://10.0.0.2\", \"http://10.0.0.3\"]\nmax-fails = 1\n\
             name = \"servers two\"",
            "upstream = [\"servers two\"]",
            "upstream = [\"https://c.test:443\"]",
        ],
        &["not converted", "servers two (2)", "tls-name"],
    ),
    nginx(
        "invalid bypass",
        "server { set $skip 0; if ($http_host = \"a.test:8443\") { set $skip 1; }
             location / { CACHED proxy_cache_bypass $skip; proxy_no_cache $skip; } }",
        &["name = \"default / bypass\"\nthen = \"continue\"\nbypass = true"],
        &["8443"],
    ),
    nginx(
        "two variables",
        "server { set $skip 0; if ($host != $server_name) { set $skip 1; }
             location / { CACHED proxy_cache_bypass $skip; proxy_no_cache $skip; } }",
        &["name = \"default / bypass\"\nthen = \"continue\"\nbypass = true"],
        &["$server_name"],
    ),
    nginx(
        "query in request_uri",
        "server { set $skip 0; if ($request_uri ~* \"preview=true|/cart|\\?s=\") {
             set $skip 1; }
             location / { CACHED proxy_cache_bypass $skip; proxy_no_cache $skip; } }",
        &["urls = ['~(?i)preview=true|/cart|\\?s=']\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
    nginx(
        "x-accel-expires",
        "server { location / { CACHED } }",
        &["targets = [\"x-accel-expires\"]"],
        &[],
    ),
    nginx(
        "x-accel-expires ignored",
        "server { location / { CACHED proxy_ignore_headers X-Accel-Expires; } }",
        &["answer-ignore = [\"X-Accel-Expires\"]"],
        &[],
    ),
    nginx(
        "unknown part of a key",
        "server { location / { CACHED proxy_cache_key $host$request_uri_class; } }",
        &["bypass = true"],
        &[],
    ),
    nginx(
        "map with a default",
        "map $request_method $m { default 1; GET 0; HEAD 0; }
             server { location / { CACHED proxy_cache_bypass $m; proxy_no_cache $m; } }",
        &["not-methods = [\"GET\", \"HEAD\"]"],
        &[],
    ),
    nginx(
        "set back",
        "server { set $skip 1; if ($request_method = GET) { set $skip 0; }
             location / { CACHED proxy_cache_bypass $skip; proxy_no_cache $skip; } }",
        &["not-methods = [\"GET\"]"],
        &[],
    ),
    nginx(
        "nested without cache",
        "server { location / { CACHED location /account/ { proxy_cache off;
             proxy_pass http://a; } } }",
        &["paths = [\"/account/*\"]\nmax-body = \"1M\"\nset-host = \"a\"\nbypass = true"],
        &[],
    ),
];

#[test]
fn nginx_personal_responses_are_not_stored() {
    check(NGINX_STORING);
}

const NGINX_ACCESS: &[Row] = &[
    nginx(
        "any host",
        "server { location / { proxy_pass http://$host; } }",
        &["upstream = [\"http://{host}\"]\nallowed-hosts = [\"not-listed.invalid\"]"],
        &[],
    ),
    nginx(
        "a group as a host",
        "server { server_name a.test; location ~ ^/m/([^/]+)/ { proxy_pass https://$1; } }",
        &["upstream = [\"https://{capture.1}\"]\nallowed-hosts = [\"not-listed.invalid\"]"],
        &[],
    ),
    nginx(
        "a group of another expression as a host",
        "server { location ~ ^/m/([^/]+)/ { if ($uri ~ b(.)) { return 404; }
             proxy_pass http://$1; } }",
        &["respond = \"501 Not converted: proxy_pass\""],
        &["allowed-hosts"],
    ),
    nginx(
        "a field as a host",
        "server { location / { proxy_pass http://$http_x_to; } }",
        &["respond = \"404 Not Found\""],
        &["x-to"],
    ),
    nginx(
        "an address of a map",
        "map $arg_to $to { a 10.0.0.1; b b.test; }
             server { location / { proxy_pass http://$to; } }",
        &["allowed-hosts = [\"b.test\"]"],
        &[],
    ),
        nginx(
            "lookahead",
            "server { server_name x; root /srv; location ~ /\\.(?!wk) { deny all; } location / {
             } }",
            &["paths = ['~/\\.(?:$|[^w]|w(?:$|[^k]))']\ndeny = true"],
            &[],
        ),
        nginx(
            "other lookaround",
            "server { server_name x; root /srv; location ~ ^/(?!a+)x/ { deny all; } location / {
             } }",
            &["paths = [\"~^/x/\"]\nrespond = \"501 "],
            &[],
        ),
        nginx(
            "internal",
            "server { server_name x; location / { proxy_pass http://a; } location /p/ {
             internal; alias /srv/p/; } }",
            &["paths = [\"/p/*\"]\nrespond = \"404 Not Found\""],
            &["/srv/p"],
        ),
        nginx(
            "nested",
            "server { location / { proxy_pass http://a; location /admin/ { allow 10.0.0.0/8;
             deny all; proxy_pass http://a; } } }",
            &["paths = [\"/admin/*\"]\nnot-clients = [\"10.0.0.0/8\"]\ndeny = true"],
            &[],
        ),
        nginx(
            "nested expression",
            "server { server_name x; root /srv; location /a/ { location ~ \\.php$ {
             fastcgi_pass x; } } location /a/b/ { } location / { } }",
            &["not-paths = [\"/a/b/*\"]\nany = [{ paths = [\"/a/*\"] }]\nrespond = \"501 "],
            &[],
        ),
        nginx(
            "client certificates",
            "server { listen 443 ssl; server_name x; ssl_certificate a; ssl_certificate_key b;
             ssl_verify_client on; location / { proxy_pass http://a; } }",
            &["schemes = [\"https\"]\ndeny = true"],
            &[],
        ),
        nginx(
            "local listener",
            "server { listen 80; server_name www.x; location / { proxy_pass http://web; } }
             server { listen 127.0.0.1:8080; server_name localhost; location / { proxy_pass http://admin; } }",
            &["listeners = [\"127.0.0.1:8080\"]\nsites = [\"default\"]",
                "reverse = [\"http://web\"]", "name = \"www.x /\"\nlisteners = [\"80\"]"],
            &[],
        ),
        nginx(
            "lost condition of a refusal",
            "server { location / { if ($http_x != $http_y) { return 403; } proxy_pass http://a;
             } }",
            &["deny = true"],
            &["$http_y"],
        ),
        nginx(
            "values of a map",
            "map $uri $l { /a 1; /b 2; } server { location / { if ($l = 1) { return 403; }
             proxy_pass http://a; } }",
            &["deny = true"],
            &["/b"],
        ),
        nginx(
            "patterns of hosts",
            "server { listen 80; server_name x; location / { proxy_pass http://a; } }
             server { listen 80; server_name *.int.x; allow 10.0.0.0/8; deny all; location / { proxy_pass http://a; } }",
            &["hosts = [\".int.x\"]\nnot-hosts = [\"int.x\"]\nnot-clients = [\"10.0.0.0/8\"]\ndeny = true"],
            &[],
        ),
        nginx(
            "a redirect by wider patterns",
            "server { location / { if ($cookie_a ~ \"^a[0-9]$\") { return 301 /m; }
             proxy_pass http://a; } }",
            &[],
            &["301"],
        ),
        nginx(
            "a text with a newline",
            "server { location = /ok { return 200 \"ok\\n\"; } location / { proxy_pass http://a;
             } }",
            &["respond = \"200 ok\\u000A\""],
            &[],
        ),
        nginx(
            "servers named twice",
            "upstream u { server a:80; server a:80; } server { location / { proxy_pass http://u;
             } }",
            &["reverse = [\"http://a:80\"]"],
            &[],
        ),
        nginx(
            "files below the same root",
            "server { server_name x; root /srv; location / { try_files $uri $uri/ =404; }
             location ~ \\.css$ { expires 1h; } }",
            &["paths = ['~\\.css$']\nstatuses"],
            &["501"],
        ),
];

#[test]
fn nginx_access_stays_controlled() {
    check(NGINX_ACCESS);
}

const VCL_STORING: &[Row] = &[
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
        "a key that cannot be stated",
        "sub vcl_hash { if (req.http.X-A ~ \"(?=x)\") { hash_data(req.http.X-B); } }",
        &["key-headers = [\"X-B\"]"],
        &[],
    ),
];

#[test]
fn vcl_personal_responses_are_not_stored() {
    check(VCL_STORING);
}

const VCL_ACCESS: &[Row] = &[
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
            "headers = [\"X-Token: ~^abc$\", \"!X-Key: ~^a.c\"]\ndeny = true",
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
fn vcl_access_stays_controlled() {
    check(VCL_ACCESS);
}

const NGINX_FILES: &[Row] = &[
    nginx(
        "a directory with programs of the application",
        "server { server_name x; location / { CACHED } location /s/ { root /srv; }
             location ~ \\.php$ { CACHED } }",
        &["paths = ['~\\.php$']", "try-root = \"/srv\"\ntry-root-only = true"],
        &["root = \"/srv\"\n\n", "[[site]]\nname = \"x /s/\""],
    ),
    nginx(
        "a path of the application within a directory",
        "server { server_name x; location / { CACHED } location ^~ /s/ { root /srv; }
             location /s/app/ { CACHED } }",
        &["try-root = \"/srv\"\ntry-root-only = true"],
        &["[[site]]\nname = \"x /s/\""],
    ),
    nginx(
        "denials before files",
        "server { server_name x; root /srv; location / { deny all; try_files $uri @app; }
             location @app { allow all; CACHED } }",
        &["name = \"x / access\"\ndeny = true"],
        &["try-root"],
    ),
    nginx(
        "denials behind files",
        "server { server_name x; root /srv; location / { try_files $uri @app; }
             location @app { deny 10.0.0.0/8; CACHED } }",
        &["clients = [\"10.0.0.0/8\"]\ndeny = true", "try-root"],
        &[],
    ),
    nginx(
        "a denial beside a longer path",
        "server { server_name x; location / { CACHED location ~ \\.sh$ { deny all; }
             location /a/ { CACHED } location ^~ /b/ { CACHED } } location /c/ { CACHED } }",
        &["not-paths = [\"/b/*\", \"/c/*\"]\ndeny = true"],
        &[],
    ),
    nginx(
        "conditions on the path of a front controller",
        "server { server_name x; root /srv; location / { try_files $uri /index.php; }
             location ~ \\.php$ { if ($uri ~ admin) { return 403; } CACHED } }",
        &["try-root-only = true"],
        &["set-path"],
    ),
    nginx(
        "programs among names",
        "server { server_name x; root /srv; index index.php;
             location / { try_files $uri $uri/index.php $uri/ /index.php?$args; }
             location ~ \\.php$ { CACHED } }",
        &["try-files = [\"{path}\", \"{path}/\"]", "index = []", "set-path = \"/index.php\""],
        &["index.php\"]"],
    ),
    nginx(
        "a denial within an expression comes before it",
        "server { server_name x; location / { location ~ ^/up/ { CACHED
             location ~ \\.sh$ { deny all; } } location ~ \\.sh$ { CACHED } } }",
        &["deny = true\n\n[[rule]]\nname = \"x ~ ^/up/\""],
        &[],
    ),
    nginx(
        "a password that a location with files replaces",
        "server { server_name x; root /srv; auth_basic x; auth_basic_user_file /etc/u;
             location /assets/ { auth_basic off; try_files $uri /index.php?$args; }
             location ~ \\.php$ { proxy_pass http://a; } }",
        &["paths = [\"/assets/*\"]\nsites = [\"default\"]\n\
             try-root = \"/srv\"\ntry-root-only = true"],
        &["set-path"],
    ),
    nginx(
        "a denial that a location with files replaces",
        "server { server_name x; root /srv; deny all; location /pub/ { allow all;
             try_files $uri /index.php; } location = /index.php { proxy_pass http://a; } }",
        &["root = \"/srv\"\ndotfiles = true\nsymlinks = \"anywhere\"\n\
             try-files = [\"$uri\", \"=404\"]"],
        &["set-path"],
    ),
    nginx(
        "a denial that files before a named location replace",
        "server { server_name x; root /srv; deny all; location / { allow 10.0.0.0/8; deny all;
             try_files $uri @app; } location @app { proxy_pass http://a; } }",
        &["try-root-only = true"],
        &["set-host"],
    ),
    nginx(
        "a password file of the application",
        "server { server_name x; root /srv; auth_basic x; auth_basic_user_file /a;
             location / { try_files $uri @app; }
             location @app { auth_basic_user_file /b; proxy_pass http://a; } }",
        &["basic-auth = \"@/a\"", "try-root-only = true"],
        &["@/b", "set-host"],
    ),
    nginx(
        "the server's access control before files and application",
        "server { server_name x; root /srv; allow 10.0.0.0/8; deny all;
             location / { try_files $uri @app; } location @app { proxy_pass http://a; } }",
        &["not-clients = [\"10.0.0.0/8\"]\ndeny = true", "set-host = \"a\"", "try-root"],
        &["try-root-only", "access (2)"],
    ),
    nginx(
        "a denial behind the server's files",
        "server { server_name x; root /srv; try_files $uri /index.php;
             location = /index.php { deny 10.0.0.0/8; proxy_pass http://a; } }",
        &["name = \"x rest access\"\nclients = [\"10.0.0.0/8\"]\ndeny = true"],
        &[],
    ),
    nginx(
        "other spellings of a program",
        "server { server_name x; root /srv; proxy_cache z;
             location / { try_files $uri $uri/ /index.php?$args; }
             location ~ \\.php$ { proxy_pass http://a; } }",
        &["paths = ['~\\.php$']\nrespond = \"404 Not Found\"\n\n[[rule]]\nname = \"x /\""],
        &[],
    ),
    nginx(
        "other spellings of a redirected path",
        "server { server_name x; root /srv; location / { }
             location ^~ /a/ { return 302 /; } location /a/b/ { } }",
        &["paths = [\"/a/*\"]\nnot-paths = [\"/a/b/*\"]\nrespond = \"404 Not Found\""],
        &[],
    ),
    nginx(
        "other spellings of a nested program",
        "server { server_name x; location / { CACHED } location /s/ { root /srv;
             location ~ \\.php$ { CACHED } } }",
        &["any = [{ paths = [\"/s/*\"] }]\nrespond = \"404 Not Found\""],
        &[],
    ),
    nginx(
        "spellings of an application that is not stored",
        "server { server_name x; root /srv; location / { try_files $uri /index.php; }
             location ~ \\.php$ { proxy_pass http://a; } }",
        &["paths = ['~\\.php$']\nmax-body = \"1M\"\nset-host = \"a\"\nbypass = true"],
        &["404"],
    ),
    nginx(
        "a denial of a longer path within a final one",
        "server { server_name x; location / { proxy_pass http://a; }
             location ^~ /w/ { location /w/a/ { deny all; } return 301 /; } }",
        &["paths = [\"/w/a/*\"]\ndeny = true\n\n[[rule]]\nname = \"x ^~ /w/ return\""],
        &[],
    ),
    nginx(
        "other spellings of longer paths behind expressions",
        "server { server_name x; root /srv; location / { CACHED } location ^~ /s/ { root /srv; }
             location ^~ /t/ { try_files $uri @app; } location @app { proxy_pass http://a; }
             location /s/app/ { CACHED } location /t/app/ { CACHED } location ~ x { CACHED } }",
        &[
            "not-paths = [\"/s/app/*\"]\nsites = [\"default\"]\n\
             try-files = [\"{path}\", \"{path}/\"]\ntry-root = \"/srv\"\ntry-root-only = true\n\n",
            "respond = \"501 Not converted: try_files\"",
        ],
        &[],
    ),
    nginx(
        "a last name with a password",
        "server { server_name x; root /srv; location / { proxy_pass http://a; }
             location ~ ^/s/ { try_files $uri /fallback.html; }
             location = /fallback.html { auth_basic x; auth_basic_user_file /u; } }",
        &["paths = [\"~^/s/\"]\nsites = [\"default\"]\ntry-root = \"/srv\""],
        &["\"/fallback.html\"]\ntry-root"],
    ),
    nginx(
        "a last name of a site with a denial",
        "server { server_name x; root /srv; location / { try_files $uri /fallback.html; }
             location = /fallback.html { deny all; } }",
        &["try-files = [\"$uri\", \"=404\"]"],
        &[],
    ),
    nginx(
        "a last name of the same directory",
        "server { server_name x; root /srv; location / { try_files $uri /fallback.html; }
             location = /fallback.html { internal; } }",
        &["try-files = [\"$uri\", \"/fallback.html\"]"],
        &[],
    ),
];

#[test]
fn nginx_files_beside_applications_fail_closed() {
    check(NGINX_FILES);
}

const SQUID: &[Row] = &[
    squid(
        "queries",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl QUERY urlpath_regex cgi-bin \\?
             cache deny QUERY",
        &["urls = [\"~cgi-bin\", '~\\?']\nthen = \"continue\"\nbypass = true"],
        &[],
    ),
    squid(
        "lists in files",
        "acl lan src 10.0.0.0/8
             acl blocked dstdomain \"/does/not/exist\"
             http_access deny blocked
             http_access allow lan",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &[],
    ),
    squid(
        "invalid denials",
        "acl lan src 10.0.0.0/8
             acl blocked dstdomain a_b..c
             http_access deny blocked
             http_access allow lan",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &[],
    ),
    squid(
        "comments behind tabs",
        "acl Safe_ports port 80\t\t# http
             acl Safe_ports port 443\t# https
             http_access deny !Safe_ports
             acl lan src 10.0.0.0/8 # lan
             http_access allow lan",
        &["ports = [\"1-79\", \"81-442\", \"444-65535\"]", "clients = [\"10.0.0.0/8\"]"],
        &["http\""],
    ),
    squid(
        "refresh patterns",
        "http_port 3128
             refresh_pattern changelogs.ubuntu.com\\/.* 0 1% 1
             refresh_pattern \\.deb$ 129600 100% 129600
             refresh_pattern . 0 20% 4320
             refresh_pattern \\.rpm$ 129600 100% 129600",
        &["absolute-urls = ['~changelogs.ubuntu.com\\/.*']", "\nurls = ['~\\.deb$']"],
        &["rpm"],
    ),
    squid(
        "refresh patterns in their order",
        "http_port 3128
             refresh_pattern -i tar.gz$ 60 20% 60
             refresh_pattern \\/Release$ 0 0% 0 refresh-ims",
        &[
            "absolute-urls = [\"~(?i)tar.gz$\"]\n",
            "heuristic-without-date = \"1h\"\nrefresh = false",
            "\nurls = ['~\\/Release$']\nheaders = [\"If-Modified-Since\"]",
        ],
        &[],
    ),
    squid(
        "a denial behind a permission",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl free src 10.1.0.0/16
             acl bad url_regex -i gam.ng
             http_access allow free
             http_access deny bad
             http_access allow lan",
        &[
            "not-clients = [\"10.1.0.0/16\"]",
            "absolute-urls = [\"~(?i)gam.ng\"]",
            "[\"10.1.0.0/16\"]\n\n[[access]]\naction = \"deny\"\nmethods = [\"CONNECT\"]",
        ],
        &[],
    ),
    squid(
        "further lists",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl exe rep_mime_type application/x-msdownload
             http_access allow lan
             http_reply_access deny exe",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &[],
    ),
    squid(
        "a further permission",
        "http_port 3128
             acl lan src 10.0.0.0/8
             miss_access deny !lan
             miss_access allow all
             http_access allow all",
        &["[[access]]\naction = \"allow\"\nclients = [\"10.0.0.0/8\"]\n\n[[access]]"],
        &[],
    ),
    squid(
        "an allowed list of URLs",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl good url_regex ^http://good\\.test/
             http_access deny !good
             http_access allow lan",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &[],
    ),
    squid(
        "denials of URLs with a port",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl bad url_regex ^http://bad\\.test:8080/
             http_access deny bad
             http_access allow lan",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &["8080"],
    ),
    squid(
        "denials of all ports",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl bad url_regex ^http://[^/]*:[0-9]+/
             http_access deny bad
             http_access allow lan",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &["[[rule]]"],
    ),
    squid(
        "private pages behind a port",
        "http_port 3128
             acl priv url_regex ^http://intranet\\.test.+/private
             cache deny priv",
        &[ALL_PASS],
        &["urls"],
    ),
    squid(
        "denials of paths that may be hosts",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl ads url_regex /ads
             http_access deny ads
             http_access allow lan",
        &["absolute-urls = [\"~/ads\"]\nthen = \"continue\"\ndeny = true"],
        &["\nurls"],
    ),
    squid(
        "permissions within a list",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl boxes src 10.1.0.0/16 192.168.0.0/16
             acl far src 172.16.0.0/12
             http_access allow boxes
             http_access allow far
             miss_access deny !lan",
        &["clients = [\"10.1.0.0/16\"]\n\n[[access]]\naction = \"deny\""],
        &["192.168", "172.16"],
    ),
    squid(
        "servers by their hosts",
        "http_port 80 accel vhost
             acl www dstdomain www.a.test
             acl api dstdomain api.a.test
             acl late time 10:00-12:00
             cache_peer 10.0.0.1 parent 80 0 no-query originserver name=one
             cache_peer 10.0.0.2 parent 80 0 no-query originserver name=two
             cache_peer 10.0.0.3 parent 80 0 no-query originserver name=three
             cache_peer 10.0.0.4 parent 80 0 no-query originserver name=four
             cache_peer_access one allow www
             cache_peer_access one deny all
             cache_peer_access two allow late
             cache_peer_access two deny www
             cache_peer_access three deny late
             cache_peer_domain four .b.test",
        &[
            "reverse = [\"http://127.0.0.1:9\"]",
            "not-hosts = [\"www.a.test\"]\nthen = \"continue\"\nupstream = [\"http://10.0.0.2:80\"]",
            "\nhosts = [\"www.a.test\"]\nthen = \"continue\"\nupstream = [\"http://10.0.0.1:80\"]",
            "\nhosts = [\".b.test\"]\nthen = \"continue\"\nupstream = [\"http://10.0.0.4:80\"]",
        ],
        &["10.0.0.3"],
    ),
    squid(
        "names of proxies",
        "visible_hostname cache.example.com
             request_header_access Proxy-Connection deny all
             request_header_access User-Agent deny all
             request_header_replace User-Agent Any/1.0",
        &["pseudonym = \"cache\"", "request-set = [\"User-Agent: Any/1.0\"]"],
        &["Proxy-Connection", "501"],
    ),
];

const VCL_BOUNDS: &[Row] = &[
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
           [{ headers = [\"!cache-control: ~private\"], client-set = [\"Cache-Control: no-store\"] }]"],
        &["hide", "X-A"],
    ),
    vcl(
        "hits by their number",
        "sub vcl_deliver { if (resp.http.x-varnish ~ \" \") { set resp.http.X-Debug = \"HIT\";
             set resp.http.X-Grace = req.http.grace; } else { set resp.http.X-Debug = \"MISS\"; } }",
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
fn vcl_bounds_what_is_stored() {
    check(VCL_BOUNDS);
}

#[test]
fn squid_fails_closed() {
    check(SQUID);
}
