//! Several servers for one site: how requests are distributed, which go to the next server, which
//! server is left out, and what happens when none is left. Also several addresses for one server.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::client::{Client, Reply};
use testkit::listener::black_hole;
use testkit::origin::{Origin, Then, ok};
use upstream::servers::balance::Balance;
use upstream::servers::group::{Group, GroupOptions, Next, Server};
use upstream::servers::health_check::HealthCheck;
use upstream::settings::endpoint::Endpoint as To;
use upstream::settings::lookup::{FoundAddresses, Lookup, LookupFuture};

use crate::rig::{Rig, wait_until};

const UNCACHED: &str = "Cache-Control: no-store\r\n";

fn to(address: SocketAddr) -> Server {
    Server::new(To::plain(&address.ip().to_string(), address.port()))
}

fn rig(servers: Vec<Server>, options: GroupOptions) -> Rig {
    Rig::reverse_to(Group::new("main", servers, options), |_| ())
}

/// Starts origins that respond with their number.
fn numbered(n: usize) -> Vec<Origin> {
    (0..n).map(|n| Origin::always(ok(UNCACHED, &n.to_string()))).collect()
}

fn ask(client: &mut Client, method: &str, path: &str) -> Reply {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
    client.answer_to(method)
}

/// Returns an address without a listener.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts an origin that closes every connection after it has read the request.
fn silent() -> Origin {
    Origin::scripted(|_, _| Then::Close)
}

#[test]
fn requests_are_distributed_by_weight() {
    let origins = numbered(3);
    let mut servers: Vec<_> = origins.iter().map(|origin| to(origin.address())).collect();
    servers[1].weight = 3;
    servers[2].backup = true;
    let rig = rig(servers, GroupOptions::default());
    let mut client = rig.client();
    for n in 0..8 {
        assert_eq!(ask(&mut client, "GET", &format!("/{n}")).status, 200);
    }
    let counts: Vec<_> = origins.iter().map(Origin::count).collect();
    assert_eq!(counts, [2, 6, 0]);
}

#[test]
fn url_hash_keeps_a_url_at_one_server() {
    let origins = numbered(4);
    let servers: Vec<_> = origins.iter().map(|origin| to(origin.address())).collect();
    let balance = Balance::UrlHash;
    let rig = rig(servers, GroupOptions { balance, ..GroupOptions::default() });
    let mut client = rig.client();
    let mut used = [0; 4];
    for n in 0..40 {
        let path = format!("/{n}");
        let first = ask(&mut client, "GET", &path).text();
        assert_eq!(ask(&mut rig.client(), "GET", &path).text(), first);
        used[first.parse::<usize>().unwrap()] += 1;
    }
    // The probability that a server gets none of 40 URLs is 1 in 100,000; the hash is fixed.
    assert!(used.iter().all(|&n| n > 0), "{used:?}");
}

#[test]
fn an_unreachable_server_is_skipped_and_taken_out_of_use() {
    let origins = numbered(1);
    let rig = rig(vec![to(nowhere()), to(origins[0].address())], GroupOptions::default());
    let mut client = rig.client();
    for method in ["GET", "POST", "GET", "POST", "GET", "POST", "GET"] {
        // Not even a POST was sent to a server that cannot be reached.
        assert_eq!(ask(&mut client, method, "/x").text(), "0", "{method}");
    }
    assert_eq!(origins[0].count(), 7);
}

#[test]
fn only_repeatable_requests_go_to_the_next_server() {
    let (broken, good) = (silent(), Origin::always(ok(UNCACHED, "good")));
    let max_fails = 0;
    let options = GroupOptions { max_fails, ..GroupOptions::default() };
    let rig = rig(vec![to(broken.address()), to(good.address())], options.clone());
    let mut client = rig.client();
    let statuses = |client: &mut Client, method: &str| {
        let mut all = [0, 1].map(|_| ask(client, method, "/x").status);
        all.sort();
        all
    };
    assert_eq!(statuses(&mut client, "GET"), [200, 200]);
    assert_eq!(statuses(&mut client, "DELETE"), [200, 200]);
    // The POST may have had its effect on the server that broke the connection.
    let before = (broken.count(), good.count());
    assert_eq!(statuses(&mut client, "POST"), [200, 502]);
    assert_eq!((broken.count(), good.count()), (before.0 + 1, before.1 + 1));
    // With the option switched off, other requests do not go to the next server either.
    let next = Next { error: false, timeout: false, statuses: Vec::new() };
    let servers = vec![to(broken.address()), to(good.address())];
    let rig =
        Rig::reverse_to(Group::new("main", servers, GroupOptions { next, ..options }), |_| ());
    assert_eq!(statuses(&mut rig.client(), "GET"), [200, 502]);
}

