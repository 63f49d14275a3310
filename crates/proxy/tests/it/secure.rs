//! TLS to origins: which origins the proxy trusts, what it presents, and the response that clients
//! get when an origin is not trusted. Also origins behind a socket in the file system.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::thread;

use rcgen::date_time_ymd;
use testkit::authority::{Authority, TlsFront};
use testkit::client::{Reply, request_text};
use testkit::origin::{Origin, ok};
use upstream::servers::group::Group;
use upstream::settings::endpoint::{At, Endpoint as To, Http2};
use upstream::settings::tls::{Identity, Tls, TlsOptions};

use crate::rig::Rig;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

/// Starts a reverse proxy for the server behind `front`, whose name is `name`.
fn rig(front: &TlsFront, name: &str, options: TlsOptions) -> Rig {
    let options = TlsOptions { name: Some(name.to_owned()), ..options };
    let tls = Some(Tls::new(options, Http2::Off));
    let plain = To::plain(&front.address().ip().to_string(), front.address().port());
    Rig::reverse_to(Group::one(To { tls, ..plain }), |_| ())
}

fn get(rig: &Rig) -> Reply {
    rig.client().send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").answer()
}

fn believing(authority: &Authority) -> TlsOptions {
    TlsOptions { authorities: Some(authority.file()), ..TlsOptions::default() }
}

/// Returns status, outcome and `Proxy-Status`.
fn told(answer: &Reply) -> (u16, String, String) {
    (answer.status, answer.detail(), answer.field("proxy-status").unwrap_or_default())
}

#[test]
fn responses_of_a_verified_origin_are_stored() {
    let (authority, origin) = (Authority::new(), Origin::always(ok(FRESH, "secret")));
    let config = authority.server(authority.issue("origin.example"), &["http/1.1"], false);
    let front = TlsFront::start(origin.address(), config);
    let rig = rig(&front, "origin.example", believing(&authority));
    let mut client = rig.client();
    for (path, outcome) in [("/x", "MISS"), ("/x", "HIT_RAM"), ("/y", "MISS")] {
        let answer =
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")).answer();
        assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("secret", outcome));
    }
    // The second fetch reused the first one's connection.
    assert_eq!(front.names(), [Some("origin.example".to_owned())]);
    assert_eq!(origin.requests()[0].field("host").unwrap(), "a.example");
}

#[test]
fn an_unverified_origin_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let origin = Origin::always(ok(FRESH, "lies"));
    let expired = authority.issue_with(&["origin.example"], |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    for (what, issued) in [
        ("another name", authority.issue("other.example")),
        ("expired", expired),
        ("an authority that nobody believes", stranger.issue("origin.example")),
    ] {
        let front = TlsFront::start(origin.address(), authority.server(issued, &[], false));
        let rig = rig(&front, "origin.example", believing(&authority));
        let (status, outcome, error) = told(&get(&rig));
        assert_eq!((status, outcome.as_str()), (502, "ERROR(tls-certificate)"), "{what}");
        assert!(error.ends_with("error=tls_certificate_error"), "{what}: {error}");
    }
    assert_eq!(origin.count(), 0);
    // Unless the configuration disables verification.
    let issued = stranger.issue("other.example");
    let front = TlsFront::start(origin.address(), authority.server(issued, &[], false));
    let rig =
        rig(&front, "origin.example", TlsOptions { unverified: true, ..believing(&authority) });
    assert_eq!(get(&rig).text(), "lies");
}

#[test]
fn the_proxy_presents_its_certificate_on_request() {
    let (authority, origin) = (Authority::new(), Origin::always(ok(FRESH, "for members")));
    let config = authority.server(authority.issue("origin.example"), &[], true);
    let front = TlsFront::start(origin.address(), config);
    let without = rig(&front, "origin.example", believing(&authority));
    let (status, outcome, error) = told(&get(&without));
    assert_eq!((status, outcome.as_str()), (502, "ERROR(tls-alert)"));
    assert!(error.ends_with("error=tls_alert_received"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue("larder.example").files(dir.path());
    let identity = Some(Identity { certificate, key });
    let with = rig(&front, "origin.example", TlsOptions { identity, ..believing(&authority) });
    assert_eq!(get(&with).text(), "for members");
}

#[test]
fn https_and_http_urls_are_separate_objects() {
    let (authority, origin) = (Authority::new(), Origin::always(ok(FRESH, "secured")));
    let config = authority.server(authority.issue("localhost"), &[], false);
    let front = TlsFront::start(origin.address(), config);
    let rig = Rig::forward_with(|options| {
        options.upstream.tls = Tls::new(believing(&authority), Http2::Off);
    });
    let url = format!("https://localhost:{}/x", front.address().port());
    let mut client = rig.client();
    for outcome in ["MISS", "HIT_RAM"] {
        let answer = client.get(&url);
        assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("secured", outcome));
    }
    assert_eq!(front.names(), [Some("localhost".to_owned())]);
    // The same URL with http is another object on another server.
    let plain = url.replace("https:", "http:");
    assert_ne!(client.send(request_text("GET", &plain, "")).answer().status, 200);
}

#[test]
fn a_unix_socket_can_be_an_origin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        for answer in ["one", "two"] {
            head.clear();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(ok("Cache-Control: no-store\r\n", answer).as_bytes()).unwrap();
        }
        String::from_utf8(head).unwrap().to_ascii_lowercase()
    });
    let to = To { at: At::Unix(path.clone()), tls: None, http2: Http2::Off };
    let mut rig = Rig::reverse_to(Group::one(to), |_| ());
    let mut client = rig.client();
    for text in ["one", "two"] {
        let answer = client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").answer();
        assert_eq!(answer.text(), text);
    }
    let head = served.join().unwrap();
    assert!(head.contains("host: a.example\r\n"), "{head}");
    let (status, outcome, error) = told(&get(&rig));
    assert_eq!((status, outcome.as_str()), (502, "ERROR(connect-refused)"));
    assert!(error.ends_with("error=connection_refused"), "{error}");
    rig.stop();
}
