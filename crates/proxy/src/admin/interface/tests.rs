//! Tests of the rules of the admin interface, over real sockets.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::*;
use crate::request::purge_order::{Purged, Scope};

/// Backend with one stored URL. Records purges.
struct Shelf {
    readiness: RefCell<Readiness>,
    purged: RefCell<Vec<String>>,
    broken: Cell<bool>,
}

impl Shelf {
    fn new() -> Shelf {
        let readiness = RefCell::new(Readiness::Ready);
        Shelf { readiness, purged: RefCell::default(), broken: Cell::new(false) }
    }
}

impl Backend for Rc<Shelf> {
    fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    fn metrics(&self, format: Format) -> String {
        format!("larder_up {format:?}\n")
    }

    fn explain<'a>(&'a self, question: &'a Question, _: SocketAddr) -> Explained<'a> {
        let asked = format!("{question:?}");
        let told = asked.contains("http://a.example/");
        Box::pin(async move {
            if asked.contains("http://slow.example/") {
                std::future::pending::<()>().await;
            }
            if told { Ok(serde_json::json!({"rule": null})) } else { Err("not here".to_owned()) }
        })
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "state": "ready" })
    }

    fn act(&self, _action: Action) -> Done<'_> {
        let broken = self.broken.get();
        Box::pin(async move {
            if broken { Err("line 3 is wrong".to_owned()) } else { Ok(serde_json::json!({})) }
        })
    }

    fn upstreams(&self) -> serde_json::Value {
        serde_json::json!({ "sites": [] })
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> Pin<Box<dyn Future<Output = PurgeResult> + 'a>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.broken.get() {
                let purged = Purged::NotDurable("the device is dead".to_owned());
                return PurgeResult { purged, spread: None, stream: None };
            }
            let name = match &purge.scope {
                Scope::Url(url) => url.to_string(),
                scope => format!("{scope:?}"),
            };
            let found = name == "http://a.example/x?y=1&z";
            self.purged.borrow_mut().push(name);
            let purged = match purge.scope {
                Scope::Url(_) if found => {
                    Purged::Found { fronts: vec!["forward".to_owned()], objects: 1 }
                }
                Scope::Url(_) => Purged::Nothing("a hint".to_owned()),
                _ => Purged::InForce,
            };
            PurgeResult { purged, spread: None, stream: None }
        })
    }
}

/// Runs `test` against an interface with `guard`.
fn with_admin<F: Future<Output = ()>>(guard: Guard, test: impl FnOnce(SocketAddr, Rc<Shelf>) -> F) {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    with_admin_until(stopped, guard, |address, shelf| async move {
        test(address, shelf).await;
        drop(stop);
    });
}

/// Runs `test` against an interface that ends when the sender of `stopped` is dropped.
fn with_admin_until<F: Future<Output = ()>>(
    stopped: tokio::sync::oneshot::Receiver<()>,
    guard: Guard,
    test: impl FnOnce(SocketAddr, Rc<Shelf>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shelf = Rc::new(Shelf::new());
        let admin = Rc::new(Admin::new(guard, shelf.clone(), TokioClock::system()));
        let serving = tokio::task::spawn_local(admin.serve(AcceptSocket::Tcp(listener), async {
            let _stopped = stopped.await;
        }));
        test(address, shelf).await;
        serving.await.unwrap();
    });
}

/// Sends one request unmodified and returns the status and the whole response.
async fn send(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A refusal may close the connection before all bytes of the request are read.
    let _reset = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn idle_connections_do_not_exclude_others() {
    with_admin(Guard::default(), |address, _| async move {
        let mut held = Vec::new();
        for n in 0..CONNECTIONS * 2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let begun: &[u8] = match n % 3 {
                0 => b"",
                1 => b"GET /healthz HTTP/1.1\r\nHost: loc",
                _ => b"POST /purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nurl",
            };
            stream.write_all(begun).await.unwrap();
            held.push(stream);
        }
        let (status, _) = ask(address, "GET /healthz", &["Host: localhost"], "").await;
        assert_eq!(status, 200);
        let mut oldest = held.remove(0);
        assert_eq!(oldest.read(&mut [0]).await.unwrap_or(0), 0, "it has made way");
    });
}

