//! The process: configuration errors, signals, descriptors, the admin interface.

use std::fs;
use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use testkit::client::{Client, get, request};
use testkit::io::eventually;
use testkit::larder::{Setup, larder, percent};
use testkit::origin::Origin;

use crate::sharing::raise_descriptor_limit;

#[test]
fn a_wrong_configuration_is_refused_with_file_line_key_and_what_was_expected() {
    let setup = Setup::forward().config("memory = \"64M\"\nworkers = \"many\"\n");
    let path = setup.path("larder.toml").display().to_string();
    let (status, said) = larder(&["check-config", &path]);
    assert!(!status.success());
    for part in [path.as_str(), ":2", "workers", "expected"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    let (status, said) = setup.refused();
    assert!(!status.success());
    assert!(said.contains("workers"), "{said}");
    fs::write(&path, "memory = \"64M\"\n").unwrap();
    let (status, said) = larder(&["check-config", &path]);
    assert!(status.success(), "{said}");
}

#[test]
fn an_unknown_flag_and_a_wrong_value_are_named() {
    for words in [["serve", "--no-such-flag"], ["serve", "--memory=1K"], ["serve", "--allow=x"]] {
        let (status, said) = larder(&words);
        assert!(!status.success(), "{words:?}");
        let flag = words[1].split('=').next().unwrap();
        assert!(said.contains(flag), "{words:?}: {said}");
    }
}

#[test]
fn the_start_up_says_what_is_served_and_where_the_cache_is() {
    let setup = Setup::forward();
    let running = setup.start();
    for part in [
        running.address().to_string(),
        running.admin().to_string(),
        setup.cache().display().to_string(),
    ] {
        assert!(running.says(&part), "{part} is missing: {}", running.said());
    }
}

#[test]
fn sighup_reopens_the_access_log() {
    let setup = Setup::forward();
    let (log, old) = (setup.path("access.log"), setup.path("access.log.1"));
    let setup = setup.flag("access-log", &log.display().to_string());
    let (origin, running) = (Origin::start(), setup.start());
    running.get(&origin.url("/before"));
    let holds = |path: &std::path::Path, text: &str| {
        eventually(|| fs::read_to_string(path).is_ok_and(|t| t.contains(text)))
    };
    assert!(holds(&log, "/before"));
    fs::rename(&log, &old).unwrap();
    running.signal(Signal::HUP);
    assert!(eventually(|| log.exists()), "{}", running.said());
    running.get(&origin.url("/after"));
    assert!(holds(&log, "/after"));
    assert!(!fs::read_to_string(&old).unwrap().contains("/after"));
}

#[test]
fn idle_clients_make_way_when_descriptors_run_out() {
    raise_descriptor_limit();
    // The connection limit follows from the descriptors; here it must not be reached first.
    let setup = Setup::forward().config("[client]\nconnections = 1000\n");
    let setup = setup.descriptors(96).flag("workers", "1");
    let (origin, running) = (Origin::start(), setup.start());
    let mut idle: Vec<Client> = Vec::new();
    for n in 0..200 {
        let mut connection = running.connect();
        if n % 2 == 0 {
            get(&origin.url("/page")).send_on(&mut connection).unwrap().verify("/page");
        }
        idle.push(connection);
    }
    // Also responses that are not stored, which need a new connection to the origin.
    for n in 0..20 {
        let target = format!("/other{n}");
        running.get(&origin.url(&target)).verify(&target);
    }
    let healthy = get("/healthz").header("Host", "localhost").send(running.admin());
    assert_eq!(healthy.status, 200);
    let metrics = running.metrics();
    let made_way = metrics.lines().find_map(|line| {
        line.strip_prefix("larder_client_connections_made_way_total ")?.parse::<u64>().ok()
    });
    assert!(made_way.is_some_and(|n| n > 100), "{metrics}");
    drop(idle);
    running.stop();
}

#[test]
fn running_out_of_descriptors_pauses_and_recovers() {
    raise_descriptor_limit();
    // The connection limit follows from the descriptors; here it must not be reached first.
    let setup = Setup::forward().config("[client]\nconnections = 1000\n");
    let setup = setup.descriptors(96).flag("workers", "1");
    let (origin, running) = (Origin::start(), setup.start());
    // Far more than sockets hold: a client that requests it without reading keeps its connection
    // busy.
    let large = "/large?size=12000000";
    running.get(&origin.url(large)).verify(large);
    let mut busy = Vec::new();
    for _ in 0..300 {
        // The backlog accepts some connections beyond those accepted by the program; it may also be
        // full.
        let address = running.address();
        let Ok(mut stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1))
        else {
            break;
        };
        // Each takes one descriptor, so that none is left for a connection that makes way for the
        // next: a client whose upstream could not be connected to.
        let host = origin.address();
        let url = origin.url(large);
        write!(stream, "GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        busy.push(stream);
    }
    assert!(busy.len() > 96);
    assert!(running.says("cannot accept"), "{}", running.said());
    drop(busy);
    let recovered =
        || get(&origin.url("/page")).try_send(running.address()).is_ok_and(|r| r.status == 200);
    assert!(eventually(recovered), "{}", running.said());
    let lines = running.said().lines().filter(|l| l.contains("cannot accept")).count();
    assert!((1..=4).contains(&lines), "{lines} lines about descriptors: {}", running.said());
    running.stop();
}

#[test]
fn the_admin_interface_answers_only_to_names_that_cannot_be_rebound() {
    let running = Setup::forward().start();
    let ask = |request: testkit::client::Request| request.send(running.admin()).status;
    assert_eq!(ask(get("/healthz").header("Host", "localhost")), 200);
    assert_eq!(ask(get("/healthz").header("Host", "127.0.0.1:3129")), 200);
    assert!((400..500).contains(&ask(get("/healthz").header("Host", "evil.example"))));
    let purge = request("POST", "/purge?url=http%3A%2F%2Fa.test%2F").header("Host", "localhost");
    assert!(
        (400..500).contains(&ask(purge.clone().header("Origin", "http://evil.example").body(b"")))
    );
    let by_get = get("/purge?url=http%3A%2F%2Fa.test%2F").header("Host", "localhost");
    assert_eq!(ask(by_get), 405);
    let nonsense = request("POST", &format!("/purge?url={}", percent("not a url")));
    assert_eq!(ask(nonsense.header("Host", "localhost").body(b"")), 400);
    assert_eq!(ask(get("/nothing").header("Host", "localhost")), 404);
}

#[test]
fn metrics_are_in_the_format_of_prometheus() {
    let (origin, running) = (Origin::start(), Setup::forward().start());
    for _ in 0..2 {
        running.get(&origin.url("/page"));
    }
    for line in running.metrics().lines().filter(|l| !l.is_empty()) {
        if line == "# EOF" {
            continue;
        }
        if line.starts_with('#') {
            let kind = line.split(' ').nth(1).unwrap_or_default();
            assert!(["HELP", "TYPE"].contains(&kind), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(["larder_", "process_"].iter().any(|p| series.starts_with(p)), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn many_idle_connections_and_quick_ones_live_together() {
    raise_descriptor_limit();
    let (origin, running) = (Origin::start(), Setup::forward().start());
    let idle: Vec<Client> = (0..200).map(|_| running.connect()).collect();
    for _ in 0..50 {
        running.get(&origin.url("/page")).verify("/page");
    }
    drop(idle);
    running.stop();
}
