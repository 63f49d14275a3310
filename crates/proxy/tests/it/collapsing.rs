//! Requests that wait for one fetch: which of them may share its response, which sends the next
//! request, and which fetch for themselves.
//!
//! A response with `max-age=1` and `Age: 1` expires on arrival, like one that takes a second to
//! arrive, so no test has to wait for it.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use proxy::observe::event::Event;
use proxy::rules::request_rules::{Condition, Rule, Rules};
use semantics::{ClientReload, Lifetime, Lifetimes, Seconds, Settings};
use testkit::client::{Client, Reply, request_text};
use testkit::origin::{Origin, Received, Then, ok};

use crate::rig::{Rig, wait_until};

const USED_UP: &str = "Cache-Control: max-age=1\r\nAge: 1\r\nETag: \"v\"\r\n";
/// Minimum duration of a response: without it, the response would have expired when it was
/// requested.
const MOMENT: Duration = Duration::from_millis(2);
const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Holds responses of an origin back until the test releases them.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<usize>, Condvar)>);

impl Gate {
    fn open(&self, count: usize) {
        *self.0.0.lock().unwrap() += count;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut left = self.0.1.wait_while(self.0.0.lock().unwrap(), |left| *left == 0).unwrap();
        *left -= 1;
    }
}

/// Starts an origin that computes its response on arrival of the request, and sends it when the
/// gate is open.
fn gated(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> (Origin, Gate) {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::scripted(move |asked, stream| {
        let answer = answer(asked);
        held.pass();
        thread::sleep(MOMENT);
        send(stream, &answer)
    });
    (origin, gate)
}

fn send(stream: &mut TcpStream, answer: &str) -> Then {
    match stream.write_all(answer.as_bytes()) {
        Ok(()) if !answer.is_empty() => Then::Stay,
        _ => Then::Close,
    }
}

/// Returns a 304 if the condition matches the current validator, else the body.
fn validating(asked: &Received, fields: &str, body: &str) -> String {
    match asked.field("if-none-match").is_some_and(|tags| tags.contains("\"v\"")) {
        true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
        false => ok(fields, body),
    }
}

struct Waiters(Vec<JoinHandle<Reply>>);

impl Waiters {
    fn answers(self) -> Vec<Reply> {
        self.0.into_iter().map(|waiter| waiter.join().unwrap()).collect()
    }
}

fn ask(rig: &Rig, method: &'static str, url: &str, fields: &str) -> JoinHandle<Reply> {
    let mut client = rig.client();
    client.send(request_text(method, url, fields));
    thread::spawn(move || client.answer_to(method))
}

/// Starts `count` clients that send the same request and wait for the running fetch.
fn followers(rig: &Rig, count: usize, url: &str, fields: &str) -> Waiters {
    let joined = || rig.seen.metrics.total(Event::FollowerJoined);
    let before = joined();
    let waiters = (0..count).map(|_| ask(rig, "GET", url, fields)).collect();
    wait_until("all wait", || joined() == before + count as u64);
    Waiters(waiters)
}

/// Starts one client with a running fetch, and `count` clients that wait for it.
fn together(rig: &Rig, origin: &Origin, count: usize, url: &str) -> (JoinHandle<Reply>, Waiters) {
    let before = origin.count();
    let leader = ask(rig, "GET", url, "");
    origin.await_count(before + 1);
    (leader, followers(rig, count, url, ""))
}

/// Returns the action that the proxy would take on a request, as its admin interface explains it.
fn explained(rig: &Rig, method: &str, url: &str, fields: &[&str]) -> String {
    let fields: String = fields.iter().map(|field| format!("&header={field}")).collect();
    let request = format!("GET /explain?url={url}&method={method}{fields} HTTP/1.1\r\n");
    let answer = Client::connect(rig.admin).send(request + "Host: localhost\r\n\r\n").answer();
    let told: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    told["would"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[test]
fn explain_says_whether_a_request_would_join_a_fetch() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::scripted(move |_, stream| {
        held.pass();
        stream.write_all(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n").unwrap();
        stream.write_all(b"Age: 5\r\nETag: \"v\"\r\nContent-Length: 4\r\n\r\n").unwrap();
        held.pass();
        send(stream, "body")
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let would = |method, fields: &[&str]| explained(&rig, method, &url, fields);
    for method in ["GET", "HEAD"] {
        assert_eq!(would(method, &[]), "ask the origin");
    }
    let (leader, waiters) = together(&rig, &origin, 1, &url);
    for method in ["GET", "HEAD"] {
        assert_eq!(would(method, &[]), "join the running fetch: its response has not arrived yet");
    }
    // A reload must get a response that was requested after it.
    assert_eq!(would("GET", &["Cache-Control:+no-cache"]), "ask the origin");
    assert_eq!(would("GET", &["Cache-Control:+no-store"]), "pass it on (no-store)");
    gate.open(1);
    let late = "join the running fetch: fresh, ";
    wait_until("the head has come", || would("GET", &[]).starts_with(late));
    assert_eq!(would("GET", &["Cache-Control:+max-age%3D4"]), "ask the origin");
    let another = followers(&rig, 1, &url, "");
    gate.open(1);
    assert_eq!(leader.join().unwrap().detail(), "MISS");
    for answer in waiters.answers().iter().chain(&another.answers()) {
        assert_eq!(answer.detail(), "HIT_FILL");
    }
    wait_until("it is stored", || would("GET", &[]).starts_with("answer from the cache: fresh"));
    assert_eq!(origin.count(), 1, "who asks for an explanation asks no origin");
}

#[test]
fn waiting_requests_share_a_response_that_expires_on_arrival() {
    let (origin, gate) = gated(|asked| validating(asked, USED_UP, "body"));
    let rig = Rig::forward();
    let url = origin.url("/");
    for (fetches, detail) in [(1, "HIT_FILL"), (2, "REVALIDATED"), (3, "REVALIDATED")] {
        let (leader, waiters) = together(&rig, &origin, 50, &url);
        gate.open(1);
        assert_eq!(leader.join().unwrap().text(), "body");
        for answer in waiters.answers() {
            assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("body", detail));
            assert_eq!(answer.field("age").unwrap(), "1");
        }
        assert_eq!(origin.count(), fetches);
    }
}

#[test]
fn requests_after_the_head_of_an_expired_response_wait_for_the_next() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::scripted(move |asked, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{USED_UP}Content-Length: 4\r\n\r\n");
        // The first body is delayed to the end, the second head until all requests wait for it.
        let halves = [head.as_str(), "body"];
        thread::sleep(MOMENT);
        let (now, later) = halves.split_at(usize::from(asked.number == 0));
        now.iter().for_each(|bytes| stream.write_all(bytes.as_bytes()).unwrap());
        held.pass();
        later.iter().for_each(|bytes| stream.write_all(bytes.as_bytes()).unwrap());
        Then::Stay
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    let head = first.head();
    let (leader, waiters) = together(&rig, &origin, 20, &url);
    gate.open(2);
    for answer in waiters.answers() {
        assert_eq!((answer.text().as_str(), answer.detail().as_str()), ("body", "HIT_FILL"));
    }
    assert_eq!(leader.join().unwrap().detail(), "MISS");
    assert_eq!(first.rest(head, "GET").text(), "body");
    assert_eq!(origin.count(), 2);
}

#[test]
fn an_unshareable_response_sends_all_waiting_requests_at_once() {
    const CLIENTS: usize = 20;
    for fields in [
        "Cache-Control: private\r\n",
        "Cache-Control: no-store\r\n",
        "Cache-Control: no-cache\r\nETag: \"v\"\r\n",
        "Cache-Control: max-age=0\r\nETag: \"v\"\r\n",
        "Cache-Control: max-age=60\r\nAge: 61\r\nETag: \"v\"\r\n",
        "Cache-Control: max-age=60\r\nAge: 99999999999999999999\r\nETag: \"v\"\r\n",
        "Vary: *\r\nETag: \"v\"\r\nCache-Control: max-age=60\r\n",
        "Set-Cookie: a=b\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    ] {
        let (origin, gate) = gated(|asked| validating(asked, fields, "body"));
        let rig = Rig::forward();
        let url = origin.url("/");
        let (leader, waiters) = together(&rig, &origin, CLIENTS, &url);
        gate.open(1);
        assert_eq!(leader.join().unwrap().text(), "body");
        origin.await_count(1 + CLIENTS);
        // Requests that arrive now do not wait either.
        let late = ask(&rig, "GET", &url, "");
        origin.await_count(2 + CLIENTS);
        gate.open(1 + CLIENTS);
        for answer in waiters.answers().into_iter().chain([late.join().unwrap()]) {
            assert_eq!(answer.text(), "body", "{fields}");
        }
    }
}

#[test]
fn clients_with_credentials_never_wait_for_each_other() {
    const CLIENTS: usize = 10;
    for field in ["Authorization: Basic eDp5\r\n", "X-API-Key: 1\r\n"] {
        let (origin, gate) = gated(|_| ok("", "body"));
        let rig = Rig::forward();
        let url = origin.url("/");
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| ask(&rig, "GET", &url, field)).collect();
        origin.await_count(CLIENTS);
        // A client without credentials does not wait for a response that may be private either.
        clients.push(ask(&rig, "GET", &url, ""));
        origin.await_count(CLIENTS + 1);
        // Requests with credentials do not wait for its fetch either.
        clients.push(ask(&rig, "GET", &url, field));
        origin.await_count(CLIENTS + 2);
        gate.open(CLIENTS + 2);
        for client in clients {
            assert_eq!(client.join().unwrap().text(), "body", "{field}");
        }
    }
}

#[test]
fn requests_of_another_rule_wait_for_their_own_fetch() {
    let rule = |name: &str, headers: &[&str]| {
        let unsaid = Some(Lifetime::Same(Seconds::new(60)));
        let lifetimes = Lifetimes { unsaid, ..Lifetimes::default() };
        let settings = Settings { lifetimes, ..Settings::default() };
        let headers = headers.iter().map(|test| test.parse().unwrap()).collect();
        let when = Condition { headers, ..Condition::default() };
        Rule { when, ..Rule::new(name.to_owned(), settings) }
    };
    let session = |asked: &Received| asked.field("cookie").unwrap_or_default();
    let (origin, gate) = gated(move |asked| ok("", &format!("for {}", session(asked))));
    let rig = Rig::forward_with(|options| {
        let rules = vec![rule("members", &["Cookie: *session=*"]), rule("visitors", &[])];
        options.rules = Rules::new(rules, &Settings::default());
    });
    let url = origin.url("/");
    let visitor = ask(&rig, "GET", &url, "");
    origin.await_count(1);
    let member = ask(&rig, "GET", &url, "Cookie: session=1\r\n");
    origin.await_count(2);
    gate.open(2);
    assert_eq!(visitor.join().unwrap().text(), "for ");
    assert_eq!(member.join().unwrap().text(), "for session=1");
}

#[test]
fn each_waits_for_its_own_variant() {
    let languages = ["a", "b"].map(|language| format!("Accept-Language: {language}\r\n"));
    let own = |asked: &Received| asked.field("accept-language").unwrap();
    // Only the first response shows that there are variants.
    let (origin, gate) =
        gated(move |asked| ok(&format!("{FRESH}Vary: Accept-Language\r\n"), &own(asked)));
    let rig = Rig::forward();
    let url = origin.url("/");
    let leader = ask(&rig, "GET", &url, &languages[0]);
    origin.await_count(1);
    let waiters = languages.each_ref().map(|fields| followers(&rig, 10, &url, fields));
    gate.open(2);
    assert_eq!(leader.join().unwrap().text(), "a");
    for (waiters, own) in waiters.into_iter().zip(["a", "b"]) {
        waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), own));
    }
    assert_eq!(origin.count(), 2);
    // After that each variant has its own fetch.
    let fields = "Cache-Control: max-age=1\r\nAge: 1\r\nVary: Accept-Language\r\n";
    let (origin, gate) = gated(move |asked| ok(fields, &own(asked)));
    let url = origin.url("/");
    gate.open(2);
    languages.iter().for_each(|fields| drop(rig.client().get_with(&url, fields)));
    let leaders = languages.each_ref().map(|fields| ask(&rig, "GET", &url, fields));
    origin.await_count(4);
    let waiters = languages.each_ref().map(|fields| followers(&rig, 10, &url, fields));
    gate.open(2);
    for ((leader, waiters), own) in leaders.into_iter().zip(waiters).zip(["a", "b"]) {
        assert_eq!(leader.join().unwrap().text(), own);
        waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), own));
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn a_slow_fetch_is_repeated_once() {
    for first in [0, 1] {
        // On a busy machine the clients may not all have arrived in time: try longer times.
        let mut waits = [1_500, 6_000, 24_000].map(Duration::from_millis).into_iter();
        assert!(waits.any(|wait| asked_once_more(first, wait)), "the machine is too slow for this");
    }
}