#[test]
fn a_failure_status_goes_to_the_next_server() {
    let failing = Origin::always("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno");
    let good = Origin::always(ok(UNCACHED, "good"));
    let next = Next { statuses: vec![http::StatusCode::SERVICE_UNAVAILABLE], ..Next::default() };
    let options = GroupOptions { next, max_fails: 0, ..GroupOptions::default() };
    let rig = rig(vec![to(failing.address()), to(good.address())], options);
    let mut client = rig.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "GET", "/x").text(), "good");
    }
    assert_eq!((failing.count(), good.count()), (2, 4));
    // The client gets the last server's response, whatever it is; the same holds for a POST.
    let mut statuses = [0, 1].map(|_| ask(&mut client, "POST", "/x").status);
    statuses.sort();
    assert_eq!(statuses, [200, 503]);
}

#[test]
fn all_failing_servers_are_still_tried_and_stale_responses_served() {
    let down = Arc::new(AtomicBool::new(false));
    let origin = |down: &Arc<AtomicBool>| {
        let down = down.clone();
        Origin::scripted(move |_, stream| {
            if down.load(SeqCst) {
                return Then::Close;
            }
            let fields = "Cache-Control: max-age=1, stale-if-error=600\r\nAge: 1\r\n";
            let _ = stream.write_all(ok(fields, "kept").as_bytes());
            Then::Stay
        })
    };
    let origins = [origin(&down), origin(&down)];
    let servers = origins.iter().map(|origin| to(origin.address())).collect();
    let fail_timeout = Duration::from_secs(600);
    let options = GroupOptions { max_fails: 1, fail_timeout, ..GroupOptions::default() };
    let rig = rig(servers, options);
    let mut client = rig.client();
    assert_eq!(ask(&mut client, "GET", "/kept").text(), "kept");
    down.store(true, SeqCst);
    let asked = || origins.iter().map(Origin::count).sum::<usize>();
    for path in ["/new", "/new", "/other"] {
        let before = asked();
        assert_eq!(ask(&mut client, "GET", path).status, 502);
        assert!(asked() > before);
    }
    let answer = ask(&mut client, "GET", "/kept");
    assert_eq!(answer.text(), "kept");
    assert!(answer.detail().starts_with("STALE"), "{}", answer.detail());
    // A server that responds again is used at once.
    down.store(false, SeqCst);
    assert_eq!([0, 1].map(|_| ask(&mut client, "GET", "/new").status), [200, 200]);
}

#[test]
fn one_trial_request_tests_a_failed_server() {
    let ill = Arc::new(AtomicBool::new(true));
    let state = ill.clone();
    let first = Origin::scripted(move |_, stream| {
        if state.load(SeqCst) {
            return Then::Close;
        }
        let _ = stream.write_all(ok(UNCACHED, "first").as_bytes());
        Then::Stay
    });
    let second = Origin::always(ok(UNCACHED, "second"));
    let fail_timeout = Duration::from_millis(50);
    let options = GroupOptions { max_fails: 1, fail_timeout, ..GroupOptions::default() };
    let rig = rig(vec![to(first.address()), to(second.address())], options);
    let mut client = rig.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "GET", "/x").text(), "second");
    }
    ill.store(false, SeqCst);
    let asked = Mutex::new(rig.client());
    wait_until("the first server is back", || {
        ask(&mut asked.lock().unwrap(), "GET", "/x").text() == "first"
    });
    let texts: Vec<_> = (0..4).map(|_| ask(&mut client, "GET", "/x").text()).collect();
    assert_eq!(texts.iter().filter(|text| *text == "first").count(), 2, "{texts:?}");
}

