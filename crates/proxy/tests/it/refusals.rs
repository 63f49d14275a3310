//! Requests that are rejected or fail, and the responses that clients get.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use testkit::client::request_text;
use testkit::origin::{Origin, Then, ok};

use crate::rig::{Rig, wait_until};

#[test]
fn an_origin_form_request_gets_a_hint() {
    let rig = Rig::forward();
    let answer = rig.client().send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("http_proxy") && answer.text().contains("curl -x"));
}

#[test]
fn repeated_and_missing_hosts_are_refused() {
    let rig = Rig::forward();
    for hosts in ["Host: a.example\r\nHost: a.example\r\n", ""] {
        let request = format!("GET http://a.example/ HTTP/1.1\r\n{hosts}\r\n");
        let answer = rig.client().send(request).answer();
        assert_eq!((answer.status, answer.detail().as_str()), (400, "INVALID(host)"), "{hosts:?}");
    }
}

#[test]
fn a_returning_request_is_a_loop() {
    let origin = Origin::always(ok("", ""));
    let rig = Rig::forward();
    rig.client().get(&origin.url("/"));
    let via = origin.requests()[0].field("via").unwrap();
    let answer = rig.client().get_with(&origin.url("/"), &format!("Via: 1.0 x, {via}\r\n"));
    assert_eq!((answer.status, answer.detail().as_str()), (508, "ERROR(loop)"));
}

#[test]
fn a_loop_is_detected_without_via() {
    let origin = Origin::always(ok("", ""));
    let rig = Rig::forward_with(|options| options.forwarded.via = false);
    rig.client().get_with(&origin.url("/"), "Via: 1.1 other\r\n");
    let asked = &origin.requests()[0];
    assert_eq!(asked.field("via"), None);
    let own = asked.field("cdn-loop").unwrap();
    let answer = rig.client().get_with(&origin.url("/"), &format!("CDN-Loop: {own}\r\n"));
    assert_eq!((answer.status, answer.detail().as_str()), (508, "ERROR(loop)"));
}

#[test]
fn malformed_heads_are_answered_and_counted() {
    let mut rig = Rig::forward();
    for garbage in ["\u{1}\u{2} nonsense\r\n\r\n", "GET http://a/ HTTP/1.1\r\nBad Name: x\r\n\r\n"]
    {
        assert!(rig.client().send(garbage).head().starts_with("HTTP/1.1 400 "), "{garbage:?}");
    }
    let long = format!("X-Long: {}\r\n", "y".repeat(100_000));
    let head = rig.client().send(request_text("GET", "http://a.example/", &long)).head();
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    wait_until("all are counted", || rig.seen.refused.lock().unwrap().len() >= 3);
    rig.stop();
    let mut refused = rig.seen.refused.lock().unwrap().clone();
    refused.sort();
    assert_eq!(refused, [Some(400), Some(400), Some(431)]);
}

#[test]
fn other_schemes_and_tunnels_to_closed_ports_are_refused() {
    let rig = Rig::forward();
    let answer = rig.client().get("ftp://a.example/");
    assert_eq!((answer.status, answer.detail().as_str()), (501, "INVALID(scheme)"));
    let connect = "CONNECT a.example:25 HTTP/1.1\r\nHost: a.example:25\r\n\r\n";
    let answer = rig.client().send(connect).answer();
    assert_eq!((answer.status, answer.detail().as_str()), (403, "DENIED(connect-port)"));
    let origin = Origin::always(ok("", ""));
    let reverse = Rig::reverse(origin.address(), true);
    let answer = reverse.client().send(connect).answer();
    assert_eq!(answer.status, 405);
    assert!(answer.field("allow").is_some());
}

#[test]
fn an_unreachable_upstream_is_a_502_with_the_reason() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rig = Rig::forward();
    let mut client = rig.client();
    let answer = client.get(&format!("http://{address}/"));
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(connect-refused)"));
    assert_eq!(answer.text(), "The origin server refused the connection.\n");
    let answer = client.get("http://no-such-host.invalid/");
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(dns)"));
}

