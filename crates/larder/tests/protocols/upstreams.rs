//! Protocols with origin servers: TLS and HTTP/2, with another Larder as the server. Also several
//! servers for a site, and what operators see of them.

use std::fs;

use rustix::process::Signal;
use testkit::authority::Authority;
use testkit::client::{Reply, get, request};
use testkit::io::eventually;
use testkit::larder::{Larder, Setup, larder};
use testkit::origin::Origin;

/// The server only accepts requests for its own name in TLS.
const OWN_NAME: &str = "reverse-host = 'upstream'\n";

/// A Larder that serves an origin over TLS as `localhost`, and logs the client and protocol of each
/// request.
struct Server {
    running: Larder,
    setup: Setup,
    authority: Authority,
    url: String,
}

fn server(origin: &Origin) -> Server {
    let (authority, address) = (Authority::new(), testkit::address::free_at_localhost());
    let setup = Setup::reverse(&origin.url(""));
    let chain = authority.issue_file(&setup.path(""), "localhost", &["localhost"]);
    let log = setup.path("server.log").display().to_string();
    let setup = setup
        .config(&format!(
            "pseudonym = 'server'\n[[listener]]\naddress = \"{address}\"\ntls = true\n\
             [[certificate]]\nchain = {chain:?}\n"
        ))
        .flag("access-log", &log)
        .flag("log-format", "json");
    let url = format!("https://localhost:{}", address.port());
    Server { running: setup.start(), setup, authority, url }
}

#[test]
fn larder_fetches_from_larder_over_tls_and_http2() {
    let origin = Origin::start();
    let server = server(&origin);
    let authority = server.authority.file_in(&server.setup.path(""));
    for (http2, version) in [("auto", "HTTP/2"), ("off", "HTTP/1.1")] {
        let text = format!("{OWN_NAME}[upstream]\ntls-ca = {authority:?}\nhttp2 = '{http2}'\n");
        let running = Setup::reverse(&server.url).config(&text).start();
        for (target, outcome) in [
            ("/page", "MISS"),
            ("/page", "HIT_RAM"),
            ("/large?size=3000000", "MISS"),
            ("/chunks?how=chunked&size=100000", "MISS"),
        ] {
            let target =
                format!("{target}{}by={http2}", if target.contains('?') { "&" } else { "?" });
            let reply = running.get(&target);
            reply.verify(&target);
            // The server's own member is on a line before this proxy's.
            let mut words = reply.head.headers.iter().filter(|(name, _)| name == "cache-status");
            let ours = words.next_back().map_or("", |(_, word)| word.as_str());
            let said = ours.starts_with("larder;") && ours.ends_with(outcome);
            assert!(said, "{target}: {ours}");
        }
        let log = server.setup.path("server.log");
        let said = |line: &str| line.contains(&format!("by={http2}")) && line.contains(version);
        let logged = || fs::read_to_string(&log).is_ok_and(|text| text.lines().any(said));
        assert!(eventually(logged), "{}", fs::read_to_string(&log).unwrap());
        // A response that is cut on the way is cut here.
        let cut =
            get(&format!("/cut?size=100000&how=short&by={http2}")).try_send(running.address());
        assert!(cut.is_ok_and(|cut| !cut.whole), "half an answer passed for a whole one");
    }
}

/// Returns the outcome reported by the last cache on the path.
fn outcome(reply: &Reply) -> String {
    let mut words = reply.head.headers.iter().filter(|(name, _)| name == "cache-status");
    let word = words.next_back().map_or("", |(_, word)| word.as_str());
    word.split("detail=").nth(1).unwrap_or(word).to_owned()
}

