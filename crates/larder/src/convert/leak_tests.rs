//! Conversions that must not make a response public, a site open, or an answer wrong.

use crate::convert::dialect::Dialect;
use crate::convert::output::Output;

pub(super) struct Row {
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

pub(super) fn check(rows: &[Row]) {
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

pub(super) const fn nginx(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Nginx, text, has, lacks }
}

pub(super) const fn vcl(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Vcl, text, has, lacks }
}

pub(super) const fn squid(
    name: &'static str,
    text: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
) -> Row {
    Row { name, dialect: Dialect::Squid, text, has, lacks }
}

/// A bypass for all requests of a rule without further conditions.
pub(super) const ALL_PASS: &str = "then = \"continue\"\nbypass = true";

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
        &["~[?&](?i:a)=[^&]", "~[?&](?i:b)=[^&]"],
        &["$"],
    ),
    nginx(
        "bypasses that store",
        "server { location / { CACHED
             proxy_cache_bypass $arg_nocache $cookie_session $http_authorization; } }",
        &[
            "urls = [\"~[?&](?i:nocache)=[^&]\"]\nthen = \"continue\"\nrefresh = true",
            "{ headers = [\"Cookie: ~(?:^|[;,] *)(?i:session) *= *[^; ]\"] }, \
             { headers = [\"authorization\"] }",
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
        &["urls = [\"~[?&](?i:a)=[^&]\"]\nheaders = \
           [\"!Cookie: ~(?:^|[;,] *)(?i:b) *= *[^; ]\"]\nthen = "],
        &[],
    ),
    nginx(
        "fields of a location outside of an if",
        "server { location / { CACHED add_header X-B 2;
             if ($arg_a) { add_header X-A 1; }
             if ($cookie_b) { set $c 1; } } }",
        &[
            "any = [{ not-urls = [\"~[?&](?i:a)=[^&]\"] }, \
             { headers = [\"Cookie: ~(?:^|[;,] *)(?i:b) *= *[^; ]\"] }]\nthen = \"continue\"\n\
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
             server { listen 80; server_name *.int.x; allow 10.0.0.0/8; deny all;
             location / { proxy_pass http://a; } }",
            &["hosts = [\".int.x\"]\nnot-hosts = [\"int.x\"]\n\
               not-clients = [\"10.0.0.0/8\"]\ndeny = true"],
            &[],
        ),
        nginx(
            "a redirect by wider patterns",
            "server { location / { if ($cookie_a ~ \"^a[0-9]$\") { return 301 /m; }
             proxy_pass http://a; } }",
            &["deny = true"],
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
