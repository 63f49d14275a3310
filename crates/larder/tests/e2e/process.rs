//! The process: its descriptors, its metrics, its access log.

use std::io::Write;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use testkit::client::{Client, get};
use testkit::io::eventually;
use testkit::larder::Setup;
use testkit::origin::Origin;

/// Raises this process's limit of open sockets to the maximum.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit may be raised to the hard one");
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
fn a_rule_keeps_requests_out_of_the_access_log() {
    let setup = Setup::forward().config("[[rule]]\npaths = ['/quiet']\nlog-percent = 0\n");
    let path = setup.path("access.log");
    let setup = setup.flag("access-log", &path.display().to_string());
    let (origin, larder) = (Origin::start(), setup.start());
    larder.get(&origin.url("/quiet"));
    larder.get(&origin.url("/loud"));
    larder.stop();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count(), text.contains("/loud")), (1, true), "{text}");
}

#[test]
fn a_site_has_an_access_log_of_its_own() {
    let origin = Origin::start();
    let setup = Setup::forward();
    let [all, own] = ["all.log", "own.log"].map(|name| setup.path(name));
    let site = |host: &str, log: &str| {
        format!("[[site]]\nhosts = ['{host}']\nupstream = ['{}']\n{log}", origin.url(""))
    };
    let own_log = format!("access-log = '{}'\n", own.display());
    let sites =
        site("a.test", "") + &site("b.test", &own_log) + &site("c.test", "access-log = 'off'");
    let format = "{site} {status} {upstream_status} {response.cache-control}";
    let setup = setup.config(&sites).flag("log-format", format);
    let setup = setup.flag("access-log", &all.display().to_string());
    let larder = setup.start();
    for host in ["a.test", "b.test", "b.test", "c.test"] {
        larder.send(&get("/page").header("Host", host));
    }
    larder.stop();
    let [all, own] = [all, own].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(all, "a.test 200 200 max-age=3600\n");
    // Each request has a connection of its own, and a line once that has ended.
    let mut own: Vec<&str> = own.lines().collect();
    own.sort();
    assert_eq!(own, ["b.test 200 - max-age=3600", "b.test 200 200 max-age=3600"]);
}

#[test]
fn the_access_log_names_the_outcome_in_each_format() {
    for (format, hit) in [("combined", "HIT_RAM"), ("json", "HIT_RAM"), ("squid", "TCP_MEM_HIT")] {
        let setup = Setup::forward();
        let path = setup.path("access.log");
        let name = path.display().to_string();
        let setup = setup.flag("access-log", &name).flag("log-format", format);
        let (origin, larder) = (Origin::start(), setup.start());
        let url = origin.url("/page");
        let with_secret = url.replace("http://", "http://user:secret@");
        larder.get(&url);
        larder.get(&url);
        larder.send(&get(&with_secret).header("Host", &origin.address().to_string()));
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        assert!(eventually(|| read().lines().count() >= 3), "{format}: {}", read());
        let text = read();
        // Each has a connection of its own, and a line once it has ended: in any order.
        let hits = text.lines().filter(|line| line.contains(hit)).count();
        assert_eq!((hits, text.lines().count()), (2, 3), "{format}: {text}");
        assert!(!text.contains("secret"), "{format}: {text}");
    }
}