#[test]
fn accepted_connections_are_answered_after_the_stop() {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    with_admin_until(stopped, Guard::default(), |address, shelf| async move {
        let mut fresh = TcpStream::connect(address).await.unwrap();
        let mut begun = TcpStream::connect(address).await.unwrap();
        let head = b"POST /purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 27\r\n\
            Content-Type: application/json\r\n\r\n";
        begun.write_all(head).await.unwrap();
        let healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        // Its response shows that those before it have been accepted.
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(healthy).await.unwrap();
        assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);
        drop(stop);
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).await.unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
        let body = b"{\"url\":\"http://b.example/\"}";
        for (stream, rest, status) in [(&mut fresh, &healthy[..], 200), (&mut begun, body, 404)] {
            stream.write_all(rest).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let is_last = answer.contains("connection: close");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && is_last, "{answer}");
        }
        assert_eq!(
            *shelf.purged.borrow(),
            ["http://b.example/"],
            "with another status: not stored"
        );
    });
}

/// Sends a request with these header lines and a body.
async fn ask(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    if !body.is_empty() {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    send(address, &format!("{request}\r\n{body}")).await
}

#[test]
fn explain_describes_a_request() {
    with_admin(Guard::default(), |address, _| async move {
        let host = format!("Host: {address}");
        let host = [host.as_str()];
        let (status, text) = ask(address, "GET /explain?url=http://a.example/", &host, "").await;
        assert!(status == 200 && text.contains("{\"rule\":null}"), "{text}");
        let (status, text) = ask(address, "GET /explain?url=http://b.example/", &host, "").await;
        assert!(status == 400 && text.contains("not here"), "{text}");
        let (status, text) = ask(address, "GET /explain?uri=x", &host, "").await;
        assert!(status == 400 && text.contains("unknown"), "{text}");
        let asking = "/explain?url=http://a.example/&ask=true";
        let (status, text) = ask(address, &format!("GET {asking}"), &host, "").await;
        assert!(status == 405 && text.contains("allow: POST"), "{text}");
        assert_eq!(ask(address, &format!("POST {asking}"), &host, "").await.0, 200);
        assert_eq!(ask(address, &format!("POST {asking}&method=PUT"), &host, "").await.0, 400);
    });
}

#[test]
fn slow_explanations_leave_connections_to_others() {
    with_admin(Guard::default(), |address, _| async move {
        let host = format!("Host: {address}");
        let host = [host.as_str()];
        let slow = "POST /explain?url=http://slow.example/&ask=true";
        let mut held = Vec::new();
        for _ in 0..ASKS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("{slow} HTTP/1.1\r\n{}\r\n\r\n", host[0]);
            stream.write_all(request.as_bytes()).await.unwrap();
            held.push(stream);
        }
        let (status, text) = ask(address, slow, &host, "").await;
        assert!(status == 503 && text.contains("retry-after: 1"), "{text}");
        let plain = "GET /explain?url=http://a.example/";
        assert_eq!(ask(address, plain, &host, "").await.0, 200);
        // An explanation ends when its client disconnects.
        held.clear();
        let asking = "POST /explain?url=http://a.example/&ask=true";
        while ask(address, asking, &host, "").await.0 != 200 {}
    });
}