/// Returns whether the case occurred: all clients waited before `wait` had passed. Of the two
/// fetches, `first` gets its response first, and all waiting clients share that response.
fn asked_once_more(first: usize, wait: Duration) -> bool {
    let begun = Arc::new(AtomicUsize::new(0));
    let gates = [Gate::default(), Gate::default()];
    let (number, held) = (begun.clone(), gates.clone());
    let origin = Origin::scripted(move |_, stream| {
        held[number.fetch_add(1, SeqCst).min(1)].pass();
        send(stream, &ok(FRESH, "body"))
    });
    let rig = Rig::forward_with(|options| options.fill.wait = wait);
    let began = Instant::now();
    let (leader, waiters) = together(&rig, &origin, 50, &origin.url("/"));
    if began.elapsed() >= wait {
        gates.iter().for_each(|gate| gate.open(1_000));
        return false;
    }
    origin.await_count(2);
    gates[first].open(1);
    let most = 2 + began.elapsed().as_millis() / wait.as_millis();
    for answer in waiters.answers() {
        assert_eq!(answer.text(), "body");
    }
    assert!((origin.count() as u128) <= most, "{} fetches", origin.count());
    gates.iter().for_each(|gate| gate.open(1_000));
    assert_eq!(leader.join().unwrap().text(), "body");
    true
}

