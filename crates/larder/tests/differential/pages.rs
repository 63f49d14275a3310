//! The origin's pages, and the requests for them: fields, targets and hosts.

use crate::origin::Plan;
use crate::wire::bytes;

/// Heads of responses by path.
pub const ANSWERS: [(&str, &str); 22] = [
    ("/plain", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\n"),
    (
        "/many",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-A: 1\r\nx-b: 2\r\nX-a: 3\r\n\
        X-Empty:\r\nX-High: caf\u{e9}\r\nLink: <a>\r\nLink: <b>\r\n",
    ),
    (
        "/type",
        "HTTP/1.1 200 Fine\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\n\
        Content-Type: text/css\r\nDate: Mon, 05 Jan 2026 10:00:00 GMT\r\n",
    ),
    ("/aged", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nAge: 7\r\n"),
    ("/gone", "HTTP/1.1 410 Gone\r\nCache-Control: max-age=600\r\n"),
    ("/moved", "HTTP/1.1 301 Moved Permanently\r\nCache-Control: max-age=600\r\nLocation: /x\r\n"),
    ("/missing", "HTTP/1.1 404 Not Found\r\nCache-Control: max-age=600\r\n"),
    ("/odd", "HTTP/1.1 299 Odd\r\nCache-Control: max-age=600\r\n"),
    ("/seen", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Status: other; hit\r\n"),
    (
        "/tagged",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nSurrogate-Key: a b\r\n\
        Cache-Tag: c\r\nX-Z: 1\r\n",
    ),
    ("/varies", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept\r\n"),
    (
        "/coded",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\
        ETag: \"c\"\r\n",
    ),
    (
        "/chosen",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Cookie, accept-language\r\n\
        Vary: ORIGIN\r\n",
    ),
    ("/agent", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: User-Agent, X-Any\r\n"),
    ("/hosts", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Host, X-Host\r\n"),
    ("/star", "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: *\r\nETag: \"s\"\r\n"),
    (
        "/gone-variant",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nVary: Accept-Encoding\r\n\
        ETag: \"g\"\r\n",
    ),
    (
        "/stale",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=0\r\n\
        ETag: \"s\"\r\n",
    ),
    ("/private", "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"),
    (
        "/hop",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
        Keep-Alive: timeout=5\r\n",
    ),
    ("/public", "HTTP/1.1 200 OK\r\nCache-Control: public, s-maxage=600\r\nVia: 1.0 far\r\n"),
    ("/endless", "HTTP/1.1 200 OK\r\nCache-Control: max-age=99999999999\r\n"),
];

/// Fields of requests for any page.
pub const FIELDS: &[&str] = &[
    "Accept: a\r\n",
    "Connection: keep-alive\r\n",
    "Connection: close\r\n",
    "Cache-Control: no-cache\r\n",
    "Cache-Control: max-age=0\r\n",
    "Pragma: no-cache\r\n",
    "If-None-Match: \"a\"\r\n",
    "Range: bytes=1-3\r\n",
    "Authorization: x\r\n",
    "TE: trailers\r\n",
    "User-Agent: u\r\nReferer: r\r\nCookie: c\r\n",
    "Via: 1.1 x\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 3\r\n",
    "X_Y: z\r\nX-Y: z\r\n",
    "Upgrade: websocket\r\nConnection: upgrade\r\n",
    "Expect: 100-continue\r\n",
    "X-Forwarded-Proto: https\r\n",
    "Forwarded: proto=https\r\n",
    "Soft-Purge: 1\r\n",
    "",
    "Range: bytes=0-0,-1\r\n",
    "Range: bytes=5-\r\nIf-Range: \"a\"\r\n",
    "Range: bytes=9999-\r\n",
    "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
    "If-Match: \"b\"\r\n",
    "Cache-Control: only-if-cached\r\n",
    "Cache-Control: no-store\r\n",
    "Cookie: session=1\r\n",
    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: b.example\r\n",
    "Connection: x-hop, close\r\nX-Hop: 1\r\nx-Case: Kept\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Max-Forwards: 0\r\n",
];

/// Request fields that select variants.
pub const SELECTING: &[&str] = &[
    "",
    "Accept-Encoding: gzip, deflate, br\r\n",
    "Accept-Encoding: br,deflate ,, GZIP;q=1.0\r\n",
    "accept-encoding: gzip\r\nAccept-Encoding: deflate, br\r\n",
    "Accept-Encoding: gzip;q=0.5, br\r\n",
    "Accept-Encoding:\r\n",
    "Accept-Encoding: \"gzip, br\r\n",
    "Accept: text/html;Level=1, */*\r\n",
    "Accept: */*, TEXT/html;Level=1;q=1\r\n",
    "Accept: */*, text/html;level=1\r\n",
    "Cookie: a=b; c=d\r\n",
    "Cookie: a=b;c=d\r\n",
    "Cookie: a=b\r\nCookie: c=d\r\n",
    "Cookie:  a=b; c=d \r\nOrigin: http://b.example\r\n",
    "Origin: http://b.example\r\nAccept-Language: de, en;q=0.5\r\n",
    "Origin: http://b.example\r\nAccept-Language: EN;q=0.5,de\r\n",
    "User-Agent: u\r\n",
    "User-Agent: u\r\nX-Any: 1\r\n",
    "X-Host: 1\r\n",
    "Accept-Encoding: gzip\r\nIf-None-Match: \"c\"\r\n",
    "Accept-Encoding: gzip\r\nCookie: a\r\nConnection: close\r\n",
    "Accept_Encoding: gzip\r\n",
];

/// Pages whose responses vary.
pub const VARYING: &[&str] =
    &["/varies", "/coded", "/chosen", "/agent", "/hosts", "/star", "/gone-variant"];

/// Targets of requests.
pub const TARGETS: &[&str] = &[
    "/plain",
    "/plain?",
    "/plain#x",
    "/plain%20",
    "/pl%61in",
    "/plain?%7e",
    "/./plain",
    "//plain",
    "*",
    "plain",
    "?plain",
    "",
    "/plain\u{e9}",
    "/pla|in",
    "/pla\"in",
    "/pla{in}",
    "http://a.example/plain",
    "http://A.example:80/plain",
    "https://a.example/plain",
    "http://b.example/plain",
    "http://u:p@a.example/plain",
    "/%zz",
    "/plain?a=b&c=d;e",
];

/// Values of `Host`.
pub const HOSTS: &[&str] = &[
    "a.example",
    "A.EXAMPLE",
    "a.example:80",
    "a.example:81",
    "a.example:",
    "",
    "a b",
    "[::1]",
    "a_b",
    "127.0.0.1",
    "u@a.example",
    "a.example/x",
    "a,b",
    "a%41",
];

/// Queries of pages, which select the framing of the response.
pub const QUERIES: [&str; 4] = ["", "?chunks", "?empty", "?trailers"];

/// Methods other than GET.
pub const METHODS: &[&str] = &["HEAD", "OPTIONS", "DELETE", "PUT", "TRACE", "get", "BREW", "PURGE"];

/// Returns the plans of all pages.
pub fn plans() -> Vec<(String, Plan)> {
    let mut plans = Vec::new();
    for (path, head) in ANSWERS {
        for query in QUERIES {
            let target = format!("{path}{query}");
            let (fields, body) = framed(&target, query);
            let head = bytes(&format!("{head}{fields}\r\n"));
            let whole = [head.clone(), bytes(&body)].concat();
            for (method, piece) in [("GET", whole), ("HEAD", head)] {
                plans.push((
                    format!("{method} {target}"),
                    Plan { pieces: vec![piece], close: false },
                ));
            }
        }
    }
    plans
}

/// Returns the fields that frame the body of a page, and the bytes of the body.
fn framed(target: &str, query: &str) -> (String, String) {
    let body = if query == "?empty" { String::new() } else { target.repeat(30) };
    let chunked = |trailer: &str| format!("{:x}\r\n{body}\r\n0\r\n{trailer}\r\n", body.len());
    match query {
        "?chunks" => ("Transfer-Encoding: chunked\r\n".to_owned(), chunked("")),
        "?trailers" => {
            let fields = "Trailer: x-t\r\nTransfer-Encoding: chunked\r\n";
            (fields.to_owned(), chunked("X-T: 1\r\n"))
        }
        _ => (format!("Content-Length: {}\r\n", body.len()), body),
    }
}

/// Returns a request for a page.
pub fn get(target: &str, fields: &str) -> Vec<u8> {
    bytes(&format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}