#[test]
fn checks_take_a_server_out_of_use_and_back() {
    let ill = Arc::new(AtomicBool::new(false));
    let state = ill.clone();
    let first = Origin::scripted(move |asked, stream| {
        let status = if state.load(SeqCst) { "500 Ill" } else { "200 OK" };
        let text = if asked.path == "/health" { "checked" } else { "first" };
        let length = text.len();
        let answer =
            format!("HTTP/1.1 {status}\r\n{UNCACHED}Content-Length: {length}\r\n\r\n{text}");
        let _ = stream.write_all(answer.as_bytes());
        Then::Stay
    });
    let second = Origin::always(ok(UNCACHED, "second"));
    let check = HealthCheck {
        interval: Duration::from_millis(20),
        rise: 1,
        fall: 2,
        ..HealthCheck::new("/health".parse().unwrap())
    };
    let options = GroupOptions { check: Some(check), ..GroupOptions::default() };
    let rig = rig(vec![to(first.address()), to(second.address())], options);
    let client = Mutex::new(rig.client());
    let texts = || {
        let mut client = client.lock().unwrap();
        let mut both = [0, 1].map(|_| ask(&mut client, "GET", "/x").text());
        both.sort();
        both
    };
    assert_eq!(texts(), ["first", "second"]);
    ill.store(true, SeqCst);
    wait_until("the first server is out of use", || texts() == ["second", "second"]);
    ill.store(false, SeqCst);
    wait_until("the first server is in use", || texts() == ["first", "second"]);
    let check = first.requests().into_iter().find(|asked| asked.path == "/health").unwrap();
    assert_eq!(check.field("host").unwrap(), first.address().to_string());
    assert!(check.field("user-agent").unwrap().contains("health check"));
}

/// Starts an origin that responds to `/held…` when the gate is opened, and to all else at once.
fn held(text: &'static str) -> (Origin, std::sync::mpsc::Sender<()>) {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let origin = Origin::scripted(move |asked, stream| {
        if asked.path.starts_with("/held") {
            // The gate is also open once it is dropped.
            let _ = gate.lock().unwrap().recv();
        }
        let _ = stream.write_all(ok(UNCACHED, text).as_bytes());
        Then::Stay
    });
    (origin, open)
}

#[test]
fn no_server_exceeds_its_request_limit() {
    let (first, open) = held("first");
    let (second, other) = held("second");
    let mut servers = vec![to(first.address()), to(second.address())];
    servers.iter_mut().for_each(|server| server.max_requests = Some(1));
    let rig = rig(servers, GroupOptions { queue: 0, ..GroupOptions::default() });
    let mut waiting = [rig.client(), rig.client()];
    for (n, client) in waiting.iter_mut().enumerate() {
        // Two requests for one URL would share a fetch.
        client.send(format!("GET /held/{n} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        wait_until("it was asked", || first.count() + second.count() == n + 1);
    }
    assert_eq!((first.count(), second.count()), (1, 1));
    let answer = ask(&mut rig.client(), "GET", "/x");
    assert_eq!((answer.status, answer.detail().as_str()), (503, "ERROR(upstream-busy)"));
    let error = answer.field("proxy-status").unwrap();
    assert!(error.ends_with("error=connection_limit_reached"), "{error}");
    open.send(()).unwrap();
    other.send(()).unwrap();
    for client in &mut waiting {
        assert_eq!(client.answer().status, 200);
    }
    wait_until("there is room again", || ask(&mut rig.client(), "GET", "/x").status == 200);
}

/// Returns the number of requests that wait for a server.
fn waiting(rig: &Rig) -> u32 {
    let options = rig.control.options();
    options.front.groups().map(|(_, group)| group.waiting()).sum()
}

#[test]
fn requests_queue_while_all_servers_are_busy() {
    let (only, open) = held("only");
    let mut server = to(only.address());
    server.max_requests = Some(1);
    let options = GroupOptions { queue: 2, ..GroupOptions::default() };
    let rig = rig(vec![server], options);
    let mut clients = [rig.client(), rig.client(), rig.client()];
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /held/{n} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        wait_until("it was asked, or waits", || only.count() == 1 && waiting(&rig) == n as u32);
    }
    // The queue is full.
    let answer = ask(&mut rig.client(), "GET", "/x");
    assert_eq!((answer.status, answer.detail().as_str()), (503, "ERROR(upstream-busy)"));
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(only.count(), n + 1);
        open.send(()).unwrap();
        assert_eq!(client.answer().status, 200);
        wait_until("the next one was asked", || only.count() == (n + 2).min(3));
    }
    let paths: Vec<_> = only.requests().iter().map(|asked| asked.path.clone()).collect();
    assert_eq!(paths, ["/held/0", "/held/1", "/held/2"]);
}

