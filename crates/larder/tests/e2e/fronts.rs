//! The fronts: forward proxy, tunnel, reverse proxy, and which clients may use them.

use std::net::TcpListener;
use std::process::Command;

use testkit::client::{Client, get, request};
use testkit::larder::Setup;
use testkit::origin::Origin;
use testkit::skip::skipped;

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
fn a_reverse_proxy_is_not_its_own_upstream() {
    let address = testkit::address::free();
    // The plain address is refused at start.
    let mapped = format!("http://[::ffff:{}]:{}", address.ip(), address.port());
    let larder = Setup::reverse(&mapped).listen(address).start();
    let reply = larder.get("/page");
    assert_eq!((reply.status, reply.outcome().as_str()), (403, "DENIED"));
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
