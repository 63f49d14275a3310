//! Reports of servers that give no response. For operators the log has a line for each attempt,
//! with the phase and the cause. Clients get one sentence, which reveals nothing behind a reverse
//! proxy.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{ServerConnection, StreamOwned};
use testkit::authority::{Authority, server_of_file};
use testkit::client::{Reply, get, request};
use testkit::larder::{Larder, Setup};
use testkit::listener::{black_hole, read_head, serve_each};
use testkit::origin::Origin;

/// Starts a server that responds to every head with these bytes, and then waits or closes.
fn answers(bytes: &'static [u8], stays: bool) -> SocketAddr {
    serve_each(move |mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(bytes);
        if stays {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    })
}

/// Checks that a response reveals no internals.
#[track_caller]
fn is_discreet(reply: &Reply, inside: &[&str]) {
    let all = format!("{:?} {}", reply.head, reply.text()).to_lowercase();
    let code = ["os error", "other(", "othererror", "kind:", "error {", "hyper"];
    for word in inside.iter().chain(&code) {
        assert!(!all.contains(&word.to_lowercase()), "{word}: {all}");
    }
}

#[track_caller]
fn says(larder: &Larder, line: &str) {
    assert!(larder.says(line), "not said: {line}\n{}", larder.said());
}

const TIMES: &str = "[upstream]\nhead-timeout = '500ms'\n[[rule]]\nconnect-timeout = '500ms'\n\
    body-timeout = '500ms'\n";

#[test]
fn each_phase_is_a_line_and_none_of_it_is_shown() {
    let unreachable = testkit::address::free();
    let full = testkit::address::free();
    let _hole = black_hole(full);
    let deaf = serve_each(|mut stream| {
        read_head(&mut stream);
        // Closed with the body unread, the connection is reset.
    });
    let hung_up = answers(b"", false);
    let hangs = answers(b"", true);
    let garbage = answers(b"SPAM/1.0 hello\r\n\r\n", false);
    let short = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", false);
    let silent = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", true);
    let mean =
        answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", true);
    let ready = |at: SocketAddr| format!("http://{at}");
    let closed = "it closed the connection before its response was complete";
    for (upstream, method, phase, causes, status) in [
        ("http://nowhere.invalid:81".to_owned(), "GET", "resolving its name", "", 502),
        (ready(unreachable), "GET", "connecting", "connection refused", 502),
        (ready(full), "GET", "connecting", "", 504),
        (ready(deaf), "POST", "sending the request", "", 502),
        (ready(hung_up), "GET", "waiting for the response head", closed, 502),
        (ready(hangs), "GET", "waiting for the response head", "no response within 0.5 s", 504),
        (ready(garbage), "GET", "response", "not valid HTTP", 502),
        (ready(mean), "GET", "response", "its response cannot be forwarded", 502),
        (ready(short), "GET", "response body", "", 0),
        (ready(silent), "GET", "response body", "no byte within the time allowed", 0),
    ] {
        let larder = Setup::reverse(&upstream).config(TIMES).start();
        let host = upstream.strip_prefix("http://").unwrap();
        let ask = match method {
            "POST" => request("POST", "/x").body(&vec![b'x'; 20_000_000]),
            _ => get("/x"),
        };
        match (ask.header("Host", "a.example").try_send(larder.address()), status) {
            (Ok(reply), 0) => assert!(!reply.whole, "{reply:?}"),
            (Ok(reply), _) => {
                assert_eq!(reply.status, status, "{phase}: {reply:?}");
                is_discreet(&reply, &[host, "127.0.0.1", "nowhere"]);
            }
            // The connection may break during the body, before the response is read.
            (Err(error), _) => assert!(method == "POST" || status == 0, "{phase}: {error}"),
        }
        says(&larder, &format!("upstream {host} failed: {phase}: {causes}"));
        assert!(!larder.said().contains("os error"), "{}", larder.said());
    }
}

/// Starts a TLS server that shows this certificate, and may require one.
fn secured(chain: &Path, wants: Option<&Authority>) -> SocketAddr {
    let config = server_of_file(chain, &[], wants);
    serve_each(move |stream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let _ = stream.flush();
    })
}

/// Writes a self-signed certificate and its key, as `change` sets them.
fn self_signed(path: &Path, change: impl FnOnce(&mut CertificateParams)) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    change(&mut params);
    let certificate = params.self_signed(&key).unwrap();
    fs::write(path, certificate.pem() + &key.serialize_pem()).unwrap();
}