#[test]
fn a_queue_timeout_is_reported() {
    let (only, open) = held("only");
    let mut server = to(only.address());
    server.max_requests = Some(1);
    let queue_timeout = Duration::from_millis(50);
    let rig = rig(vec![server], GroupOptions { queue_timeout, ..GroupOptions::default() });
    let mut first = rig.client();
    first.send("GET /held HTTP/1.1\r\nHost: a.example\r\n\r\n");
    wait_until("it was asked", || only.count() == 1);
    let answer = ask(&mut rig.client(), "GET", "/x");
    assert_eq!((answer.status, answer.detail().as_str()), (503, "ERROR(upstream-busy)"));
    assert!(answer.text().contains("as many requests as they may"), "{}", answer.text());
    open.send(()).unwrap();
    assert_eq!(first.answer().status, 200);
}

#[test]
fn the_server_with_the_fewest_requests_gets_the_next() {
    let (first, open) = held("first");
    let second = Origin::always(ok(UNCACHED, "second"));
    let balance = Balance::LeastConnections;
    let options = GroupOptions { balance, ..GroupOptions::default() };
    let rig = rig(vec![to(first.address()), to(second.address())], options);
    let mut waiting = rig.client();
    waiting.send("GET /held HTTP/1.1\r\nHost: a.example\r\n\r\n");
    wait_until("the first was asked", || first.count() == 1);
    let mut client = rig.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "GET", "/x").text(), "second");
    }
    open.send(()).unwrap();
    assert_eq!(waiting.answer().text(), "first");
}

#[test]
fn an_origin_may_have_an_ipv6_address() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let address = listener.local_addr().unwrap();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let n = std::io::Read::read(&mut stream, &mut head).unwrap();
        stream.write_all(ok(UNCACHED, "six").as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..n]).to_ascii_lowercase()
    });
    let group = Group::new("main", vec![to(address)], GroupOptions::default());
    let rig = Rig::reverse_as(group, false);
    assert_eq!(ask(&mut rig.client(), "GET", "/x").text(), "six");
    let head = asked.join().unwrap();
    assert!(head.contains(&format!("host: {address}\r\n")), "{head}");
}

#[test]
fn the_host_is_that_of_the_chosen_server() {
    let origins = numbered(2);
    let servers = origins.iter().map(|origin| to(origin.address())).collect();
    let group = Group::new("main", servers, GroupOptions::default());
    let rig = Rig::reverse_as(group, false);
    let mut client = rig.client();
    for _ in 0..2 {
        ask(&mut client, "GET", "/x");
    }
    for origin in &origins {
        assert_eq!(origin.requests()[0].field("host").unwrap(), origin.address().to_string());
    }
}

/// A lookup in which every name has these addresses.
#[derive(Debug)]
struct Fixed {
    addresses: Mutex<Vec<IpAddr>>,
    ttl: Duration,
    asked: AtomicUsize,
}

impl Fixed {
    fn new(addresses: &[&str], ttl: Duration) -> Arc<Fixed> {
        let fixed = Fixed { addresses: Mutex::default(), ttl, asked: AtomicUsize::new(0) };
        fixed.set(addresses);
        Arc::new(fixed)
    }

    fn set(&self, addresses: &[&str]) {
        *self.addresses.lock().unwrap() = addresses.iter().map(|a| a.parse().unwrap()).collect();
    }
}

