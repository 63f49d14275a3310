//! Plays tests to a proxy and checks the results.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::io::Read as _;
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use flate2::read::GzDecoder;
use tokio::time::sleep;

use super::explanation::Explanation;
use super::format::{Exchange, Expected, Front, Place, Plan, Step, Test, Way, What};
use super::origin::{ONLY, Origin};
use super::world::{World, patiently};
use crate::client::{Reply, request};
use crate::message::Head;
use crate::origin::Received;

/// The host of requests to a reverse proxy.
const HOST: &str = "site.test";

/// The addresses of the proxies.
pub struct Proxies {
    pub reverse: SocketAddr,
    /// Without one, the tests of a forward proxy are skipped.
    pub forward: Option<SocketAddr>,
    /// Without one, the tests of rules are skipped.
    pub rules: Option<SocketAddr>,
    /// Without one, the tests of what the RFC permits beyond careful sharing are skipped.
    pub rfc: Option<SocketAddr>,
    /// For proxies that explain their decisions: their admin addresses.
    pub explaining: HashMap<SocketAddr, SocketAddr>,
}

/// An expectation that was not met.
pub struct Failure {
    pub place: Place,
    pub test: String,
    pub cites: String,
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})\n  {}", self.place, self.test, self.cites, self.why)
    }
}

/// Plays all tests, many concurrently; returns the failures in the order of the scripts.
pub async fn play_all(
    world: &World,
    tests: &[Test],
    origin: &Origin,
    proxies: &Proxies,
) -> Vec<Failure> {
    // Those that wait longest begin first.
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(tests[at].waits()));
    let (next, failures) = (Cell::new(0), RefCell::new(Vec::new()));
    let play = async || {
        while let Some(&at) = order.get(next.replace(next.get() + 1)) {
            let test = &tests[at];
            let proxy = match test.front {
                Front::Reverse => Some(proxies.reverse),
                Front::Forward => proxies.forward,
                Front::Rules => proxies.rules,
                Front::Rfc => proxies.rfc,
            };
            let Some(proxy) = proxy else { continue };
            let admin = proxies.explaining.get(&proxy).copied();
            let player = Player { world, test, origin, proxy, admin, id: format!("t{at}") };
            if let Err((place, why)) = player.play().await {
                let (test, cites) = (test.name.clone(), test.cites.clone());
                failures.borrow_mut().push((at, Failure { place, test, cites, why }));
            }
        }
    };
    futures_util::future::join_all((0..world.players).map(|_| play())).await;
    let mut failures = failures.take();
    failures.sort_by_key(|(at, _)| *at);
    failures.into_iter().map(|(_, failure)| failure).collect()
}

/// Plays the tests of one proxy one after another, to an origin of one test at a time; returns the
/// failures.
pub async fn play_in_turn(
    world: &World,
    tests: &[Test],
    origin: &Origin,
    (proxy, admin): (SocketAddr, SocketAddr),
) -> Vec<Failure> {
    let mut failures = Vec::new();
    for test in tests {
        let (admin, id) = (Some(admin), ONLY.to_owned());
        let player = Player { world, test, origin, proxy, admin, id };
        if let Err((place, why)) = player.play().await {
            let (test, cites) = (test.name.clone(), test.cites.clone());
            failures.push(Failure { place, test, cites, why });
        }
    }
    failures
}

struct Player<'a> {
    world: &'a World,
    test: &'a Test,
    origin: &'a Origin,
    proxy: SocketAddr,
    admin: Option<SocketAddr>,
    id: String,
}

type Judged = Result<(), (Place, String)>;