#[test]
fn endpoints_and_methods_are_routed() {
    with_admin(Guard::default(), |address, shelf| async move {
        let host = format!("Host: {address}");
        let host = [host.as_str()];
        let (status, text) = ask(address, "GET /", &host, "").await;
        assert!(status == 200 && text.contains("/readyz"), "{text}");
        assert!(text.contains("cache-control: no-store"), "{text}");
        let (status, text) = ask(address, "GET /healthz", &host, "").await;
        assert!(status == 200 && text.ends_with("ok\n"), "{text}");
        let (status, text) = ask(address, "GET /metrics", &host, "").await;
        assert!(status == 200 && text.ends_with("larder_up Text\n"), "{text}");
        assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
        let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
        let (_, text) = ask(address, "GET /metrics", &[host[0], accept], "").await;
        assert!(text.ends_with("larder_up OpenMetrics\n"), "{text}");
        assert!(text.contains("content-type: application/openmetrics-text"), "{text}");
        let (status, text) = ask(address, "HEAD /metrics", &host, "").await;
        assert!(status == 200 && text.ends_with("\r\n\r\n"), "{text}");
        assert_eq!(ask(address, "GET /readyz", &host, "").await.0, 200);
        *shelf.readiness.borrow_mut() = Readiness::Uncached("1 of 2 caches".to_owned());
        let (status, text) = ask(address, "GET /readyz", &host, "").await;
        assert!(status == 200 && text.ends_with("ready, but 1 of 2 caches\n"), "{text}");
        *shelf.readiness.borrow_mut() = Readiness::Recovering("7 of 10 clusters".to_owned());
        let (status, text) = ask(address, "GET /readyz", &host, "").await;
        assert!(status == 503 && text.contains("7 of 10 clusters"), "{text}");
        assert_eq!(ask(address, "GET /healthz", &host, "").await.0, 200);
        *shelf.readiness.borrow_mut() = Readiness::Excluded("the name is in use".to_owned());
        let (status, text) = ask(address, "GET /readyz", &host, "").await;
        assert!(status == 503 && text.ends_with("not ready: the name is in use\n"), "{text}");
        *shelf.readiness.borrow_mut() = Readiness::Draining;
        assert_eq!(ask(address, "GET /readyz", &host, "").await.0, 503);
        assert_eq!(ask(address, "GET /nothing", &host, "").await.0, 404);
        let (status, text) = ask(address, "GET /purge?url=http://a.example/", &host, "").await;
        assert!(status == 405 && text.contains("allow: POST"), "{text}");
        let (status, text) = ask(address, "DELETE /metrics", &host, "").await;
        assert!(status == 405 && text.contains("allow: GET, HEAD"), "{text}");
        assert!(shelf.purged.borrow().is_empty());
    });
}

#[test]
fn unknown_hosts_are_refused() {
    let guard = Guard::new(vec!["Admin.Example".to_owned()], None);
    with_admin(guard, |address, _| async move {
        for host in [
            "127.0.0.1",
            "127.0.0.1:3129",
            "[::1]:3129",
            "[::1]",
            "192.0.2.1",
            "localhost",
            "LocalHost:3129",
            "localhost.",
            "admin.example",
            "ADMIN.example:80",
        ] {
            let (status, text) =
                ask(address, "GET /healthz", &[&format!("Host: {host}")], "").await;
            assert_eq!(status, 200, "{host}: {text}");
        }
        for host in [
            "evil.example",
            "evil.example:3129",
            "127.0.0.1.evil.example",
            "localhost.evil",
            "xadmin.example",
            "a.admin.example",
            "2130706433",
            "0x7f.1",
            "127.1",
        ] {
            let (status, text) =
                ask(address, "GET /metrics", &[&format!("Host: {host}")], "").await;
            assert_eq!(status, 421, "{host}: {text}");
            assert!(text.contains("admin-names") && !text.contains("larder_up"), "{host}: {text}");
        }
        for headers in [
            &["Host: "][..],
            &["Host: localhost", "Host: localhost"],
            &["Host: a b"],
            &[],
            &["Host: [::1"],
        ] {
            let (status, text) = ask(address, "GET /metrics", headers, "").await;
            assert_eq!(status, 400, "{headers:?}: {text}");
        }
        let line = "GET http://evil.example/metrics";
        assert_eq!(ask(address, line, &["Host: localhost"], "").await.0, 421);
        let line = "GET http://localhost/healthz";
        assert_eq!(ask(address, line, &["Host: localhost"], "").await.0, 200);
        assert_ne!(ask(address, "GET /metrics", &["Host: x@localhost"], "").await.0, 200);
    });
}

