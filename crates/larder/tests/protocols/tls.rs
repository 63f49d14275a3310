//! TLS with clients (RFC 8446, RFC 6066, RFC 7301; RFC 9110 section 7.4).

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use rustls::ClientConfig;
use testkit::authority::Authority;
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, larder};
use testkit::origin::Origin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::caller::{Caller, handshake, run};

/// A reverse proxy with a TLS listener and these certificates.
struct Secured {
    authority: Authority,
    setup: Setup,
    address: SocketAddr,
    origin: Origin,
}

/// Sets up certificates by name and hosts; `more` is appended to the configuration.
fn secured(certificates: &[(&str, &[&str])], more: &str) -> Secured {
    let (authority, origin, address) =
        (Authority::new(), Origin::start(), testkit::address::free());
    let setup = Setup::reverse(&origin.url(""));
    let mut config = format!("[[listener]]\naddress = \"{address}\"\ntls = true\n");
    for (name, hosts) in certificates {
        let path = authority.issue_file(&setup.path(""), name, hosts);
        config.push_str(&format!("[[certificate]]\nchain = {path:?}\n"));
    }
    let setup = setup.config(&(config + more));
    Secured { authority, setup, address, origin }
}

/// Returns the certificate that the server shows to a client that requests `host`.
async fn shown(to: SocketAddr, host: &str, config: ClientConfig) -> std::io::Result<Vec<u8>> {
    let stream = handshake(to, host, config).await?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn a_client_is_served_over_tls_and_the_origin_told_so() {
    let it = secured(&[("a", &["a.example"])], "[http2]\nenabled = false\n");
    let log = it.setup.path("access.log");
    let setup = it.setup.flag("access-log", &log.display().to_string()).flag("log-format", "json");
    let larder = setup.start();
    run(async {
        let config = it.authority.client(&["h2", "http/1.1"]);
        let mut caller = Caller::secured(it.address, "a.example", config).await.unwrap();
        assert!(matches!(caller, Caller::One(_)), "HTTP/2 is not offered");
        for (target, outcome) in [
            ("/page", "MISS"),
            ("/page", "HIT_RAM"),
            ("/large?size=3000000", "MISS"),
            ("/chunks?how=chunked&size=100000", "MISS"),
        ] {
            let answer = caller.get("https", "a.example", target).await.unwrap();
            answer.verify(target);
            assert_eq!(answer.outcome(), outcome, "{target}");
        }
    });
    let seen = &it.origin.requests_for("/page")[0];
    assert_eq!(seen.head.get("x-forwarded-proto"), Some("https"));
    // The same path without TLS is another object.
    let plain = testkit::client::get("/page").header("Host", "a.example");
    assert_eq!(larder.send(&plain).outcome(), "MISS");
    assert_eq!(it.origin.requests_for("/page")[1].head.get("x-forwarded-proto"), Some("http"));
    let said = larder.metrics();
    assert!(said.contains("larder_tls_handshakes_total{result=\"full\"} 1\n"), "{said}");
    assert!(eventually(|| {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default().to_owned();
        first.contains("\"url\":\"https://a.example/page\"")
            && first.contains("\"tls\":\"TLSv1.3\",\"cipher\":\"TLS13_")
            && first.contains("\"sni\":\"a.example\"")
    }));
    larder.stop();
}

#[test]
fn the_certificate_follows_from_the_host_asked_for() {
    let it = secured(
        &[("first", &["first.example"]), ("wild", &["*.a.example"]), ("b", &["b.a.example"])],
        "",
    );
    let larder = it.setup.start();
    run(async {
        let of = async |host: &str| shown(it.address, host, it.authority.client(&[])).await;
        let wild = of("x.a.example").await.unwrap();
        assert_eq!(of("y.a.example").await.unwrap(), wild);
        assert_ne!(of("b.a.example").await.unwrap(), wild);
        // It gets the first certificate, which is for another name, and rejects it.
        let why = of("unknown.example").await.unwrap_err();
        assert!(why.to_string().contains("certificate"), "{why}");
    });
    drop(larder);
    let strict = secured(&[("first", &["first.example"])], "[tls]\nstrict-sni = true\n");
    let larder = strict.setup.start();
    run(async {
        let client = || strict.authority.client(&[]);
        assert!(shown(strict.address, "first.example", client()).await.is_ok());
        let why = shown(strict.address, "unknown.example", client()).await.unwrap_err();
        assert!(!why.to_string().contains("not valid for name"), "{why}");
    });
    let failed = "larder_tls_handshakes_total{result=\"failed\"} 1\n";
    assert!(eventually(|| larder.metrics().contains(failed)), "{}", larder.metrics());
}

#[test]
fn a_request_for_another_host_than_the_certificates_is_misdirected() {
    let it = secured(&[("a", &["a.example", "*.a.example"]), ("b", &["b.example"])], "");
    let _larder = it.setup.start();
    run(async {
        for alpn in ["http/1.1", "h2"] {
            let config = it.authority.client(&[alpn]);
            let mut caller = Caller::secured(it.address, "a.example", config).await.unwrap();
            for (host, status) in
                [("a.example", 200), ("x.a.example", 200), ("b.example", 421), ("c.example", 421)]
            {
                let answer = caller.get("https", host, "/page").await.unwrap();
                assert_eq!(answer.status, status, "{alpn} {host}");
            }
        }
    });
}

#[test]
fn the_oldest_version_is_a_setting() {
    let of = |more: &str, version| {
        let it = secured(&[("a", &["a.example"])], more);
        let _larder = it.setup.start();
        let config = it.authority.client_of(&[version], &[]);
        run(async { shown(it.address, "a.example", config).await.is_ok() })
    };
    let at_least_3 = "[tls]\nmin-version = \"1.3\"\n";
    assert!(of("", &rustls::version::TLS12));
    assert!(!of(at_least_3, &rustls::version::TLS12));
    assert!(of(at_least_3, &rustls::version::TLS13));
}

/// Sends requests over new connections until stopped; returns the number of responses.
fn ask_all_the_time(
    authority: &Authority,
    address: SocketAddr,
    stop: &Arc<AtomicBool>,
) -> thread::JoinHandle<usize> {
    let (config, stop) = (authority.client(&["h2", "http/1.1"]), stop.clone());
    thread::spawn(move || {
        run(async {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let config = config.clone();
                let mut caller = Caller::secured(address, "a.example", config).await.unwrap();
                let target = format!("/page{}", count % 7);
                caller.get("https", "a.example", &target).await.unwrap().verify(&target);
                count += 1;
            }
            count
        })
    })
}