#[test]
fn a_silent_upstream_is_a_504() {
    let origin = Origin::scripted(|_, _| Then::Stay);
    let rig = Rig::forward_with(|o| o.upstream.head_timeout = Duration::from_millis(50));
    let answer = rig.client().get(&origin.url("/"));
    assert_eq!((answer.status, answer.detail().as_str()), (504, "ERROR(upstream-timeout)"));
}

#[test]
fn malformed_and_missing_responses_are_a_502() {
    let rig = Rig::forward();
    let origin = Origin::always("\u{1}\u{2}\u{3} what?\r\n\r\n");
    let answer = rig.client().get(&origin.url("/"));
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(bad-answer)"));
    let origin = Origin::scripted(|_, _| Then::Close);
    let answer = rig.client().get(&origin.url("/"));
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(upstream)"));
}

#[test]
fn a_truncated_body_never_ends_cleanly() {
    let cut = |head: &'static str| {
        Origin::scripted(move |_, stream| {
            let _ = stream.write_all(head.as_bytes());
            Then::Close
        })
    };
    let mut rig = Rig::forward();
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nzz\r\n",
    ] {
        let answer = rig.client().get(&cut(head).url("/"));
        assert!(!answer.whole && answer.body.len() <= 5, "{head:?}: {answer:?}");
    }
    rig.stop();
    let outcomes = rig.seen.outcomes.lock().unwrap();
    assert!(
        outcomes.iter().all(|(o, _, complete)| o.to_string() == "ERROR(upstream)" && !complete)
    );
}

#[test]
fn a_body_that_stalls_is_cut() {
    let origin = Origin::scripted(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
        Then::Stay
    });
    let rig = Rig::forward_with(|o| o.upstream.body_timeout = Duration::from_millis(50));
    let answer = rig.client().get(&origin.url("/"));
    assert!(!answer.whole);
    assert_eq!(answer.text(), "12345");
}

#[test]
fn slow_heads_get_a_408_and_idle_connections_are_closed() {
    let rig = Rig::forward_with(|options| {
        options.client.head_timeout = Duration::from_millis(60);
        options.client.idle_timeout = Duration::from_millis(60);
    });
    let mut slow = rig.client();
    let answer = slow.send("GET http://a.example/ HT").answer();
    assert_eq!(answer.status, 408);
    assert!(slow.closed());
    assert!(rig.client().closed());
    let mut idle = rig.client();
    assert_eq!(idle.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").answer().status, 400);
    assert!(idle.closed());
}

#[test]
fn a_client_that_sends_too_slowly_is_cut() {
    let origin = Origin::always(ok("", ""));
    let rig = Rig::forward_with(|o| o.client.stall_timeout = Duration::from_millis(60));
    let mut client = rig.client();
    client.send(request_text("POST", &origin.url("/"), "Content-Length: 10\r\n")).send("1");
    assert!(client.closed());
}

#[test]
fn max_forwards_ends_a_trace_here() {
    let origin = Origin::always(ok("", ""));
    let rig = Rig::forward();
    let mut client = rig.client();
    let fields = "Max-Forwards: 0\r\nCookie: secret\r\nX-A: b\r\n";
    let answer = client.send(request_text("TRACE", &origin.url("/"), fields)).answer();
    assert_eq!(answer.field("content-type").unwrap(), "message/http");
    assert!(answer.text().contains("X-A: b") && !answer.text().contains("secret"));
    let options = request_text("OPTIONS", &origin.url("/"), "Max-Forwards: 0\r\n");
    assert!(client.send(options).answer().field("allow").is_some());
    assert_eq!(origin.count(), 0);
}

/// Returns a head for a reverse proxy of exactly `bytes` bytes and `lines` lines.
fn padded(bytes: usize, lines: usize) -> String {
    let mut head = "GET / HTTP/1.1\r\nHost: a.example\r\n".to_owned();
    for n in 2..lines {
        head.push_str(&format!("X-{n}: {n}\r\n"));
    }
    let rest = bytes - head.len() - "X: \r\n\r\n".len();
    format!("{head}X: {}\r\n\r\n", "x".repeat(rest))
}

#[test]
fn a_head_may_have_exactly_the_maximum_size() {
    let origin = Origin::always(ok("", "yes"));
    let rig = Rig::h2c_with(origin.address(), |options| {
        options.client.head_bytes = 8192;
    });
    for (bytes, lines, status) in [(8192, 20, 200), (8193, 20, 431), (8192, 500, 200)] {
        let text = padded(bytes, lines);
        for pieces in [1, 2] {
            let mut client = rig.client();
            // Not the first request, and followed by further bytes.
            client.send(padded(8192, 20));
            assert_eq!(client.answer().status, 200);
            let (first, second) = text.split_at(text.len() / pieces);
            client.send(first).send(format!("{second}{}", "GET /").trim_end_matches("GET /"));
            assert_eq!(client.answer().status, status, "{bytes} bytes, {lines} lines");
            assert!(status == 200 || client.closed());
        }
    }
}

/// Returns the status of a request in HTTP/2 with these fields.
fn in_http2(to: std::net::SocketAddr, path: &str, fields: &[(&str, String)]) -> u16 {
    let mut request = http::Request::get(format!("http://a.example{path}"));
    for (name, value) in fields {
        request = request.header(*name, value);
    }
    let request = request.body(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(to).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (answer, _) = sender.send_request(request, true).unwrap();
        answer.await.unwrap().status().as_u16()
    })
}

