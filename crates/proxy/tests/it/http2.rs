//! HTTP/2 to origins: requests, responses, and retries.

use std::net::SocketAddr;
use std::thread;

use testkit::authority::Authority;
use testkit::client::{Client, Reply};
use upstream::servers::group::Group;
use upstream::settings::endpoint::{Endpoint, Http2};
use upstream::settings::tls::{Tls, TlsOptions};

use crate::http2_origin::Http2Origin;
use crate::rig::Rig;

/// Starts a reverse proxy that speaks HTTP/2 with prior knowledge.
fn rig(origin: &Http2Origin) -> Rig {
    let http2 = Http2::PriorKnowledge;
    Rig::reverse_to(Group::one(Endpoint { http2, ..plain(origin.address()) }), |_| ())
}

fn plain(address: SocketAddr) -> Endpoint {
    Endpoint::plain(&address.ip().to_string(), address.port())
}

fn ask(client: &mut Client, method: &str, path: &str, fields: &str) -> Reply {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"));
    client.answer_to(method)
}

fn told(answer: &Reply) -> (u16, &str, String) {
    (answer.status, std::str::from_utf8(&answer.body).unwrap(), answer.detail())
}

#[test]
fn a_request_is_converted_to_http2() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    let fields = "Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-A: b\r\n\
        TE: trailers, gzip\r\nUpgrade: h2c\r\n";
    let answer = ask(&mut client, "GET", "/x?y", fields);
    assert_eq!(told(&answer), (200, "GET 0", "MISS".to_owned()));
    assert_eq!(answer.field("content-length").unwrap(), "5");
    assert!(answer.field("via").unwrap().starts_with("2.0 larder"));
    assert_eq!(told(&ask(&mut client, "GET", "/x?y", "")).2, "HIT_RAM");
    assert_eq!(told(&ask(&mut client, "HEAD", "/h", "")), (200, "", "MISS".to_owned()));
    let asked = &origin.requests()[0];
    assert_eq!(asked.uri().to_string(), "http://a.example/x?y");
    let fields = asked.headers();
    for gone in ["host", "connection", "x-hop", "keep-alive", "upgrade"] {
        assert!(!fields.contains_key(gone), "{gone}");
    }
    assert_eq!(
        (&fields["x-a"], &fields["te"]),
        (&"b".parse().unwrap(), &"trailers".parse().unwrap())
    );
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_host_without_an_http2_form_breaks_no_connection() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    assert_eq!(ask(&mut client, "GET", "/a", "").status, 200);
    for number in 0..5 {
        let text = format!("GET /{number} HTTP/1.1\r\nHost: a%41.example\r\n\r\n");
        assert_eq!(client.send(text).answer().status, 400);
    }
    assert_eq!(ask(&mut client, "GET", "/b", "").status, 200);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn bodies_trailers_and_interim_answers_pass() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    client.send("POST /p HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.answer().text(), "POST 100000");
    client.send("PUT /p HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "PUT 5");
    client.send("GET /early HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let hints = client.head();
    assert!(hints.starts_with("HTTP/1.1 103 ") && hints.contains("link: </a.css>"), "{hints}");
    assert_eq!(client.answer().text(), "GET 0");
    client.send("GET /trailers HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\n\r\n");
    let head = client.head();
    let answer = client.rest(head, "GET");
    assert_eq!((answer.text().as_str(), answer.whole), ("body", true));
    assert_eq!(answer.field("trailer").unwrap(), "x-sum");
}

#[test]
fn an_upload_continues_during_its_response() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    // A gRPC body is not buffered before it is forwarded.
    client.send("POST /echo HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n");
    client.send("Content-Type: application/grpc\r\n\r\n1\r\na\r\n");
    let head = client.head();
    for piece in ["b", "c"] {
        // The response waits for data that the client has yet to send.
        thread::sleep(std::time::Duration::from_millis(100));
        client.send(format!("1\r\n{piece}\r\n"));
    }
    client.send("0\r\n\r\n");
    let answer = client.rest(head, "POST");
    assert_eq!((answer.text().as_str(), answer.whole), ("abc", true));
}

#[test]
fn request_trailers_are_not_forwarded() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    for trailers in ["", "X-Sum: 1\r\n", "X-Forwarded-Host: evil.test\r\nContent_Length: 1\r\n"] {
        client.send("PUT /p HTTP/1.1\r\nHost: a.example\r\nTrailer: X-Sum\r\n");
        client.send("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n");
        client.send(format!("{trailers}\r\n"));
        assert_eq!(client.answer().text(), "PUT 5", "{trailers}");
    }
    assert_eq!(origin.trailers(), []);
}