#[test]
fn changes_from_web_pages_are_refused() {
    with_admin(Guard::default(), |address, shelf| async move {
        let line = "POST /purge?url=http://a.example/x?y=1%26z";
        for origin in ["http://evil.example", "null", "http://localhost:3129", ""] {
            let headers = ["Host: localhost:3129", &format!("Origin: {origin}")];
            let (status, text) = ask(address, line, &headers, "").await;
            assert_eq!(status, 403, "{origin}: {text}");
        }
        assert!(shelf.purged.borrow().is_empty());
        // A read changes nothing, so an own-origin page may make it.
        let headers = ["Host: localhost:3129", "Origin: http://localhost:3129"];
        assert_eq!(ask(address, "GET /healthz", &headers, "").await.0, 200);
        assert_eq!(ask(address, line, &["Host: localhost:3129"], "").await.0, 200);
    });
}

#[test]
fn pages_of_other_origins_get_nothing() {
    with_admin(Guard::default(), |address, _| async move {
        let own = "Host: localhost:3129";
        for field in [
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
            "Origin: http://evil.example",
            "Origin: http://localhost:3130",
            "Origin: null",
        ] {
            let (status, text) = ask(address, "GET /metrics", &[own, field], "").await;
            assert!(status == 403 && !text.contains("larder_up"), "{field}: {text}");
        }
        for field in ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "X: y"] {
            assert_eq!(ask(address, "GET /metrics", &[own, field], "").await.0, 200, "{field}");
        }
    });
}

#[test]
fn requests_need_the_configured_token() {
    let guard = Guard::new(Vec::new(), Some("s3cret".to_owned()));
    with_admin(guard, |address, shelf| async move {
        let purge = "POST /purge?url=http://a.example/x?y=1%26z";
        for line in ["GET /metrics", "GET /healthz", purge] {
            for wrong in [
                "X: y",
                "Authorization: Bearer s3cre",
                "Authorization: Bearer s3crets",
                "Authorization: Bearer S3cret",
                "Authorization: Basic s3cret",
                "Authorization: Basic czNjcmV0",
                "Authorization: Basic OnMzY3Jl",
                "Authorization: s3cret",
                "Authorization: Bearer",
                "Authorization: Bearer ",
                "Authorization: Bearer s3cret\r\nAuthorization: Bearer s3cret",
            ] {
                let (status, text) = ask(address, line, &["Host: localhost", wrong], "").await;
                assert_eq!(status, 401, "{line} {wrong}: {text}");
                assert!(text.contains("www-authenticate: Bearer"), "{text}");
            }
            for right in ["Authorization: Bearer s3cret", "authorization: bearer  s3cret "] {
                let (status, _) = ask(address, line, &["Host: localhost", right], "").await;
                assert_eq!(status, 200, "{line} {right}");
            }
        }
        // A browser's way, which reads only: ":s3cret" and "me:s3cret".
        for pair in ["OnMzY3JldA==", "bWU6czNjcmV0"] {
            let headers = ["Host: localhost", &format!("Authorization: Basic {pair}")];
            assert_eq!(ask(address, "GET /live", &headers, "").await.0, 200, "{pair}");
            assert_eq!(ask(address, purge, &headers, "").await.0, 401, "{pair}");
        }
        assert_eq!(shelf.purged.borrow().len(), 2);
        // The token does not override the checks of Host and Origin.
        let token = "Authorization: Bearer s3cret";
        assert_eq!(ask(address, purge, &["Host: evil.example", token], "").await.0, 421);
        let headers = ["Host: localhost", token, "Origin: http://x"];
        assert_eq!(ask(address, purge, &headers, "").await.0, 403);
    });
}

#[test]
fn the_live_page_allows_nothing_from_elsewhere() {
    with_admin(Guard::default(), |address, _| async move {
        let (status, page) = ask(address, "GET /live", &["Host: localhost"], "").await;
        assert!(status == 200 && page.contains("content-type: text/html"), "{page}");
        assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
        assert!(page.contains("src=\"/live.js\""), "{page}");
        let (status, script) = ask(address, "GET /live.js", &["Host: localhost"], "").await;
        assert!(status == 200 && script.contains("content-type: text/javascript"), "{script}");
        assert!(!page.contains("://") && !script.contains("://"));
    });
}