#[test]
fn neighbours_are_validated_on_the_connection_in_http2() {
    let origin = Origin::start();
    let server = server(&origin);
    let authority = server.authority.file_in(&server.setup.path(""));
    let text = format!(
        "{OWN_NAME}[upstream]\ntls-ca = {authority:?}\n[caching]\nvalidate-neighbours = 4\n"
    );
    let running = Setup::reverse(&server.url).flag("workers", "1").config(&text).start();
    let targets = ["page", "one", "two"].map(|name| format!("/a/{name}?etag=1"));
    for target in &targets {
        running.get(target).verify(target);
    }
    let outdate = request("POST", "/purge?everything=1&soft=1").body(b"");
    assert_eq!(running.admin_send(outdate).status, 200);
    assert_eq!(outcome(&running.get(&targets[0])), "REVALIDATED");
    let validated = "larder_neighbour_validations_total{result=\"validated\"} 2\n";
    assert!(eventually(|| running.metrics().contains(validated)), "{}", running.metrics());
    for target in &targets {
        let reply = running.get(target);
        reply.verify(target);
        assert_eq!(outcome(&reply), "HIT_RAM");
    }
    // All of that over one connection, twice for each: fetched and validated.
    let said = server.running.metrics();
    let connections = "larder_client_http_connections_total{version=\"2\"} 1\n";
    assert!(said.contains(connections), "{said}");
    let logged = || {
        let log = fs::read_to_string(server.setup.path("server.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("etag=1") && line.contains("HTTP/2")).count()
    };
    assert!(eventually(|| logged() == 6), "{} requests", logged());
}

#[test]
fn a_server_that_is_not_verified_is_used_with_a_warning() {
    let origin = Origin::start();
    let server = server(&origin);
    let careless = format!("{OWN_NAME}[upstream]\ntls-verify = false\n");
    let careless = Setup::reverse(&server.url).config(&careless).start();
    careless.get("/page").verify("/page");
    assert!(careless.says("ANYONE CAN IMPERSONATE AN ORIGIN SERVER"), "{}", careless.said());
}

#[test]
fn a_reload_takes_other_authorities() {
    let origin = Origin::start();
    let server = server(&origin);
    let setup = Setup::reverse(&server.url);
    let file = setup.path("ca.pem");
    fs::copy(Authority::new().file_in(&setup.path("")), &file).unwrap();
    let setup = setup.config(&format!("{OWN_NAME}[upstream]\ntls-ca = {file:?}\n"));
    let running = setup.start();
    assert_eq!(running.get("/page").status, 502);
    fs::copy(server.authority.file_in(&setup.path("")), &file).unwrap();
    running.signal(Signal::HUP);
    let believed = eventually(|| running.get("/page").status == 200);
    assert!(believed, "{}\n{}", running.get("/page").text(), running.said());
}

#[test]
fn files_that_tls_needs_are_missed_before_anything_starts() {
    let config = "[[site]]\nhosts = ['a.example']\nupstream = 'https://b.example'\n\
        tls-ca = '/nowhere/ca.pem'\n";
    let setup = Setup::forward().config(config);
    let path = setup.path("larder.toml").display().to_string();
    for (status, said) in [setup.refused(), larder(&["check-config", &path])] {
        assert!(!status.success());
        assert!(said.contains("a.example") && said.contains("/nowhere/ca.pem"), "{said}");
    }
    let config = "[upstream]\ntls-key = 'key.pem'\n";
    let (_, said) = Setup::forward().config(config).refused();
    assert!(said.contains("upstream.tls-certificate"), "{said}");
    for (list, wrong) in [
        ("[]", "at least one"),
        ("['http://a', 'http://a']", "given twice"),
        ("['http://a backup']", "no backup"),
        ("['http://a weight=x']", "weight=x"),
    ] {
        let config = format!("[[site]]\nhosts = ['a.example']\nupstream = {list}\n");
        let (_, said) = Setup::forward().config(&config).refused();
        assert!(said.contains("site.upstream") && said.contains(wrong), "{list}: {said}");
    }
}

#[test]
fn operators_see_how_the_servers_of_a_site_are() {
    let (origin, gone) = (Origin::start(), testkit::address::free());
    let good = origin.url("");
    let config = format!(
        "[[site]]\nname = 'www'\nhosts = ['127.0.0.1', 'a.example']\n\
         upstream = ['http://{gone}', '{good} weight=2']\nmax-fails = 1\nfail-timeout = '1h'\n"
    );
    let setup = Setup::forward().config(&config);
    let log = setup.path("access.log");
    let setup = setup.flag("access-log", &log.display().to_string()).flag("log-format", "json");
    let running = setup.start();
    for n in 0..4 {
        let target = format!("/page?n={n}");
        get(&target).header("Host", "a.example").send(running.address()).verify(&target);
    }
    let line = format!("upstream {gone} of site www is OUT OF USE: connection refused");
    assert!(running.says(&line), "{}", running.said());
    let view = || {
        let text = running.admin_send(get("/upstreams")).text();
        let view: serde_json::Value = serde_json::from_str(&text).unwrap();
        view["sites"][0].clone()
    };
    let site = view();
    assert_eq!(site["site"], "www");
    let states = [&site["servers"][0], &site["servers"][1]];
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&"failed".into(), &"up".into()));
    assert_eq!((&states[0]["failures"], &states[1]["requests"]), (&1.into(), &4.into()));
    assert_eq!(states[1]["weight"], 2);
    let up = format!("larder_upstream_server_up{{site=\"www\",server=\"{gone}\"}} 0");
    assert!(running.metrics().contains(&up), "{}", running.metrics());
    // The log names the server that responded, and all that were tried.
    let server = good.strip_prefix("http://").unwrap();
    let asked = format!("\"upstream\":\"{server}\",\"upstream_addr\":\"{gone}, {server}\"");
    let logged = || fs::read_to_string(&log).is_ok_and(|text| text.contains(&asked));
    assert!(eventually(logged), "{asked}: {}", fs::read_to_string(&log).unwrap());
    assert_eq!(site["queue"]["waiting"], 0);
    // Known states are kept.
    running.signal(Signal::HUP);
    assert!(running.says("no change takes effect"), "{}", running.said());
    assert_eq!(view()["servers"][0]["state"], "failed");
}