fn now_shows(larder: &Larder, it: &Secured, other: &[u8]) -> bool {
    let client = || it.authority.client(&[]);
    eventually(|| run(async { shown(it.address, "a.example", client()).await.unwrap() }) != other)
        || panic!("{}", larder.said())
}

#[test]
fn certificates_are_replaced_without_a_restart_and_bad_ones_are_not_taken() {
    let it = secured(&[("a", &["a.example"])], "");
    let larder = it.setup.start();
    let before = run(shown(it.address, "a.example", it.authority.client(&[]))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asking = ask_all_the_time(&it.authority, it.address, &stop);
    for _ in 0..5 {
        let before = run(shown(it.address, "a.example", it.authority.client(&[]))).unwrap();
        it.authority.issue_file(&it.setup.path(""), "a", &["a.example"]);
        larder.signal(Signal::HUP);
        assert!(now_shows(&larder, &it, &before));
    }
    let last = run(shown(it.address, "a.example", it.authority.client(&[]))).unwrap();
    assert_ne!(last, before);
    let path = it.setup.path("a.pem");
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    larder.signal(Signal::HUP);
    assert!(larder.says("the configuration is unchanged"), "{}", larder.said());
    assert!(larder.says("a.pem:1: expected"), "{}", larder.said());
    // The admin interface does the same, and reports the result.
    let reload = || testkit::client::request("POST", "/reload").body(b"");
    let reply = larder.admin_send(reload());
    assert!(reply.status == 422 && reply.text().contains("a.pem:1: expected"), "{}", reply.text());
    let still = run(shown(it.address, "a.example", it.authority.client(&[]))).unwrap();
    assert_eq!(still, last);
    it.authority.issue_file(&it.setup.path(""), "a", &["a.example"]);
    assert_eq!(larder.admin_send(reload()).status, 200);
    assert!(now_shows(&larder, &it, &last));
    stop.store(true, Ordering::Relaxed);
    assert!(asking.join().unwrap() > 0);
    assert!(!larder.said().contains("PRIVATE KEY"));
    larder.stop();
}

#[test]
fn sessions_are_resumed() {
    let it = secured(&[("a", &["a.example"])], "");
    let larder = it.setup.start();
    let config = it.authority.client(&["http/1.1"]);
    run(async {
        for _ in 0..3 {
            let config = config.clone();
            let mut caller = Caller::secured(it.address, "a.example", config).await.unwrap();
            caller.get("https", "a.example", "/page").await.unwrap().verify("/page");
        }
    });
    let said = larder.metrics();
    assert!(said.contains("larder_tls_handshakes_total{result=\"resumed\"} 2\n"), "{said}");
}

#[test]
fn a_slow_handshake_and_noise_are_ended() {
    let it = secured(&[("a", &["a.example"])], "[tls]\nhandshake-timeout = \"200ms\"\n");
    let larder = it.setup.start();
    run(async {
        let mut silent = TcpStream::connect(it.address).await.unwrap();
        assert_eq!(silent.read(&mut [0; 10]).await.unwrap(), 0);
        let mut plain = TcpStream::connect(it.address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        // An alert, or nothing; never HTTP.
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        let config = it.authority.client(&[]);
        assert!(shown(it.address, "a.example", config).await.is_ok());
    });
    assert!(larder.metrics().contains("larder_tls_handshakes_total{result=\"failed\"} 2\n"));
}

#[test]
fn certificates_are_checked_before_anything_is_served() {
    let it = secured(&[("a", &["a.example"]), ("b", &["b.example"])], "");
    let config = it.setup.path("larder.toml").display().to_string();
    let (status, said) = larder(&["check-config", &config]);
    assert!(status.success(), "{said}");
    // The key of another certificate.
    let (a, b) = (it.setup.path("a.pem"), it.setup.path("b.pem"));
    let key = |path| {
        let text: String = fs::read_to_string(path).unwrap();
        let at = text.find("-----BEGIN PRIVATE").unwrap();
        (text[..at].to_owned(), text[at..].to_owned())
    };
    fs::write(&a, key(&a).0 + &key(&b).1).unwrap();
    let (status, said) = larder(&["check-config", &config]);
    assert!(!status.success() && said.contains("a.pem: the private key is not that of"), "{said}");
    let (status, said) = it.setup.refused();
    assert!(!status.success() && said.contains("a.pem: the private key"), "{said}");
    assert!(!it.setup.cache().exists(), "nothing was created");
    fs::remove_file(&a).unwrap();
    let (status, said) = larder(&["check-config", &config]);
    assert!(!status.success() && said.contains("a.pem: No such file"), "{said}");
}