impl Lookup for Fixed {
    fn lookup<'a>(&'a self, _: &'a str) -> LookupFuture<'a> {
        self.asked.fetch_add(1, SeqCst);
        let found = FoundAddresses {
            addresses: self.addresses.lock().unwrap().clone(),
            ttl: Some(self.ttl),
        };
        Box::pin(async move { Ok(found) })
    }
}

#[test]
fn a_silent_address_does_not_delay_the_next() {
    let origin = Origin::always(ok(UNCACHED, "there"));
    let port = origin.address().port();
    let _hole = black_hole(SocketAddr::from(([127, 0, 0, 2], port)));
    let lookup = Fixed::new(&["127.0.0.2", "127.0.0.1"], Duration::from_secs(60));
    let group = Group::one(To::plain("two.example", port));
    let rig = Rig::reverse_to(group, |options| {
        options.upstream.lookup = lookup;
        options.upstream.stagger = Duration::from_millis(20);
    });
    assert_eq!(ask(&mut rig.client(), "GET", "/x").text(), "there");
    // Without a fallback address, the timeout expires.
    let lookup = Fixed::new(&["127.0.0.2"], Duration::from_secs(60));
    let group = Group::one(To::plain("one.example", port));
    let rig = Rig::reverse_to(group, |options| {
        options.upstream.lookup = lookup;
        options.upstream.connect_timeout = Duration::from_millis(100);
    });
    let answer = ask(&mut rig.client(), "GET", "/x");
    assert_eq!((answer.status, answer.detail().as_str()), (504, "ERROR(connect-timeout)"));
}

#[test]
fn a_changed_address_is_followed() {
    let first = Origin::always(ok(UNCACHED, "first"));
    let port = first.address().port();
    let moved = TcpListener::bind(("127.0.0.3", port)).unwrap();
    std::thread::spawn(move || {
        for mut stream in moved.incoming().flatten() {
            let mut head = [0; 1024];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let _ = stream.write_all(ok(UNCACHED, "second").as_bytes());
        }
    });
    // Held for the shortest permitted time, one second.
    let lookup = Fixed::new(&["127.0.0.1"], Duration::ZERO);
    let seen = lookup.clone();
    let group = Group::one(To::plain("moving.example", port));
    let rig = Rig::reverse_to(group, |options| options.upstream.lookup = seen);
    let client = Mutex::new(rig.client());
    let text = || ask(&mut client.lock().unwrap(), "GET", "/x").text();
    assert_eq!((text(), text()), ("first".to_owned(), "first".to_owned()));
    assert_eq!(lookup.asked.load(SeqCst), 1);
    lookup.set(&["127.0.0.3"]);
    // The connection to the old address is open, but no longer used.
    wait_until("the name is followed", || text() == "second");
}

#[test]
fn every_address_of_a_name_is_checked_for_the_client() {
    use net::address::Locals;
    use proxy::rules::access::{Access, Action, Rule};
    let origin = Origin::always(ok(UNCACHED, "there"));
    let port = origin.address().port();
    let _hole = black_hole(SocketAddr::from(([127, 0, 0, 2], port)));
    // The only address that responds is forbidden. That it comes after a permitted one must not
    // help.
    let lookup = Fixed::new(&["127.0.0.2", "127.0.0.1"], Duration::from_secs(60));
    let mut forbidden = Rule::new(Action::Deny);
    forbidden.destinations = vec!["127.0.0.1/32".parse().unwrap()];
    let rig = Rig::forward_with(|options| {
        let access = Access::new(
            proxy::observe::front_kind::FrontKind::Forward,
            Locals::of_this_machine().unwrap(),
        );
        options.access = Arc::new(access.rules(vec![forbidden]));
        options.upstream.lookup = lookup;
        options.upstream.stagger = Duration::from_millis(10);
        options.upstream.connect_timeout = Duration::from_millis(200);
    });
    let answer = rig.client().get(&format!("http://rebound.example:{port}/x"));
    assert_eq!((answer.status, answer.detail().as_str()), (504, "ERROR(connect-timeout)"));
    assert_eq!(origin.count(), 0);
}