#[test]
fn a_reload_does_not_disturb_waiting_requests() {
    let (origin, gate) = gated(|asked| ok(USED_UP, &asked.number.to_string()));
    let rig = Rig::forward();
    let url = origin.url("/");
    let (leader, waiters) = together(&rig, &origin, 20, &url);
    let reloads: Vec<_> = ["no-cache", "max-age=0"]
        .map(|directive| ask(&rig, "GET", &url, &format!("Cache-Control: {directive}\r\n")))
        .into();
    origin.await_count(3);
    gate.open(3);
    assert_eq!(leader.join().unwrap().text(), "0");
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "0"));
    Waiters(reloads).answers().iter().for_each(|answer| assert_ne!(answer.text(), "0"));
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_request_with_stricter_directives_fetches_alone() {
    let (origin, gate) = gated(|asked| ok(USED_UP, &asked.number.to_string()));
    let rig = Rig::forward();
    let url = origin.url("/");
    let leader = ask(&rig, "GET", &url, "");
    origin.await_count(1);
    let content = followers(&rig, 5, &url, "Cache-Control: max-age=5\r\n");
    let strict = followers(&rig, 3, &url, "Cache-Control: min-fresh=9\r\n");
    let only = ask(&rig, "GET", &url, "Cache-Control: only-if-cached\r\n");
    assert_eq!(only.join().unwrap().status, 504);
    gate.open(1);
    assert_eq!(leader.join().unwrap().text(), "0");
    content.answers().iter().for_each(|answer| assert_eq!(answer.text(), "0"));
    origin.await_count(4);
    gate.open(3);
    strict.answers().iter().for_each(|answer| assert_ne!(answer.text(), "0"));
}

