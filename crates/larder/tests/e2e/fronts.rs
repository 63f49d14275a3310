//! The fronts: forward proxy, tunnel, reverse proxy, and which clients may use them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use testkit::client::{Client, get, request};
use testkit::larder::Setup;
use testkit::listener::echo;
use testkit::origin::Origin;
use testkit::skip::skipped;

#[test]
fn an_origin_form_request_to_a_forward_proxy_is_told_what_to_do() {
    let larder = Setup::forward().start();
    let reply = larder.get("/index.html");
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("proxy"), "{}", reply.text());
}

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let target = echo();
    let config = format!("connect-ports = [443, {}]\n", target.port());
    let larder = Setup::forward().config(&config).start();
    let mut connection = larder.connect();
    let open = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    connection.send(open.as_bytes());
    let reply = connection.read("CONNECT").unwrap();
    assert_eq!(reply.status, 200, "{:?}", reply.head);
    let mut stream = connection.stream();
    for word in ["hello", "again"] {
        stream.write_all(word.as_bytes()).unwrap();
        let mut back = vec![0; word.len()];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, word.to_uppercase().into_bytes());
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "the end passes through too");
}

#[test]
fn a_tunnel_to_another_port_is_refused() {
    let larder = Setup::forward().start();
    let reply = larder.send(&request("CONNECT", "127.0.0.1:25").header("Host", "127.0.0.1:25"));
    assert_eq!((reply.status, reply.outcome().as_str()), (403, "DENIED"));
}

#[test]
fn nobody_reaches_the_admin_interface_through_the_proxy() {
    let larder = Setup::forward().start();
    for url in [
        format!("http://{}/metrics", larder.admin()),
        format!("http://localhost:{}/metrics", larder.admin().port()),
        format!("http://0.0.0.0:{}/metrics", larder.admin().port()),
        format!("http://[::ffff:127.0.0.1]:{}/metrics", larder.admin().port()),
        format!("http://{}/", larder.address()),
    ] {
        let reply = larder.get(&url);
        assert_eq!((reply.status, reply.outcome().as_str()), (403, "DENIED"), "{url}");
    }
}

#[test]
fn a_request_that_comes_round_is_refused_as_a_loop() {
    let (here, there) = (testkit::address::free(), testkit::address::free());
    let one = Setup::reverse(&format!("http://{there}")).listen(here).start();
    let two = Setup::reverse(&format!("http://{here}")).listen(there).start();
    let reply = one.get("/page");
    assert!([502, 508].contains(&reply.status), "{:?}", reply.head);
    drop(two);
}

#[test]
fn a_reverse_proxy_is_not_its_own_upstream() {
    let address = testkit::address::free();
    let larder = Setup::reverse(&format!("http://{address}")).listen(address).start();
    let reply = larder.get("/page");
    assert_eq!((reply.status, reply.outcome().as_str()), (403, "DENIED"));
}

#[test]
fn a_reverse_proxy_serves_its_upstream_and_passes_the_host_on() {
    let origin = Origin::start();
    let larder = Setup::reverse(&origin.url("")).start();
    let target = "/page?size=3000";
    let ask = get(target).header("Host", "www.example.test");
    larder.send(&ask).verify(target);
    let again = larder.send(&ask);
    again.verify(target);
    assert_eq!(again.outcome(), "HIT_RAM");
    let seen = origin.requests_for(target);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].head.get("host"), Some("www.example.test"));
    assert!(seen[0].head.get("via").is_some(), "{:?}", seen[0]);
}

#[test]
fn the_upstream_of_a_reverse_proxy_never_follows_from_the_request() {
    let (origin, elsewhere) = (Origin::start(), Origin::start());
    let larder = Setup::reverse(&origin.url("")).start();
    let target = "/page?size=3000";
    let reply = larder.get(&elsewhere.url(target));
    assert_eq!(elsewhere.fetches(target), 0);
    assert!(reply.status != 200 || origin.fetches(target) == 1);
    let tunnel = request("CONNECT", "127.0.0.1:443").header("Host", "127.0.0.1:443");
    assert_eq!(larder.send(&tunnel).status, 405);
}

