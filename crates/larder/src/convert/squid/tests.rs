//! Conversions of Squid that must not make a response public, a proxy open, or an answer wrong.

use crate::convert::leak_tests::{ALL_PASS, Row, check, squid};

const ROWS: &[Row] = &[
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
        "denials with a lost list",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl pupils src 10.10.0.0/16
             acl social dstdomain .social.test
             acl lessons time MTWHF 08:00-13:00
             http_access deny pupils social lessons
             http_access deny manager !pupils lessons
             http_access allow lan !manager",
        &["action = \"deny\"\nclients = [\"10.10.0.0/16\"]\nhosts = [\".social.test\"]\n\n\
             [[access]]\naction = \"allow\"\nclients = [\"10.0.0.0/8\"]"],
        &[],
    ),
    squid(
        "denials of other hosts",
        "http_port 3128
             acl lan src 10.0.0.0/8
             acl exam src 10.10.0.0/16
             acl updates dstdomain .updates.test
             http_access deny exam !updates
             http_access allow lan",
        &[
            "action = \"deny\"\nmethods = [\"CONNECT\"]\nclients = [\"10.10.0.0/16\"]\n\n\
             [[access]]\naction = \"allow\"",
            "clients = [\"10.10.0.0/16\"]\nnot-hosts = [\".updates.test\"]\nthen = \"continue\"\n\
             deny = true",
        ],
        &[],
    ),
    squid(
        "fields and limits",
        "http_port 80 accel vhost
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl bots browser -i (wget|nikto) ^curl
             acl user req_header Cookie session=[0-9]
             acl many maxconn 50
             http_access deny bots
             http_access deny many
             http_access allow all
             cache deny user
             request_header_add X-Acc \"a b\" all
             request_body_max_size 10 MB
             negative_ttl 30 seconds
             never_direct allow all
             pinger_enable off",
        &[
            "headers = [\"User-Agent: ~(?:(?i)(wget|nikto))|(?:(?i)^curl)\"]\n\
             then = \"continue\"\ndeny = true",
            "limit-concurrent = 50",
            "headers = [\"Cookie: ~session=[0-9]\"]\nthen = \"continue\"\nbypass = true",
            "request-set = [\"X-Acc: a b\"]",
            "max-body = \"10M\"",
            "error-ttl = \"30s\"",
        ],
        &["not converted", "CONNECT"],
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

#[test]
fn conversions_fail_closed() {
    check(ROWS);
}

const ENDS: &[Row] = &[
    squid(
        "an accelerator's end behind a permission",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl lan src 10.0.0.0/8
             http_access allow lan",
        &["action = \"allow\"\nclients = [\"10.0.0.0/8\"]\n\n[[access]]\naction = \"deny\"\n"],
        &[],
    ),
    squid(
        "an accelerator's end behind the denial of others",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl lan src 10.0.0.0/8
             http_access deny !lan",
        &["action = \"allow\"\nclients = [\"10.0.0.0/8\"]\n\n[[access]]\naction = \"deny\"\n"],
        &[],
    ),
    squid(
        "an accelerator without access",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver",
        &["[[access]]\naction = \"deny\"", "add = [\"x-forwarded-for\"]"],
        &["allow"],
    ),
    squid(
        "an accelerator's end behind a denial",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl bad src 10.0.0.0/8
             http_access deny bad",
        &["[[access]]\naction = \"deny\"\nclients = [\"10.0.0.0/8\"]"],
        &["allow", "action = \"deny\"\n\n", "action = \"deny\"\n["],
    ),
];

#[test]
fn accelerators_deny_the_rest_as_squid_does() {
    check(ENDS);
}

const LINES: &[Row] = &[
    squid(
        "comments before joined lines",
        "# note \\\nacl bad src 10.0.0.0/8\nhttp_access deny bad\nhttp_access allow all",
        &["action = \"deny\"\nclients = [\"10.0.0.0/8\"]"],
        &[],
    ),
    squid(
        "all in a second line",
        "acl bad src 10.0.0.0/8
             acl bad src all
             http_access deny bad
             http_access allow all",
        &["[[access]]\naction = \"deny\"\n\n"],
        &["10.0.0.0"],
    ),
    squid(
        "lines within if",
        "http_port 80 accel defaultsite=a.test
             cache_peer 10.0.0.1 parent 80 0 originserver
             acl lan src 10.0.0.0/8
             acl bad src 192.0.2.0/24
             http_access allow lan
             if false
             acl lan src 198.51.100.0/24
             http_access allow all
             http_access deny bad
             endif",
        &["action = \"deny\"\nclients = [\"192.0.2.0/24\"]\n", "[[access]]\naction = \"deny\"\n"],
        &["allow", "198.51"],
    ),
    squid(
        "fields of proxies in front",
        "acl bad req_header X-Forwarded-For ^203\\.
             http_access deny bad
             http_access allow all",
        &["[[access]]\naction = \"deny\"\n\n[[access]]\naction = \"allow\""],
        &["headers"],
    ),
];

#[test]
fn lines_are_read_as_squid_reads_them() {
    check(LINES);
}