#[test]
fn a_cancelled_leader_does_not_affect_waiting_requests() {
    let (origin, gate) = gated(|_| ok(USED_UP, "body"));
    let rig = Rig::forward();
    let url = origin.url("/");
    let mut leader: Client = rig.client();
    leader.send(request_text("GET", &url, ""));
    origin.await_count(1);
    let waiters = followers(&rig, 20, &url, "");
    drop(leader);
    gate.open(1);
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "body"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn one_request_that_breaks_its_connection_does_not_fail_the_others() {
    for (broken, fetches, status) in [(2, 3, 200), (9, 4, 502)] {
        // The leader itself does not retry after a malformed response on a fresh connection.
        let (origin, gate) = gated(move |asked| match asked.number {
            number if number < broken => "HTTP/1.1 nonsense\r\n\r\n".to_owned(),
            _ => ok(FRESH, "body"),
        });
        let rig = Rig::forward();
        let url = origin.url("/");
        let (leader, waiters) = together(&rig, &origin, 10, &url);
        gate.open(100);
        assert_eq!(leader.join().unwrap().status, 502);
        let answers = waiters.answers();
        let good = answers.iter().filter(|answer| answer.status == 200).count();
        assert!(answers.iter().all(|answer| [200, 502].contains(&answer.status)));
        assert!(origin.count() <= fetches, "{} fetches", origin.count());
        assert_eq!(good > 0, status == 200 && origin.count() == 3, "{good} good ones");
    }
}

#[test]
fn a_failing_origin_is_asked_once_for_all_stale_responses() {
    let stored = "Cache-Control: max-age=1, stale-if-error=600\r\nAge: 1\r\n";
    let (origin, gate) = gated(move |asked| match asked.number {
        0 => ok(stored, "body"),
        _ => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned(),
    });
    // The failure is not remembered.
    let rig = Rig::forward_with(|options| options.fill.stale_refresh_time = Duration::ZERO);
    let url = origin.url("/");
    for fetches in 1..4 {
        let (leader, waiters) = together(&rig, &origin, 20, &url);
        gate.open(1);
        assert_eq!(leader.join().unwrap().text(), "body");
        waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "body"));
        assert_eq!(origin.count(), fetches);
    }
}