#[test]
fn an_upstream_that_is_not_there_at_start_is_no_error() {
    let address = testkit::address::free();
    let larder = Setup::reverse(&format!("http://{address}")).start();
    assert_eq!(larder.get("/page").status, 502);
    let origin = Origin::start_at(&address.to_string());
    larder.get("/page").verify("/page");
    assert_eq!(origin.fetches("/page"), 1);
}

#[test]
fn sites_are_told_apart_by_host() {
    let (one, two) = (Origin::start(), Origin::start());
    let config = format!(
        "[[site]]\nhosts = [\"one.test\"]\nupstream = \"{}\"\n\
         [[site]]\nhosts = [\"two.test\"]\nupstream = \"{}\"\n",
        one.url(""),
        two.url("")
    );
    let larder = Setup::forward().config(&config).start();
    two.change("/page");
    for (host, version) in [("one.test", "0"), ("two.test", "1"), ("one.test", "0")] {
        let reply = larder.send(&get("/page").header("Host", host));
        reply.verify("/page");
        assert_eq!(reply.header("x-version"), version, "{host}");
    }
    assert_eq!((one.fetches("/page"), two.fetches("/page")), (1, 1));
}

#[test]
fn hop_by_hop_headers_stay_on_their_hop() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?cc=no-store&h=Connection:X-Private&h=X-Private:1&h=X-Public:1";
    let ask = get(&origin.url(target))
        .header("Connection", "X-Mine")
        .header("X-Mine", "1")
        .header("X-Yours", "1")
        .header("Proxy-Authorization", "Basic eDp5")
        .header("TE", "trailers");
    let reply = larder.send(&ask);
    reply.verify(target);
    assert_eq!((reply.head.get("x-private"), reply.header("x-public")), (None, "1"));
    let seen = &origin.requests_for(target)[0].head;
    assert_eq!((seen.get("x-mine"), seen.get("x-yours")), (None, Some("1")));
    assert_eq!(seen.get("proxy-authorization"), None);
    assert!(seen.get("via").is_some());
}

#[test]
fn two_hosts_or_a_host_that_contradicts_the_url_are_refused_or_overruled() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let host = origin.address().to_string();
    let url = origin.url("/page");
    let two = get(&url).header("Host", &host).header("Host", "other.test");
    assert_eq!(larder.send(&two).status, 400);
    let other = larder.send(&get(&url).header("Host", "other.test"));
    if other.status == 200 {
        assert_eq!(origin.requests_for("/page")[0].head.get("host"), Some(host.as_str()));
    } else {
        assert_eq!(other.status, 400);
    }
}

#[test]
fn an_old_client_gets_a_body_that_it_can_delimit() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=100000&how=chunked";
    for _ in 0..2 {
        let mut connection = larder.connect();
        let ask = format!("GET {} HTTP/1.0\r\n\r\n", origin.url(target));
        connection.send(ask.as_bytes());
        let reply = connection.read("GET").unwrap();
        assert!(!reply.head.is_chunked(), "{:?}", reply.head);
        reply.verify(target);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let targets: Vec<String> = (0..10).map(|i| format!("/page{i}?size={}", 1 + i * 999)).collect();
    let mut connection = larder.connect();
    let all: Vec<u8> = targets.iter().flat_map(|t| get(&origin.url(t)).bytes()).collect();
    connection.send(&all);
    for target in &targets {
        connection.read("GET").unwrap().verify(target);
    }
}

#[test]
fn heads_beyond_the_limit_are_refused_with_a_431() {
    let larder = Setup::forward().start();
    let long = "x".repeat(200_000);
    let mut connection = larder.connect();
    // The program may close the connection before everything is written.
    let _ = connection.try_send(get("http://a.test/").header("X-Long", &long).bytes());
    if let Ok(reply) = connection.read("GET") {
        assert_eq!(reply.status, 431, "{:?}", reply.head);
    }
    let many = (0..8_000).fold(get("http://a.test/"), |r, i| r.header(&format!("X-{i}"), "1"));
    let mut connection = larder.connect();
    let _ = connection.try_send(many.bytes());
    if let Ok(reply) = connection.read("GET") {
        assert_eq!(reply.status, 431, "{:?}", reply.head);
    }
}

