//! Forwarding: methods, bodies, fields, connections.

use std::io::{Read, Write};
use std::time::Duration;

use testkit::client::{Client, request_text};
use testkit::listener::{read_head, serve_each};
use testkit::origin::{Origin, Then, ok};
use upstream::servers::group::Group;
use upstream::settings::endpoint::Endpoint;

use crate::rig::Rig;

#[test]
fn user_information_is_neither_logged_nor_sent() {
    let origin = Origin::always(ok("", ""));
    let mut rig = Rig::forward();
    let url = format!("http://me:secret@{}/x", origin.address());
    let request = format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address());
    assert_eq!(rig.client().send(request).answer().status, 200);
    rig.stop();
    assert!(!origin.requests()[0].head.contains("secret"));
    assert_eq!(*rig.seen.urls.lock().unwrap(), [origin.url("/x")]);
}

#[test]
fn bodies_stream_both_ways() {
    let origin = Origin::scripted(|asked, stream| {
        let _ = stream.write_all(ok("", &format!("{} bytes", asked.body.len())).as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    client.send(request_text("POST", &origin.url("/"), "Content-Length: 5\r\n")).send("12345");
    assert_eq!(client.answer().text(), "5 bytes");
    let chunked = request_text("PUT", &origin.url("/"), "Transfer-Encoding: chunked\r\n");
    client.send(chunked).send("3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(origin.requests()[1].method, "PUT");
    assert!(origin.requests()[1].body.windows(3).any(|w| w == b"abc"));
    let get = request_text("GET", &origin.url("/"), "Transfer-Encoding: chunked\r\n");
    client.send(get).send("3\r\nxyz\r\n0\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert!(origin.requests()[2].body.windows(3).any(|w| w == b"xyz"));
}

#[test]
fn upstream_connections_are_reused_and_dead_ones_detected() {
    let origin = Origin::scripted(|asked, stream| {
        let _ = stream.write_all(ok("", "x").as_bytes());
        // Closes without notice after the second request of a connection.
        if asked.on_connection == 1 { Then::Close } else { Then::Stay }
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    for i in 0..6 {
        let url = origin.url(&format!("/{i}"));
        let method = if i % 2 == 0 { "GET" } else { "DELETE" };
        assert_eq!(client.send(request_text(method, &url, "")).answer().status, 200, "request {i}");
    }
    assert_eq!(origin.count(), 6);
    assert!(origin.requests().iter().any(|asked| asked.on_connection == 1));
}

#[test]
fn a_request_on_a_dying_pooled_connection_is_retried_once() {
    // The first connection answers one request, reads a second and closes without a response.
    let origin = Origin::scripted(|asked, stream| {
        if asked.number == 1 {
            return Then::Close;
        }
        let _ = stream.write_all(ok("Cache-Control: no-store\r\n", "x").as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    assert_eq!(client.get(&origin.url("/a")).status, 200);
    assert_eq!(client.get(&origin.url("/b")).status, 200);
    let paths: Vec<_> = origin.requests().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/a", "/b", "/b"]);
    // A POST is not retried: whether it had an effect is unknown.
    let origin = Origin::scripted(|asked, stream| {
        if asked.number == 1 {
            return Then::Close;
        }
        let _ = stream.write_all(ok("", "x").as_bytes());
        Then::Stay
    });
    assert_eq!(client.get(&origin.url("/a")).status, 200);
    let post = request_text("POST", &origin.url("/b"), "Content-Length: 1\r\n");
    assert_eq!(client.send(post).send("x").answer().status, 502);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_request_is_retried_unmodified_after_only_interim_responses() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    // The second request of each connection gets only an interim response.
    let origin = Origin::scripted(|asked, stream| {
        if asked.on_connection == 1 {
            let _ = stream.write_all(HINTS.as_bytes());
            return Then::Close;
        }
        let _ = stream.write_all(ok("Cache-Control: max-age=60\r\n", "x").as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    for path in ["/a", "/b"] {
        let fields = "Accept-Encoding: gzip\r\nCookie: c=d\r\n";
        client.send(request_text("GET", &origin.url(path), fields));
        let mut head = client.head();
        if path == "/b" {
            assert!(head.starts_with("HTTP/1.1 103 "), "{head}");
            head = client.head();
        }
        assert_eq!(client.rest(head, "GET").text(), "x");
    }
    let [_, broken, again] = &origin.requests()[..] else { panic!("{:?}", origin.requests()) };
    assert_eq!((broken.on_connection, again.on_connection), (1, 0));
    assert!(again.field("host").is_some() && again.head == broken.head, "{again:?}");
}

#[test]
fn http10_clients_get_no_chunks_and_keep_alive_on_request() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let origin = Origin::always(chunked);
    let rig = Rig::forward();
    let request = format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/"));
    let mut client = rig.client();
    let answer = client.send(&request).answer();
    assert_eq!((answer.status, answer.text().as_str()), (200, "abc"));
    assert_eq!(answer.field("transfer-encoding"), None);
    assert!(client.closed());
    let origin = Origin::always(ok("", "x"));
    let keep = format!("GET {} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", origin.url("/"));
    let mut client = rig.client();
    for _ in 0..2 {
        assert_eq!(client.send(&keep).answer().text(), "x");
    }
}

#[test]
fn a_half_closed_client_still_gets_its_response() {
    let origin = Origin::scripted(|_, stream| {
        std::thread::sleep(Duration::from_millis(50));
        let _ = stream.write_all(ok("", "late").as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    client.send(request_text("GET", &origin.url("/"), "")).half_close();
    assert_eq!(client.answer().text(), "late");
    assert!(client.closed());
}

#[test]
fn interim_responses_precede_the_final_one() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let origin = Origin::scripted(move |_, stream| {
        let _ = stream.write_all(hints.as_bytes());
        std::thread::sleep(Duration::from_millis(20));
        let _ = stream.write_all(format!("{hints}{}", ok("", "final")).as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let mut client = rig.client();
    let url = origin.url("/");
    client.send(request_text("GET", &url, "") + &request_text("GET", &url, ""));
    for _ in 0..2 {
        assert!(client.head().starts_with("HTTP/1.1 103 "));
        assert!(client.head().starts_with("HTTP/1.1 103 "));
        assert_eq!(client.answer().text(), "final");
    }
    // An HTTP/1.0 client does not know 1xx.
    let mut old = rig.client();
    assert_eq!(old.send(format!("GET {url} HTTP/1.0\r\n\r\n")).answer().status, 200);
}

#[test]
fn field_names_keep_their_case_both_ways() {
    let origin = Origin::scripted(|asked, stream| {
        let (status, length) = match asked.field("If-None-Match") {
            Some(_) => ("304 Not Modified", "X-Of-304: 1\r\n"),
            None => ("200 OK", "Content-length: 4\r\n"),
        };
        let control = match &*asked.path {
            "/passed" => "no-store",
            "/old" => "max-age=0",
            _ => "max-age=600",
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nCACHE-Control: {control}\r\nETag: \"a\"\r\nX-mixed-CASE: 1\r\n\
             lower: 2\r\n{length}\r\n"
        );
        let has_body = status.starts_with("200") && asked.method != "HEAD";
        let body = if has_body { "body" } else { "" };
        let _ = stream.write_all((head + body).as_bytes());
        Then::Stay
    });
    let rig = Rig::forward();
    let fields = "X-Own-NAME: 1\r\nsmall: 2\r\nDNT: 1\r\n";
    let ask = |method, path, more: &str| {
        let text = request_text(method, &origin.url(path), &format!("{fields}{more}"));
        rig.client().send(text).answer_to(method)
    };
    for (method, path, more, outcome) in [
        ("POST", "/passed", "Content-Length: 0\r\n", "BYPASS"),
        ("GET", "/passed", "", "MISS"),
        ("HEAD", "/head", "", "MISS"),
        ("HEAD", "/head", "", "HIT_RAM"),
        ("GET", "/old", "", "MISS"),
        ("GET", "/old", "", "REVALIDATED"),
        ("GET", "/new", "", "MISS"),
        ("GET", "/new", "", "HIT_RAM"),
        ("GET", "/new", "If-None-Match: \"a\"\r\n", "HIT_RAM"),
        ("GET", "/new", "Range: bytes=1-2\r\n", "HIT_RAM"),
        ("GET", "/new", "Range: bytes=0-0,2-2\r\n", "HIT_RAM"),
    ] {
        let answer = ask(method, path, more);
        assert!(answer.detail().starts_with(outcome), "{method} {path} {more}: {}", answer.head);
        for line in ["\r\nCACHE-Control: ", "\r\nETag: ", "\r\nX-mixed-CASE: 1", "\r\nlower: 2"] {
            assert!(answer.head.contains(line), "{line:?} {method} {path} {more}: {}", answer.head);
        }
    }
    assert!(ask("GET", "/old", "").head.contains("\r\nX-Of-304: 1\r\n"));
    for asked in origin.requests() {
        for line in ["\r\nX-Own-NAME: 1", "\r\nsmall: 2", "\r\nDNT: 1"] {
            assert!(asked.head.contains(line), "{line:?}: {}", asked.head);
        }
    }
}

#[test]
fn a_trusted_proxy_knows_the_scheme_whatever_the_url_says() {
    let origin = Origin::always(ok("Cache-Control: no-store\r\n", "x"));
    let endpoint = Endpoint::plain("127.0.0.1", origin.address().port());
    for (trusted, status) in [("127.0.0.0/8", 200), ("192.0.2.0/24", 421)] {
        let rig = Rig::reverse_to(Group::one(endpoint.clone()), |options| {
            options.forwarded.trust = vec![trusted.parse().unwrap()].into();
        });
        let mut client = rig.client();
        for (scheme, expected) in [("http", 200), ("https", status)] {
            let text = request_text(
                "GET",
                &format!("{scheme}://a.example/"),
                "X-Forwarded-Proto: https\r\n",
            );
            assert_eq!(client.send(text).answer().status, expected, "{scheme} {trusted}");
        }
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn an_expectation_waits_for_the_upstream() {
    let origin = Origin::scripted(|_, _| Then::Close);
    drop(origin);
    // The origin rejects the request without its body, so the client is not asked to send it.
    let refusing = raw_origin(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    // The body is not read before the origin responds.
    let rig = Rig::forward_with(|options| options.client.request_buffer = 0);
    let mut client = rig.client();
    let fields = "Expect: 100-continue\r\nContent-Length: 3\r\n";
    client.send(request_text("POST", &format!("http://{refusing}/"), fields));
    assert!(client.head().starts_with("HTTP/1.1 417 "));
    let asking =
        raw_origin(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut client = rig.client();
    client.send(request_text("POST", &format!("http://{asking}/"), fields));
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.send("abc");
    assert_eq!(client.answer().status, 200);
}

/// Starts an origin that responds once it has read the head of a request, whatever follows.
fn raw_origin(answer: &'static [u8]) -> std::net::SocketAddr {
    serve_each(move |mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(answer);
        // Reads on until the proxy closes, so that no reset overtakes the response.
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn a_reverse_proxy_fixes_the_upstream_and_passes_the_host() {
    let origin = Origin::always(ok("", "site"));
    let rig = Rig::reverse(origin.address(), true);
    let mut client = rig.client();
    client.send("GET /x HTTP/1.1\r\nHost: www.example:8000\r\n\r\n");
    assert_eq!(client.answer().text(), "site");
    assert_eq!(origin.requests()[0].field("host").unwrap(), "www.example:8000");
    // An absolute form selects at most the site.
    client.send("GET http://elsewhere.example/y HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n");
    assert_eq!(client.answer().text(), "site");
    assert_eq!(origin.requests()[1].path, "/y");
    let rig = Rig::reverse(origin.address(), false);
    rig.client().send("GET / HTTP/1.1\r\nHost: www.example\r\n\r\n").answer();
    assert_eq!(origin.requests()[2].field("host").unwrap(), origin.address().to_string());
}

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let origin = Origin::always(ok("", "through"));
    let rig = Rig::forward_with(|options| {
        // Neither limit applies to tunnels.
        options.client.idle_timeout = Duration::from_millis(20);
        options.client.stall_timeout = Duration::from_millis(20);
        options.tunnels.max = 1;
        let access = proxy::rules::access::Access::new(
            proxy::observe::front_kind::FrontKind::Forward,
            net::address::Locals::of_this_machine().unwrap(),
        );
        let ports = vec!["1-65535".parse().unwrap()];
        options.access = std::sync::Arc::new(access.connect_ports(ports));
    });
    let mut client = Client::connect(rig.address);
    let target = origin.address();
    // The first bytes may come with the request.
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(client.answer().text(), "through");
    std::thread::sleep(Duration::from_millis(100));
    client.send("GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.answer().text(), "through");
    client.half_close();
    assert!(client.closed());
}

#[test]
fn running_responses_finish_before_the_proxy_stops() {
    let origin = Origin::scripted(|_, stream| {
        std::thread::sleep(Duration::from_millis(100));
        let _ = stream.write_all(ok("", "drained").as_bytes());
        Then::Stay
    });
    let mut rig = Rig::forward();
    let mut idle = rig.client();
    assert_eq!(idle.get(&origin.url("/")).status, 200);
    let mut busy = rig.client();
    busy.send(request_text("GET", &origin.url("/"), ""));
    while origin.count() < 2 {
        std::thread::yield_now();
    }
    rig.stop();
    assert_eq!(busy.answer().text(), "drained");
    assert!(busy.closed() && idle.closed());
    assert!(std::net::TcpStream::connect(rig.address).is_err());
}

#[test]
fn a_drain_during_startup_stops_the_proxy() {
    for _ in 0..10 {
        Rig::forward().stop();
    }
}

#[test]
fn the_origin_gets_the_host_of_the_key() {
    let origin = Origin::always(ok("Cache-Control: max-age=60\r\n", "yes"));
    let mut rig = Rig::reverse(origin.address(), true);
    let hosts = [
        ("A.Example:80", "a.example"),
        ("b.EXAMPLE:", "b.example"),
        ("c.example:081", "c.example:81"),
        ("[::0:1]", "[::1]"),
        ("d.example.", "d.example"),
    ];
    for (n, (host, told)) in hosts.iter().enumerate() {
        let mut client = rig.client();
        for spelling in [host, told] {
            client.send(format!("GET /%61 HTTP/1.1\r\nHost: {spelling}\r\n\r\n"));
            assert_eq!(client.answer().text(), "yes");
        }
        let asked = origin.requests();
        assert_eq!(asked.len(), n + 1, "{host} and {told} are one");
        assert_eq!(asked[n].field("host").unwrap(), *told);
        assert!(asked[n].head.starts_with("GET /%61 "), "{}", asked[n].head);
    }
    rig.stop();
}