#[test]
fn an_empty_token_admits_no_request() {
    let guard = Guard::new(Vec::new(), Some(String::new()));
    with_admin(guard, |address, _| async move {
        for header in ["X: y", "Authorization: Bearer ", "Authorization: Bearer x"] {
            let (status, _) = ask(address, "GET /metrics", &["Host: localhost", header], "").await;
            assert_eq!(status, 401, "{header}");
        }
    });
}

#[test]
fn purge_requests_are_carried_out() {
    with_admin(Guard::default(), |address, shelf| async move {
        let form = "Content-Type: application/x-www-form-urlencoded; charset=utf-8";
        let json = "Content-Type: application/json";
        let url = "url=http%3A%2F%2Fa.example%2Fx%3Fy%3D1%26z";
        let in_query = format!("POST /purge?{url}");
        for (line, header, body) in [
            (in_query.as_str(), "X: y", ""),
            ("POST /purge", form, url),
            ("POST /purge", json, "{\"url\": \"http://a.example/x?y=1&z\"}"),
        ] {
            let (status, text) = ask(address, line, &["Host: localhost", header], body).await;
            assert_eq!(status, 200, "{text}");
            let expected = r#"{"objects":1,"removed":["forward"],"soft":false,"url":"http://a.example/x?y=1&z"}"#;
            assert!(text.ends_with(&format!("{expected}\n")), "{text}");
        }
        let line = "POST /purge?url=http://b.example/";
        let (status, text) = ask(address, line, &["Host: localhost"], "").await;
        assert!(status == 404 && text.contains("nothing was stored"), "{text}");
        assert_eq!(shelf.purged.borrow().len(), 4);
        shelf.broken.set(true);
        let (status, text) = ask(address, &in_query, &["Host: localhost"], "").await;
        assert!(status == 503 && text.contains("the device is dead"), "{text}");
    });
}