#[test]
fn a_truncated_body_never_looks_complete() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    for path in ["/cut", "/quiet"] {
        for _ in 0..2 {
            let answer = ask(&mut rig.client(), "GET", path, "");
            assert_eq!((answer.text().as_str(), answer.whole), ("half!", false), "{path}");
        }
    }
    // The connection can still be used.
    assert_eq!(ask(&mut rig.client(), "GET", "/x", "").text(), "GET 0");
}

#[test]
fn requests_share_a_connection() {
    const CLIENTS: usize = 12;
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let asking = (0..CLIENTS).map(|n| {
        let mut client = rig.client();
        thread::spawn(move || ask(&mut client, "GET", &format!("/wait/{CLIENTS}/{n}"), "").status)
    });
    let asking: Vec<_> = asking.collect();
    assert!(asking.into_iter().all(|asking| asking.join().unwrap() == 200));
    // At most one for each worker.
    assert!(origin.connections() <= 2, "{}", origin.connections());
}

#[test]
fn unprocessed_requests_are_retried_whatever_the_method() {
    let origin = Http2Origin::start_with(None, 1);
    let rig = rig(&origin);
    let mut client = rig.client();
    // Refused by a GOAWAY, on the first connection.
    assert_eq!(ask(&mut client, "POST", "/x", "").text(), "POST 0");
    assert_eq!(origin.connections(), 2);
    // A single refused stream.
    assert_eq!(ask(&mut client, "POST", "/refuse", "").text(), "POST 0");
    let refused = origin.requests().iter().filter(|asked| asked.uri().path() == "/refuse").count();
    assert_eq!((refused, origin.connections()), (2, 2));
}

#[test]
fn a_refused_body_is_an_error() {
    let origin = Http2Origin::start(None);
    let rig = rig(&origin);
    let mut client = rig.client();
    client.send("POST /refuse HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc");
    let answer = client.answer();
    assert_eq!((answer.status, answer.detail().as_str()), (502, "ERROR(upstream)"));
}

#[test]
fn tls_negotiates_the_http_version() {
    let authority = Authority::new();
    let with = |protocols: &[&str], http2| {
        let config = authority.server(authority.issue("origin.example"), protocols, false);
        let origin = Http2Origin::start(Some(config));
        let options = TlsOptions {
            authorities: Some(authority.file()),
            name: Some("origin.example".to_owned()),
            ..TlsOptions::default()
        };
        let tls = Some(Tls::new(options, http2));
        let rig =
            Rig::reverse_to(Group::one(Endpoint { tls, http2, ..plain(origin.address()) }), |_| ());
        let status = ask(&mut rig.client(), "GET", "/x", "").status;
        (status, origin.requests().first().map(|asked| asked.uri().to_string()))
    };
    let secured = Some("https://a.example/x".to_owned());
    assert_eq!(with(&["h2", "http/1.1"], Http2::Negotiated), (200, secured.clone()));
    assert_eq!(with(&["h2"], Http2::PriorKnowledge), (200, secured));
    // The origin speaks only HTTP/2, which is switched off here, so the two share no protocol.
    assert_eq!(with(&["h2"], Http2::Off), (502, None));
}

#[test]
fn an_origin_may_choose_http1() {
    use testkit::authority::TlsFront;
    use testkit::origin::ok;
    let authority = Authority::new();
    let behind = testkit::origin::Origin::always(ok("Cache-Control: no-store\r\n", "old"));
    let config = authority.server(authority.issue("origin.example"), &["http/1.1"], false);
    let front = TlsFront::start(behind.address(), config);
    let options = TlsOptions {
        authorities: Some(authority.file()),
        name: Some("origin.example".to_owned()),
        ..TlsOptions::default()
    };
    let http2 = Http2::Negotiated;
    let tls = Some(Tls::new(options, http2));
    let rig =
        Rig::reverse_to(Group::one(Endpoint { tls, http2, ..plain(front.address()) }), |_| ());
    let mut client = rig.client();
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "GET", "/x", "").text(), "old");
    }
    assert_eq!(front.names().len(), 1);
}