#[test]
fn tls_says_in_plain_words_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (authority, stranger) = (Authority::new(), Authority::new());
    let good = authority.issue_file(directory.path(), "good", &["localhost"]);
    let named = authority.issue_file(directory.path(), "named", &["inside.example"]);
    let (old, own, young) = (at("old.pem"), at("own.pem"), at("young.pem"));
    let strange = at("strange.pem");
    self_signed(&strange, |params| params.distinguished_name.push(DnType::CommonName, "stranger"));
    let expire = |params: &mut CertificateParams| params.not_after = date_time_ymd(2002, 1, 1);
    self_signed(&old, |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        expire(params);
    });
    self_signed(&own, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    self_signed(&young, |params| params.not_before = date_time_ymd(2999, 1, 1));
    let file = authority.file_in(directory.path());
    let plain = serve_each(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    // Each self-signed certificate is its own authority.
    let cases = [
        (secured(&named, None), &file, "for another name", "tls_certificate_error"),
        (secured(&strange, None), &file, "has an unknown issuer", "tls_certificate_error"),
        (secured(&old, None), &old, "its certificate has expired", "tls_certificate_error"),
        (secured(&young, None), &young, "not valid yet", "tls_certificate_error"),
        (secured(&own, None), &own, "an authority's own", "tls_certificate_error"),
        (plain, &file, "it does not speak TLS", "tls_protocol_error"),
        (
            secured(&good, Some(&stranger)),
            &file,
            "it requires a client certificate",
            "tls_alert_received",
        ),
    ];
    for (address, file, cause, error) in cases {
        let base = format!("https://localhost:{}", address.port());
        let config = format!("[upstream]\ntls-ca = {file:?}\nhttp2 = 'off'\n");
        let reverse = Setup::reverse(&base).config(&config).start();
        let reply = get("/x").header("Host", "a.example").send(reverse.address());
        assert_eq!(reply.status, 502, "{cause}: {reply:?}");
        assert!(reply.header("proxy-status").ends_with(&format!("error={error}")), "{reply:?}");
        is_discreet(&reply, &["localhost", "127.0.0.1", "inside.example", "own"]);
        assert!(cause.is_empty() || !reply.text().contains(cause), "{}", reply.text());
        says(&reverse, &format!("upstream localhost:{} failed: ", address.port()));
        says(&reverse, cause);
        assert!(!reverse.said().contains("Other("), "{}", reverse.said());
        // A client that named the server itself may learn the cause.
        let forward = Setup::forward().config(&config).start();
        let host = base.strip_prefix("https://").unwrap();
        let reply = get(&format!("{base}/x")).header("Host", host).send(forward.address());
        assert_eq!(reply.status, 502, "{cause}: {reply:?}");
        assert!(reply.text().contains(cause), "{cause}: {}", reply.text());
        is_discreet(&reply, &[&directory.path().display().to_string(), "inside.example"]);
    }
}

#[test]
fn a_forward_proxy_says_what_went_wrong_and_nothing_of_its_own_surroundings() {
    let unreachable = testkit::address::free();
    let larder = Setup::forward().start();
    let reply = larder.get(&format!("http://{unreachable}/x"));
    assert_eq!((reply.status, reply.text().as_str()), {
        (502, "The origin server refused the connection.\n")
    });
    let reply = larder.get("http://nowhere.invalid/x");
    assert_eq!((reply.status, reply.text().as_str()), {
        (502, "The name of the origin server could not be resolved.\n")
    });
    says(&larder, "upstream nowhere.invalid:80 failed: resolving its name: ");
    let config = format!("connect-ports = [{}]\n", unreachable.port());
    let larder = Setup::forward().config(&config).start();
    let mut tunnel = larder.connect();
    tunnel
        .send(format!("CONNECT {unreachable} HTTP/1.1\r\nHost: {unreachable}\r\n\r\n").as_bytes());
    let reply = tunnel.read("CONNECT").unwrap();
    assert_eq!(reply.status, 502);
    is_discreet(&reply, &[]);
    says(&larder, &format!("upstream {unreachable} failed: connecting: connection refused"));
}

#[test]
fn a_failure_is_told_though_another_server_answers_and_many_are_counted() {
    let (origin, unreachable) = (Origin::start(), testkit::address::free());
    let failing = answers(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", false);
    let good = origin.url("");
    let config = format!(
        "[[site]]\nhosts = ['127.0.0.1', 'a.example']\nmax-fails = 0\n\
         next-upstream = ['error', 'timeout', 'http-503']\n\
         upstream = ['http://{unreachable}', 'http://{failing}', '{good} backup']\n"
    );
    let larder = Setup::forward().config(&config).start();
    for n in 0..20 {
        let target = format!("/page?n={n}&cc=no-store");
        get(&target).header("Host", "a.example").send(larder.address()).verify(&target);
    }
    let said = larder.stop();
    let of = |server: &str| {
        let start = format!("upstream {server} failed: ");
        let lines = said.lines().filter_map(|line| line.split_once(&start).map(|(_, rest)| rest));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (server, what) in
        [(unreachable, "connecting: connection refused"), (failing, "response: it answered 503")]
    {
        let lines = of(&server.to_string());
        let (phase, cause) = what.split_once(": ").unwrap();
        let whole = lines.iter().filter(|line| *line == what).count();
        let number = |line: &String| {
            let rest = line.strip_prefix(&format!("{phase}: "))?;
            let (number, rest) = rest.split_once(" more times, last: ")?;
            (rest == cause).then(|| number.parse::<usize>().unwrap())
        };
        let counted: usize = lines.iter().filter_map(number).sum();
        assert!(whole < 20 && whole + counted == 20, "{lines:?}");
    }
}