#[test]
fn purges_by_prefix_host_and_tag() {
    with_admin(Guard::default(), |address, shelf| async move {
        let json = "Content-Type: application/json";
        let url = "http://a.example/i";
        for (line, body, told, scope) in [
            ("?tag=a&tag=b%20c", "", r#"{"objects":null,"soft":false,"tags":["a","b c"]}"#, "Tags"),
            (
                "?soft=1",
                r#"{"tags":["a"]}"#,
                r#"{"objects":null,"soft":true,"tags":["a"]}"#,
                "Tags",
            ),
            (
                "",
                r#"{"tag":"a","soft":true}"#,
                r#"{"objects":null,"soft":true,"tags":["a"]}"#,
                "Tags",
            ),
            (
                "?host=A.example:81",
                "",
                r#"{"host":"a.example:81","objects":null,"soft":false}"#,
                "Host",
            ),
            (
                "?everything=1",
                "",
                r#"{"everything":true,"objects":null,"soft":false}"#,
                "Everything",
            ),
            (
                "",
                r#"{"everything":true}"#,
                r#"{"everything":true,"objects":null,"soft":false}"#,
                "Everything",
            ),
            (
                &format!("?prefix={url}"),
                "",
                &format!(r#"{{"objects":null,"prefix":"{url}","soft":false}}"#),
                "Prefix",
            ),
            (
                &format!("?url={url}*"),
                "",
                &format!(r#"{{"objects":null,"prefix":"{url}","soft":false}}"#),
                "Prefix",
            ),
        ] {
            let line = format!("POST /purge{line}");
            let (status, text) = ask(address, &line, &["Host: localhost", json], body).await;
            assert!(status == 200 && text.ends_with(&format!("{told}\n")), "{line}: {text}");
            assert!(shelf.purged.borrow().last().unwrap().starts_with(scope), "{line}");
        }
        let line = "POST /purge?url=http://a.example/x?y=1%26z&soft=yes";
        let (_, text) = ask(address, line, &["Host: localhost"], "").await;
        assert!(text.contains(r#""objects":1,"outdated":["forward"],"soft":true"#), "{text}");
    });
}

#[test]
fn invalid_purges_are_explained() {
    with_admin(Guard::default(), |address, shelf| async move {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let json = "Content-Type: application/json";
        let url = "POST /purge?url=http://a.example/x";
        for (line, header, body, why) in [
            ("POST /purge", "X: y", "", "no URL"),
            ("POST /purge?url=", "X: y", "", "is not a URL"),
            ("POST /purge?url=/x", "X: y", "", "scheme must be http or https"),
            ("POST /purge?url=a.example", "X: y", "", "scheme must be http or https"),
            ("POST /purge?url=ftp://a.example/", "X: y", "", "scheme must be http or https"),
            ("POST /purge?url=http://u:p@a.example/", "X: y", "", "user name or password"),
            ("POST /purge?url=http://a.example/%20x", "X: y", "", "is not a URL"),
            ("POST /purge?url=http://a.example/x&y=1", "X: y", "", "unknown parameter"),
            (url, form, "url=http://a.example/y", "more than one"),
            (url, form, "tag=a", "more than one"),
            ("POST /purge?everything=1&host=a", "X: y", "", "more than one"),
            ("POST /purge?everything=0", "X: y", "", "nothing else to purge"),
            ("POST /purge?everything=all", "X: y", "", "expected 1 or 0"),
            ("POST /purge?soft=1", "X: y", "", "nothing else to purge"),
            ("POST /purge?tag=", "X: y", "", "tag is empty"),
            ("POST /purge?tag=caf%e9", "X: y", "", "not UTF-8"),
            ("POST /purge?host=", "X: y", "", "is not a host"),
            ("POST /purge?host=a/b", "X: y", "", "is not a host"),
            ("POST /purge?host=u@a", "X: y", "", "is not a host"),
            ("POST /purge?prefix=/img", "X: y", "", "scheme must be http or https"),
            ("POST /purge", json, "{\"tags\": [1]}", "expected"),
            ("POST /purge", json, "{\"tags\": []}", "nothing else to purge"),
            ("POST /purge", json, "{\"soft\": \"1\", \"tag\": \"a\"}", "not known"),
            ("POST /purge", "X: y", "url=http://a.example/", "a body must be"),
            ("POST /purge", "Content-Type: text/plain", "url=x", "a body must be"),
            ("POST /purge", json, "{\"url\": ", "not JSON"),
            ("POST /purge", json, "{\"url\": 7}", "expected"),
            ("POST /purge", json, "[]", "expected"),
            ("POST /purge", json, "{\"url\": \"http://a.example/\", \"x\": 1}", "expected"),
        ] {
            let (status, text) = ask(address, line, &["Host: localhost", header], body).await;
            assert!(status == 400 && text.contains(why), "{line} {body}: {text}");
        }
        assert!(shelf.purged.borrow().is_empty());
    });
}

#[test]
fn sizes_are_limited() {
    with_admin(Guard::default(), |address, shelf| async move {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let long = format!("url=http://a.example/{}", "x".repeat(BODY_BYTES));
        let (status, text) = ask(address, "POST /purge", &["Host: localhost", form], &long).await;
        assert_eq!(status, 413, "{text}");
        // The same body without a declared length.
        let chunked = format!(
            "POST /purge HTTP/1.1\r\nHost: localhost\r\n{form}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
            long.len()
        );
        assert_eq!(send(address, &chunked).await.0, 413);
        let line = format!("GET /{}", "x".repeat(HEAD_BYTES));
        let (status, _) = ask(address, &line, &["Host: localhost"], "").await;
        assert!((400..500).contains(&status), "{status}");
        assert!(shelf.purged.borrow().is_empty());
        // The interface still works.
        assert_eq!(ask(address, "GET /healthz", &["Host: localhost"], "").await.0, 200);
    });
}

#[test]
fn only_loopback_is_safe_without_a_token() {
    let open = |address: &str, token: Option<&str>| {
        Guard::new(Vec::new(), token.map(str::to_owned)).is_open(address.parse().unwrap())
    };
    assert!(open("0.0.0.0:3129", None));
    assert!(open("[::]:3129", None));
    assert!(open("192.0.2.1:3129", None));
    assert!(!open("192.0.2.1:3129", Some("t")));
    assert!(!open("127.0.0.1:3129", None));
    assert!(!open("[::1]:3129", None));
    assert!(!open("[::ffff:127.0.0.1]:3129", None));
}