#[test]
fn http2_heads_have_the_same_limits() {
    let origin = Origin::always(ok("", "yes"));
    let rig = Rig::h2c_with(origin.address(), |options| {
        options.client.head_bytes = 8192;
    });
    // Each field counts with its name, its value and 32 bytes (RFC 9113, 6.5.2).
    let pseudo = [":methodGET", ":schemehttp", ":authoritya.example", ":path/"];
    let before: usize = pseudo.iter().map(|field| field.len() + 32).sum();
    for (bytes, status) in [(8192, 200), (8193, 431)] {
        let value = "x".repeat(bytes - before - "x".len() - 32);
        assert_eq!(in_http2(rig.address, "/", &[("x", value)]), status, "{bytes}");
    }
    let fields = vec![("x", "y".to_owned()); 200];
    assert_eq!(in_http2(rig.address, "/", &fields), 200);
}

#[test]
fn encoded_url_bytes_are_forwarded_unmodified() {
    let origin = Origin::always(ok("Cache-Control: max-age=60\r\n", "yes"));
    let rig = Rig::h2c(origin.address());
    let raw = r#"/a"<b>\^`{|}?q={"a":"b"}&<>"`"#;
    let asked = || origin.requests().iter().map(|asked| asked.path.clone()).collect::<Vec<_>>();
    for detail in ["MISS", "HIT_RAM"] {
        let answer = rig.client().send(format!("GET {raw} HTTP/1.1\r\nHost: a\r\n\r\n")).answer();
        assert_eq!((answer.status, answer.detail()), (200, detail.to_owned()));
    }
    // The next request on the connection to the origin has a different target.
    assert_eq!(in_http2(rig.address, "/%22", &[]), 200);
    assert_eq!(asked(), [raw, "/%22"]);
}

#[test]
fn bytes_beyond_ascii_are_encoded_and_control_characters_refused() {
    let origin = Origin::always(ok("", "yes"));
    let rig = Rig::h2c(origin.address());
    for (target, status) in [("/\u{fc}", 200), ("/a?\u{fc}", 200), ("/\u{7f}", 400)] {
        let mut client = rig.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        assert_eq!(client.answer().status, status, "{target:?}");
    }
    assert_eq!(in_http2(rig.address, "/\u{fc}", &[]), 200);
    assert_eq!(in_http2(rig.address, "/%C3%BC", &[]), 200);
}