impl Player<'_> {
    /// Plays all steps, even after a failed one: two programs are compared by what they do in all
    /// of them.
    async fn play(&self) -> Judged {
        let mut judged = Ok(());
        for step in &self.test.steps {
            match step {
                Step::Wait(seconds) => sleep(Duration::from_secs(*seconds)).await,
                Step::Exchange(exchange) => judged = judged.and(self.exchange(exchange).await),
            }
        }
        judged
    }

    async fn exchange(&self, exchange: &Exchange) -> Judged {
        let here = |why: String| (exchange.place.clone(), why);
        let plans: Vec<Plan> = exchange.plans.iter().map(|plan| self.filled_plan(plan)).collect();
        let (before, sent_before) = self.origin.stage(&self.id, |stage| {
            stage.plans = plans.into();
            (stage.seen.len(), stage.sent.len())
        });
        let foretold = patiently(self.explanation(exchange)).await;
        let foretold = foretold.map_err(|error| here(error.to_string()))?;
        let asked = (0..exchange.clients).map(|_| patiently(self.ask(exchange)));
        let replies = futures_util::future::try_join_all(asked).await;
        let replies = replies.map_err(|error| here(format!("no answer: {error}")))?;
        let [reply, others @ ..] = &replies[..] else { return Err(here("no client".to_owned())) };
        if exchange.behind {
            self.await_plans(exchange).await?;
        }
        let (seen, sent, left) = self.origin.stage(&self.id, |stage| {
            let left = stage.plans.iter().filter(|plan| plan.status.is_some()).count();
            stage.plans.clear();
            (stage.seen.split_at(before).1.to_vec(), stage.sent.clone(), left)
        });
        let told = |why: String| {
            let asked: Vec<_> =
                seen.iter().map(|s| format!("\n    origin saw {:?}", s.head)).collect();
            let got = format!("{:?} body {:?}", reply.head, reply.text());
            here(format!("{why}\n    client got {got}{}", asked.concat()))
        };
        if let Some(other) = others.iter().find(|other| other.body != reply.body) {
            return Err(told(format!("another client got {:?} {}", other.head, other.text())));
        }
        if reply.status != exchange.status {
            return Err(told(format!("expected {}, got {}", exchange.status, reply.status)));
        }
        if let Some(foretold) = foretold {
            let status = reply.head.get("cache-status");
            foretold.judge(status.unwrap_or_default()).map_err(told)?;
            foretold.judge_condition(seen.first().map(has_condition)).map_err(told)?;
        }
        judge_way(exchange, &seen, left).map_err(told)?;
        judge_body(exchange, reply, &sent, sent_before).map_err(told)?;
        for expected in &exchange.seen {
            let Some(last) = seen.last() else { return Err(told("the origin saw nothing".into())) };
            let body = String::from_utf8_lossy(&last.body).into_owned();
            let at = |why| (expected.place.clone(), format!("the origin: {why}"));
            self.check(expected, &last.head, &body, &[], &[]).map_err(at)?;
        }
        for expected in &exchange.answer {
            let at = |why| (expected.place.clone(), format!("the client: {why}"));
            let Reply { head, interim, trailers, .. } = reply;
            self.check(expected, head, &reply.text(), interim, trailers).map_err(at)?;
        }
        Ok(())
    }

    /// Waits for a fetch in the background.
    async fn await_plans(&self, exchange: &Exchange) -> Judged {
        let asked = async {
            while self.origin.stage(&self.id, |stage| !stage.plans.is_empty()) {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        };
        if patiently(asked).await.is_err() {
            return Err((exchange.place.clone(), "the origin was not asked behind it".into()));
        }
        // The origin has sent its response; the cache takes a moment to store it.
        sleep(Duration::from_millis(200)).await;
        Ok(())
    }

    /// Returns the proxy's explanation of a request; `None` if it does not explain this kind.
    async fn explanation(&self, exchange: &Exchange) -> io::Result<Option<Explanation>> {
        let Some(admin) = self.admin else { return Ok(None) };
        let url = self.url(&exchange.suffix);
        let fields = exchange.fields.iter().map(|(name, value)| (&**name, self.filled(value)));
        let fields: Vec<_> = fields.collect();
        Explanation::ask(self.world, admin, &exchange.method, &url, &fields, exchange.from).await
    }

    async fn ask(&self, exchange: &Exchange) -> io::Result<Reply> {
        let network = self.world.network_of(exchange.from);
        let stream = network.connect(self.proxy).await?;
        let url = self.url(&exchange.suffix);
        let rest = url.strip_prefix("http://").unwrap_or_default();
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (target, host) = match self.test.front {
            _ if exchange.method == "CONNECT" => (&*exchange.suffix, &*exchange.suffix),
            Front::Forward => (&*url, host),
            _ => (path, host),
        };
        let mut asked = request(&exchange.method, target).header("Host", host);
        for (name, value) in &exchange.fields {
            asked = asked.header(name, &self.filled(value));
        }
        if let Some(body) = &exchange.body {
            asked = asked.body(body.as_bytes());
        }
        let (reply, bytes) = asked.exchange(stream).await?;
        if !reply.whole {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.origin.stage(&self.id, |stage| stage.replies.push(bytes));
        Ok(reply)
    }

    /// Returns the URL of a request: `suffix` itself, or below the test's own URL.
    fn url(&self, suffix: &str) -> String {
        match suffix.starts_with("http://") {
            true => self.filled(suffix),
            false => self.filled(&format!("{{url}}{suffix}")),
        }
    }

    /// Fills in the names in braces in a text.
    fn filled(&self, text: &str) -> String {
        let path = if self.id == ONLY { String::new() } else { format!("/{}", self.id) };
        let host = if self.test.front == Front::Forward {
            self.origin.address().to_string()
        } else {
            HOST.to_owned()
        };
        let mut text = text.replace("{url}", &format!("http://{host}{path}"));
        text = text.replace("{path}", &path).replace("{host}", &host);
        text = self.origin.filled(&text);
        for form in ["date", "rfc850", "asctime"] {
            while let Some(begin) = text.find(&format!("{{{form}")) {
                let end = begin + text[begin..].find('}').expect("what begins with { ends with }");
                let shift = &text[begin + 1 + form.len()..end];
                let shift: i64 = if shift.is_empty() { 0 } else { shift.parse().expect("seconds") };
                let date = date(form, self.world.clock.since_1970().as_secs(), shift);
                text.replace_range(begin..=end, &date);
            }
        }
        text
    }

    fn filled_plan(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        for (_, value) in &mut plan.fields {
            *value = self.filled(value);
        }
        plan
    }

    fn check(
        &self,
        expected: &Expected,
        head: &Head,
        body: &str,
        interim: &[Head],
        trailers: &[(String, String)],
    ) -> Result<(), String> {
        match &expected.what {
            What::Field(name, value) => check_field(&head.headers, name, &self.filled(value)),
            What::None(name) => match joined(&head.headers, name) {
                Some(value) => Err(format!("{name} must not be there, is {value:?}")),
                None => Ok(()),
            },
            What::Body(text) if text == body => Ok(()),
            What::Body(text) => Err(format!("expected the body {text:?}, got {body:?}")),
            What::Interim(status, field) => {
                let found = interim.iter().any(|head| {
                    let fields =
                        head.headers.iter().map(|(name, value)| format!("{name}: {value}"));
                    head.status().ok() == Some(*status)
                        && fields.collect::<Vec<_>>().join(", ").eq_ignore_ascii_case(field)
                });
                found.then_some(()).ok_or_else(|| format!("no {status} {field:?} in {interim:?}"))
            }
            What::Trailer(name, value) => check_field(trailers, name, value),
        }
    }
}

fn has_condition(seen: &Received) -> bool {
    ["if-none-match", "if-modified-since"].iter().any(|name| seen.head.get(name).is_some())
}

/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn judge_way(exchange: &Exchange, seen: &[Received], left: usize) -> Result<(), String> {
    let conditional = seen.iter().any(has_condition);
    match exchange.way {
        Way::Any => return Ok(()),
        Way::Cached if exchange.behind => {}
        Way::Cached if !seen.is_empty() => {
            return Err("expected a stored answer, but the origin was asked".into());
        }
        Way::Cached => return Ok(()),
        _ if seen.is_empty() => return Err("expected that the origin is asked".into()),
        Way::Fetched if conditional => return Err("the origin was asked with a condition".into()),
        Way::Validated if !conditional => return Err("asked without a condition".into()),
        Way::Fetched | Way::Validated | Way::Asked => {}
    }
    if left > 0 { Err(format!("{left} planned answers were not asked for")) } else { Ok(()) }
}

/// Checks that a complete response to a GET has a body that the origin sent: now, or before.
fn judge_body(
    exchange: &Exchange,
    reply: &Reply,
    sent: &[String],
    sent_before: usize,
) -> Result<(), String> {
    let is_told = exchange.answer.iter().any(|expected| matches!(expected.what, What::Body(_)));
    // The response to a purge is the program's own.
    let own = ["HEAD", "PURGE", "BAN", "URIBAN", "REFRESH"].contains(&exchange.method.as_str());
    let bodiless = own || [204, 206, 304, 416].contains(&reply.status);
    let came_now = match exchange.way {
        Way::Cached => false,
        Way::Fetched => true,
        _ => return Ok(()),
    };
    if is_told || bodiless || reply.status >= 500 && sent.is_empty() {
        return Ok(());
    }
    let (earlier, now) = sent.split_at(sent_before);
    let body = match reply.head.get("content-encoding") {
        // The origin of the scripts sends text whatever its fields say.
        Some("gzip") if reply.body.starts_with(&GZIP) => {
            let mut text = String::new();
            let read = GzDecoder::new(&reply.body[..]).read_to_string(&mut text);
            read.map_err(|error| format!("the body is not gzip: {error}"))?;
            text
        }
        // Other codings are tested with their encoders.
        Some("br" | "zstd") => return Ok(()),
        _ => reply.text(),
    };
    let right = if came_now { now.last() == Some(&body) } else { earlier.contains(&body) };
    right.then_some(()).ok_or_else(|| "the body is not what the origin sent".into())
}

fn joined(fields: &[(String, String)], name: &str) -> Option<String> {
    let lines =
        fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
    let lines: Vec<&str> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

fn check_field(fields: &[(String, String)], name: &str, wanted: &str) -> Result<(), String> {
    let Some(value) = joined(fields, name) else {
        return Err(format!("{name} is missing, expected {wanted:?}"));
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let range = wanted.split_once("..").and_then(|(low, high)| Some(number(low)?..=number(high)?));
    let right = if wanted == "*" {
        true
    } else if let Some(range) = range {
        number(&value).is_some_and(|value| range.contains(&value))
    } else if let Some(part) = wanted.strip_prefix("~ ") {
        value.contains(part)
    } else if let Some(part) = wanted.strip_prefix("!~ ") {
        !value.contains(part)
    } else {
        value == wanted
    };
    right.then_some(()).ok_or_else(|| format!("{name} is {value:?}, expected {wanted:?}"))
}

fn date(form: &str, now: u64, shift: i64) -> String {
    let then = now.saturating_add_signed(shift);
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(then));
    if form == "date" {
        return text;
    }
    // Sun, 06 Nov 1994 08:49:37 GMT
    let parts: Vec<&str> = text.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let [weekday, day, month, year, time, _] = parts[..] else { panic!("no date: {text}") };
    if form == "asctime" {
        let day = day.trim_start_matches('0');
        return format!("{weekday} {month} {day:>2} {time} {year}");
    }
    let long = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let weekday = long.iter().find(|long| long.starts_with(weekday)).expect("a weekday");
    format!("{weekday}, {day}-{month}-{} {time} GMT", &year[2..])
}