#[test]
fn heads_and_ranges_wait_as_well() {
    let (origin, gate) = gated(|_| ok(USED_UP, "0123456789"));
    let rig = Rig::forward();
    let url = origin.url("/");
    for fetches in 1..3 {
        let (leader, waiters) = together(&rig, &origin, 3, &url);
        let ranges = followers(&rig, 3, &url, "Range: bytes=2-4\r\n");
        let joined = rig.seen.metrics.total(Event::FollowerJoined);
        let heads: Vec<_> = (0..3).map(|_| ask(&rig, "HEAD", &url, "")).collect();
        wait_until("they wait", || rig.seen.metrics.total(Event::FollowerJoined) == joined + 3);
        gate.open(1);
        assert_eq!(leader.join().unwrap().text(), "0123456789");
        waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "0123456789"));
        for answer in ranges.answers() {
            assert_eq!((answer.status, answer.text().as_str()), (206, "234"));
        }
        for answer in Waiters(heads).answers() {
            assert_eq!((answer.status, answer.text().as_str()), (200, ""));
            assert_eq!(answer.field("content-length").unwrap(), "10");
        }
        assert_eq!(origin.count(), fetches);
    }
}

#[test]
fn an_unsatisfiable_range_affects_no_other_request() {
    let (origin, gate) = gated(|asked| match asked.field("range") {
        Some(_) => "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n".to_owned(),
        None => ok(FRESH, "body"),
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let leader = ask(&rig, "GET", &url, "Range: bytes=900-\r\n");
    origin.await_count(1);
    let waiters = followers(&rig, 20, &url, "");
    gate.open(1);
    assert_eq!(leader.join().unwrap().status, 416);
    origin.await_count(2);
    gate.open(1);
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "body"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn requests_do_not_wait_for_a_part_that_cannot_be_combined() {
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/10\r\nContent-Length: 4";
    let (origin, gate) = gated(move |asked| match asked.field("range") {
        Some(_) => format!("{part}\r\n{FRESH}\r\n0123"),
        None => ok(FRESH, "0123456789"),
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    let leader = ask(&rig, "GET", &url, "Range: bytes=0-3\r\n");
    origin.await_count(1);
    let waiters = followers(&rig, 20, &url, "");
    gate.open(1);
    assert_eq!(leader.join().unwrap().text(), "0123");
    origin.await_count(2);
    gate.open(1);
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "0123456789"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn all_waiting_requests_share_an_expired_part() {
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/10\r\nContent-Length: 4";
    let (origin, gate) = gated(move |_| format!("{part}\r\n{USED_UP}\r\n0123"));
    let rig = Rig::forward();
    let url = origin.url("/");
    let leader = ask(&rig, "GET", &url, "Range: bytes=0-3\r\n");
    origin.await_count(1);
    let waiters = followers(&rig, 20, &url, "Range: bytes=0-3\r\n");
    gate.open(1);
    for answer in waiters.answers().into_iter().chain([leader.join().unwrap()]) {
        assert_eq!((answer.status, answer.text().as_str()), (206, "0123"));
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_304_for_the_first_client_makes_others_fetch_once() {
    let fields = "Cache-Control: max-age=60\r\nETag: \"v\"\r\n";
    let (origin, gate) = gated(move |asked| validating(asked, fields, "body"));
    let rig = Rig::forward();
    let url = origin.url("/");
    let has = "If-None-Match: \"v\"\r\n";
    let leader = ask(&rig, "GET", &url, has);
    origin.await_count(1);
    let (waiters, others) = (followers(&rig, 20, &url, has), followers(&rig, 5, &url, ""));
    gate.open(1);
    assert_eq!(leader.join().unwrap().status, 304);
    origin.await_count(2);
    gate.open(1);
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.status, 304));
    others.answers().iter().for_each(|answer| assert_eq!(answer.text(), "body"));
    assert_eq!(origin.count(), 2);
}

/// Checks in real time, as clients and origins experience it: whatever the lifetime and the
/// duration of a response, the origin has at most one request for it at a time.
#[test]
fn an_origin_has_one_request_for_a_resource_at_a_time() {
    let now = Arc::new(Mutex::new(std::collections::HashMap::<String, (usize, usize)>::new()));
    let table = now.clone();
    let origin = Origin::scripted(move |asked, stream| {
        let word = |at: usize| asked.path.split('/').nth(at).unwrap();
        let count = |by: isize| {
            let mut table = table.lock().unwrap();
            let (now, most) = table.entry(asked.path.clone()).or_default();
            *now = now.checked_add_signed(by).unwrap();
            *most = (*most).max(*now);
        };
        count(1);
        thread::sleep(Duration::from_millis(word(1).parse().unwrap()));
        // Before the response: the next request may arrive as soon as it is sent.
        count(-1);
        let tag = if word(3) == "tag" { "ETag: \"v\"\r\n" } else { "" };
        let fields = format!("Cache-Control: {}\r\n{tag}", word(2));
        send(stream, &validating(asked, &fields, "body"))
    });
    let rig = Rig::forward();
    let until = Instant::now() + Duration::from_millis(3500);
    let clients: Vec<_> = ["30", "300", "1100"]
        .into_iter()
        .flat_map(|delay| ["max-age=1", "max-age=1,stale-while-revalidate=1"].map(|cc| (delay, cc)))
        .flat_map(|(delay, cc)| ["tag", "none"].map(|tag| format!("/{delay}/{cc}/{tag}")))
        .flat_map(|path| vec![origin.url(&path); 8])
        .map(|url| {
            let mut client = rig.client();
            thread::spawn(move || {
                while Instant::now() < until {
                    assert_eq!(client.get(&url).text(), "body");
                    thread::sleep(Duration::from_millis(10));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    for (path, (_, most)) in now.lock().unwrap().iter() {
        assert_eq!(*most, 1, "requests for {path} at a time");
    }
}

/// Starts a proxy whose reloads share fetches.
fn sharing_reloads() -> Rig {
    Rig::forward_with(|options| options.semantics.client_reload = ClientReload::Share)
}

#[test]
fn reloads_during_a_fetch_share_the_next_one() {
    let reloads = ["no-cache", "max-age=0", "min-fresh=9999"];
    for (is_stored, directive) in
        reloads.map(|directive| [(false, directive), (true, directive)]).concat()
    {
        let (origin, gate) = gated(|asked| ok(FRESH, &asked.number.to_string()));
        let rig = sharing_reloads();
        let (url, fields) = (origin.url("/"), format!("Cache-Control: {directive}\r\n"));
        if is_stored {
            gate.open(1);
            rig.client().get(&url);
        }
        let before = origin.count();
        let leader = ask(&rig, "GET", &url, &fields);
        origin.await_count(before + 1);
        let later = followers(&rig, 20, &url, &fields);
        let plain = followers(&rig, if is_stored { 0 } else { 5 }, &url, "");
        gate.open(1);
        assert_eq!(leader.join().unwrap().text(), before.to_string());
        plain.answers().iter().for_each(|answer| assert_eq!(answer.text(), before.to_string()));
        origin.await_count(before + 2);
        gate.open(1);
        let next = (before + 1).to_string();
        later.answers().iter().for_each(|answer| assert_eq!(answer.text(), next));
        assert_eq!(origin.count(), before + 2, "{directive}");
    }
}

#[test]
fn shared_fetches_of_no_store_requests_store_nothing() {
    let (origin, gate) = gated(|asked| ok(FRESH, &asked.number.to_string()));
    let rig = sharing_reloads();
    let (url, fields) = (origin.url("/"), "Cache-Control: no-store\r\n");
    let leader = ask(&rig, "GET", &url, fields);
    origin.await_count(1);
    let others = followers(&rig, 20, &url, fields);
    // A request whose response may be stored has a fetch of its own, which stores it.
    let plain = ask(&rig, "GET", &url, "");
    origin.await_count(2);
    gate.open(2);
    let theirs = leader.join().unwrap();
    assert_eq!(theirs.detail(), "BYPASS(no-store)");
    others.answers().iter().for_each(|answer| assert_eq!(answer.text(), theirs.text()));
    let kept = plain.join().unwrap().text();
    assert_ne!(kept, theirs.text());
    assert_eq!(rig.client().get(&url).text(), kept);
    assert_eq!(origin.count(), 2);
}

#[test]
fn heads_wait_only_for_a_head_whose_response_is_stored() {
    for (fields, fetches) in [(FRESH, 1), ("Cache-Control: no-store\r\n", 6)] {
        let (origin, gate) =
            gated(move |_| format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 10\r\n\r\n"));
        let rig = Rig::forward();
        let url = origin.url("/");
        let leader = ask(&rig, "HEAD", &url, "");
        origin.await_count(1);
        let joined = rig.seen.metrics.total(Event::FollowerJoined);
        let heads: Vec<_> = (0..5).map(|_| ask(&rig, "HEAD", &url, "")).collect();
        wait_until("they wait", || rig.seen.metrics.total(Event::FollowerJoined) == joined + 5);
        gate.open(1);
        origin.await_count(fetches);
        gate.open(fetches);
        for answer in [vec![leader], heads].map(Waiters).into_iter().flat_map(Waiters::answers) {
            assert_eq!(answer.field("content-length").unwrap(), "10");
        }
        assert_eq!(origin.count(), fetches);
    }
}

#[test]
fn ranges_that_cannot_be_cut_from_a_running_fetch_get_all_of_it() {
    let chunked = "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";
    for range in ["bytes=2-4", "bytes=-2", "bytes=0-1,5-6", "items=0-1"] {
        let (origin, gate) = gated(move |_| format!("HTTP/1.1 200 OK\r\n{FRESH}{chunked}"));
        let rig = Rig::forward();
        let (url, fields) = (origin.url("/"), format!("Range: {range}\r\n"));
        let leader = ask(&rig, "GET", &url, &fields);
        origin.await_count(1);
        let others = followers(&rig, 10, &url, &fields);
        gate.open(1);
        for answer in [leader.join().unwrap()].into_iter().chain(others.answers()) {
            assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{range}");
        }
        assert_eq!(origin.count(), 1);
    }
}

#[test]
fn a_private_response_to_a_cookie_does_not_separate_the_others() {
    let (origin, gate) = gated(|asked| match asked.field("cookie") {
        Some(_) => ok("Cache-Control: private\r\n", "mine"),
        None => ok(FRESH, "all"),
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    gate.open(1);
    assert_eq!(rig.client().get_with(&url, "Cookie: user=1\r\n").text(), "mine");
    let (leader, waiters) = together(&rig, &origin, 20, &url);
    gate.open(1);
    assert_eq!(leader.join().unwrap().text(), "all");
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.text(), "all"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn heads_that_reload_share_the_next_head() {
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 10\r\n\r\n");
    let (origin, gate) = gated(move |_| head.clone());
    let rig = sharing_reloads();
    let (url, fields) = (origin.url("/"), "Cache-Control: no-cache\r\n");
    let leader = ask(&rig, "HEAD", &url, fields);
    origin.await_count(1);
    let joined = || rig.seen.metrics.total(Event::FollowerJoined);
    let heads: Vec<_> = (0..10).map(|_| ask(&rig, "HEAD", &url, fields)).collect();
    wait_until("they wait", || joined() == 10);
    gate.open(1);
    origin.await_count(2);
    wait_until("the others wait", || joined() == 19);
    gate.open(1);
    for answer in [vec![leader], heads].map(Waiters).into_iter().flat_map(Waiters::answers) {
        assert_eq!(answer.field("content-length").unwrap(), "10");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_cancelled_head_is_repeated_by_one_waiting_request() {
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 10\r\n\r\n");
    let (origin, gate) = gated(move |_| head.clone());
    let rig = Rig::forward();
    let url = origin.url("/");
    let mut leader = rig.client();
    leader.send(request_text("HEAD", &url, ""));
    origin.await_count(1);
    let heads: Vec<_> = (0..10).map(|_| ask(&rig, "HEAD", &url, "")).collect();
    wait_until("they wait", || rig.seen.metrics.total(Event::FollowerJoined) == 10);
    leader.reset();
    origin.await_count(2);
    gate.open(2);
    Waiters(heads).answers().iter().for_each(|answer| assert_eq!(answer.status, 200));
    assert_eq!(origin.count(), 2);
}

#[test]
fn reloads_during_a_body_share_the_next_fetch() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::scripted(move |asked, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 4\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        if asked.number == 0 {
            held.pass();
        }
        send(stream, &format!("{:04}", asked.number))
    });
    let rig = sharing_reloads();
    let url = origin.url("/");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    first.head();
    let fields = "Cache-Control: no-cache\r\n";
    let reloads = Waiters((0..10).map(|_| ask(&rig, "GET", &url, fields)).collect());
    reloads.answers().iter().for_each(|answer| assert_eq!(answer.text(), "0001"));
    gate.open(1);
    assert_eq!(origin.count(), 2);
}

#[test]
fn later_clients_do_not_wait_for_a_stalled_body() {
    let origin = Origin::scripted(move |asked, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 4\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        match asked.number {
            0 => Then::Stay,
            _ => send(stream, "body"),
        }
    });
    let wait = Duration::from_secs(1);
    let rig = Rig::forward_with(|options| options.fill.wait = wait);
    let url = origin.url("/");
    let mut first = rig.client();
    first.send(request_text("GET", &url, ""));
    first.head();
    thread::sleep(wait);
    assert_eq!(rig.client().get(&url).text(), "body");
    assert_eq!(origin.count(), 2);
}

#[test]
fn clients_that_wait_at_a_silent_origin_get_its_timeout() {
    let origin = Origin::scripted(|_, _| Then::Stay);
    let rig = Rig::forward_with(|options| {
        options.upstream.head_timeout = Duration::from_millis(400);
        options.fill.wait = Duration::from_millis(100);
    });
    let (leader, waiters) = together(&rig, &origin, 3, &origin.url("/"));
    assert_eq!(leader.join().unwrap().status, 504);
    waiters.answers().iter().for_each(|answer| assert_eq!(answer.status, 504));
    // The first fetch, and what the waiting clients began before it failed.
    assert!(origin.count() <= 4, "{} fetches", origin.count());
}

/// The first of two fetches of a URL ends last: with its head, or only with its body. The responses
/// before it, `unshareable` in number, cannot be stored.
fn a_slow_response_is_not_stored_over_a_later_one(unshareable: usize, is_head_late: bool) {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::scripted(move |asked, stream| {
        if asked.number < unshareable {
            return send(stream, &ok("Cache-Control: no-store\r\n", "none"));
        }
        let is_first = asked.number == unshareable;
        let age = Duration::from_secs(if is_first { 6 } else { 0 });
        let date = httpdate::fmt_http_date(SystemTime::now() - age);
        let body = if is_first { "old" } else { "new" };
        let text = ok(&format!("{FRESH}Date: {date}\r\n"), body);
        let (head, body) = text.split_at(if is_head_late { 0 } else { text.len() - 1 });
        stream.write_all(head.as_bytes()).unwrap();
        if is_first {
            held.pass();
        }
        send(stream, body)
    });
    let rig = Rig::forward();
    let url = origin.url("/");
    for _ in 0..unshareable {
        assert_eq!(rig.client().get(&url).text(), "none");
    }
    let first = ask(&rig, "GET", &url, "");
    origin.await_count(unshareable + 1);
    if is_head_late {
        // Ages are whole seconds.
        thread::sleep(Duration::from_millis(1_100));
    }
    let reload = ask(&rig, "GET", &url, "Cache-Control: no-cache\r\n");
    assert_eq!(reload.join().unwrap().text(), "new");
    gate.open(1);
    assert_eq!(first.join().unwrap().text(), "old");
    assert_eq!(rig.client().get(&url).text(), "new");
}

#[test]
fn a_late_head_is_not_stored_over_a_later_response() {
    a_slow_response_is_not_stored_over_a_later_one(0, true);
}

#[test]
fn a_late_head_of_an_unshareable_url_is_not_stored_over_a_later_response() {
    a_slow_response_is_not_stored_over_a_later_one(1, true);
}

#[test]
fn a_late_body_is_not_stored_over_a_later_response() {
    a_slow_response_is_not_stored_over_a_later_one(0, false);
}