/// Returns an address of this machine that is not loopback.
fn other_address() -> Option<std::net::IpAddr> {
    // Connecting a datagram socket sends no packet, it only selects a route.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Runs `script` in a network namespace of its own; returns `None` if none is available.
fn in_namespace(script: &str) -> Option<std::process::Output> {
    let probe = Command::new("unshare").args(["-n", "true"]).output().ok()?;
    if !probe.status.success() {
        return None;
    }
    Command::new("unshare").args(["-n", "bash", "-c", script]).output().ok()
}

#[test]
fn clients_from_elsewhere_are_refused_and_told_so() {
    let Some(_) = in_namespace("ip link set lo up && command -v curl") else {
        return skipped("no network namespace (unshare -n)");
    };
    // A client with a non-loopback address of this machine needs a peer: a pair of interfaces, one
    // end in a namespace of its own.
    let setup = Setup::forward();
    let (cache, program) = (setup.cache(), testkit::larder::larder_path());
    let program = program.display();
    let script = format!(
        "set -e; ip link set lo up; \
         ip link add near type veth peer name far || {{ echo NOVETH; exit 0; }}; \
         unshare -n sleep 60 & there=$!; sleep 0.3; \
         ip link set far netns $there; ip addr add 10.9.8.1/24 dev near; ip link set near up; \
         nsenter -t $there -n ip addr add 10.9.8.2/24 dev far; \
         nsenter -t $there -n ip link set far up; \
         {program} serve --listen 10.9.8.1:3128 --admin 127.0.0.1:3129 --cache {} \
             --cache-size 16M --memory 16M & larder=$!; \
         for i in $(seq 100); do curl -sf http://127.0.0.1:3129/readyz >/dev/null && break; \
             sleep 0.1; done; \
         nsenter -t $there -n curl -s -i -x http://10.9.8.1:3128 http://192.0.2.1/ || true; \
         kill $larder $there; wait $larder || true",
        cache.display()
    );
    let Some(output) = in_namespace(&script) else { return skipped("no network namespace") };
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("NOVETH") || text.is_empty() {
        return skipped("no virtual interfaces, or no curl, in a network namespace");
    }
    assert!(text.contains(" 403 "), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("--allow"), "{text}");
}

#[test]
fn a_machine_s_own_clients_may_use_it_by_any_of_its_addresses() {
    let Some(address) = other_address() else {
        return skipped("this machine has no address besides loopback");
    };
    let listen = std::net::SocketAddr::new(address, testkit::address::free().port());
    let (origin, larder) = (Origin::start(), Setup::forward().listen(listen).start());
    let reply = larder.get(&origin.url("/page"));
    reply.verify("/page");
}

#[test]
fn it_serves_on_ipv6_too() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skipped("no IPv6 loopback address");
    }
    let origin = Origin::start_at("[::1]:0");
    let listen = format!("[::1]:{}", testkit::address::free().port()).parse().unwrap();
    let larder = Setup::forward().listen(listen).start();
    for outcome in ["MISS", "HIT_RAM"] {
        let mut connection = Client::open(listen).unwrap();
        let reply = get(&origin.url("/page")).send_on(&mut connection).unwrap();
        reply.verify("/page");
        assert_eq!(reply.outcome(), outcome);
    }
    drop(larder);
}

#[test]
fn curl_as_a_client_gets_the_same_bytes() {
    let Ok(version) = Command::new("curl").arg("--version").output() else {
        return skipped("no curl");
    };
    assert!(version.status.success());
    let (origin, larder) = (Origin::start(), Setup::forward().start());
    let target = "/page?size=123456&how=chunked";
    let proxy = format!("http://{}", larder.address());
    let direct = larder.get(&origin.url(target));
    for _ in 0..2 {
        let output = Command::new("curl")
            .args(["-sS", "--fail", "-x", &proxy, &origin.url(target)])
            .env("no_proxy", "")
            .env("NO_PROXY", "")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == direct.body, "curl got other bytes");
    }
    assert_eq!(origin.fetches(target), 1);
}
