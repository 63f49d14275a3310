//! This crate's rules compared with those of the crate `http-cache-semantics`, on random exchanges.
//!
//! Wherever the two disagree, one of [`STORING`] must give the reason, with the RFC section
//! that settles it. An explanation names the direction and the feature of the exchange that causes
//! the difference, so that it cannot excuse any other. An explanation that no longer applies to any
//! case fails the test too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_cache_semantics::{CacheOptions, CachePolicy};
use larder_semantics::date;
use larder_semantics::facts::TargetFacts;
use larder_semantics::reuse;
use larder_semantics::reuse::StalePermit;
use larder_semantics::storability;
use larder_semantics::{
    ExchangeTimes, NotStorable, Packed, RequestFacts, Reuse, Seconds, Settings, Sharing, Time,
};

use crate::seed::{Rng, SeedGuard, seed};

const CASES: u32 = 60_000;
const RECEIVED: u64 = 1_800_000_000;

/// One exchange, and a later request for the same thing.
#[derive(Debug)]
struct Case {
    method: Method,
    first: HeaderMap,
    status: StatusCode,
    response: HeaderMap,
    second: HeaderMap,
    elapsed: u64,
}

/// The results of both sides for a case.
#[derive(Debug)]
struct Verdicts {
    ours_storable: Result<(), NotStorable>,
    theirs_storable: bool,
    ours_reuse: Reuse,
    ours_serves: bool,
    theirs_serves: bool,
    ours_age: u64,
    theirs_age: u64,
    ours_lifetime: u64,
    theirs_ttl_at_receipt: u64,
}

impl Case {
    fn draw(rng: &mut Rng) -> Case {
        let statuses = [200, 200, 200, 203, 204, 301, 302, 404, 410, 500, 299];
        let status = statuses[rng.below(statuses.len() as u64) as usize];
        Case {
            method: if rng.chance(95) { Method::GET } else { Method::HEAD },
            first: draw_request(rng),
            status: StatusCode::from_u16(status).unwrap(),
            response: draw_response(rng),
            second: draw_request(rng),
            // Often at once, where the rounding of ages shows.
            elapsed: if rng.chance(10) { 0 } else { rng.below(140) },
        }
    }

    /// Returns whether a line of field `name` in `headers`, in lower case, contains `text`.
    fn says(headers: &HeaderMap, name: &str, text: &str) -> bool {
        let lines = headers.get_all(name).iter();
        lines.map(|line| line.to_str().unwrap().to_lowercase()).any(|line| line.contains(text))
    }

    fn response_says(&self, text: &str) -> bool {
        Self::says(&self.response, "cache-control", text)
    }

    fn second_says(&self, text: &str) -> bool {
        Self::says(&self.second, "cache-control", text)
    }

    fn judge(&self) -> Verdicts {
        let received = Time::from_unix(RECEIVED);
        let times = ExchangeTimes { requested: received, received };
        let settings = Settings { heuristic_max: Seconds::MAX, ..Settings::of(Sharing::Rfc) };
        let facts = RequestFacts::of(&self.method, &self.first);
        let now = received.after(Seconds::new(self.elapsed));
        let ours =
            Packed::of(TargetFacts::default(), self.status, &self.response, times, &settings);
        let second = RequestFacts::of(&self.method, &self.second);
        let ours_reuse = reuse::decide(&ours, |_| false, &second, now, &settings);

        let system = |time: Time| UNIX_EPOCH + Duration::from_secs(time.unix());
        let theirs = self.theirs(system(received));
        let request = self.request(&self.second);
        Verdicts {
            ours_storable: storability::judge(
                &facts,
                self.status,
                &self.response,
                times,
                &settings,
            ),
            theirs_storable: theirs.is_storable(),
            ours_reuse,
            ours_serves: matches!(ours_reuse, Reuse::Fresh { .. } | Reuse::Stale { .. }),
            theirs_serves: theirs
                .before_request(&request, system(now))
                .satisfies_without_revalidation(),
            ours_age: u64::from(ours.age(now).get()),
            theirs_age: theirs.age(system(now)).as_secs(),
            ours_lifetime: u64::from(ours.lifetime().get()),
            theirs_ttl_at_receipt: theirs.time_to_live(system(received)).as_secs(),
        }
    }

    fn request(&self, headers: &HeaderMap) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = "http://a.example/".parse().unwrap();
        *request.headers_mut() = headers.clone();
        request
    }

    fn theirs(&self, received: SystemTime) -> CachePolicy {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.response.clone();
        let options = CacheOptions { shared: true, ..CacheOptions::default() };
        CachePolicy::new_options(&self.request(&self.first), &response, received, options)
    }
}

fn draw_request(rng: &mut Rng) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut directives = Vec::new();
    while rng.chance(45) {
        let seconds = rng.below(150);
        directives.push(match rng.below(12) {
            0 => "no-cache".into(),
            1 => "no-store".into(),
            2 => format!("max-age={seconds}"),
            3 => "max-age=0".into(),
            4 | 5 => format!("min-fresh={seconds}"),
            6 | 7 => format!("max-stale={seconds}"),
            8 => "max-stale".into(),
            9 => "max-age=x".into(),
            10 => "min-fresh=x".into(),
            _ => "max-stale=x".into(),
        });
    }
    append(&mut headers, "cache-control", &directives);
    if rng.chance(5) {
        append(&mut headers, "pragma", &["no-cache".into()]);
    }
    if rng.chance(10) {
        append(&mut headers, "authorization", &["x".into()]);
    }
    headers
}

fn draw_response(rng: &mut Rng) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut directives = Vec::new();
    while rng.chance(60) {
        let seconds = rng.below(150);
        directives.push(match rng.below(26) {
            0..=5 => format!("max-age={seconds}"),
            6..=8 => format!("s-maxage={seconds}"),
            9 => format!("max-age=\"{seconds}\""),
            10 => format!("MAX-AGE={seconds}"),
            11 => "max-age=99999999999999999999999".into(),
            12 => "max-age".into(),
            13 => "max-age=x".into(),
            14 => "public".into(),
            15 => "private".into(),
            16 => "private=\"x-a\"".into(),
            17 => "no-cache".into(),
            18 => "no-cache=\"x-a\"".into(),
            19 => "no-store".into(),
            20 => "must-understand".into(),
            21 => "must-revalidate".into(),
            22 => "proxy-revalidate".into(),
            23 => "immutable".into(),
            24 => format!("stale-while-revalidate={seconds}"),
            _ => "ext=\"a, no-store\"".into(),
        });
    }
    append(&mut headers, "cache-control", &directives);
    let at = |seconds: u64| date::format(Time::from_unix(RECEIVED - 1000 + seconds));
    if rng.chance(60) {
        append(&mut headers, "date", &[at(if rng.chance(60) { 1000 } else { rng.below(2000) })]);
    }
    if rng.chance(30) {
        let other = ["0", "Friday, 15-Jan-27 08:01:40 GMT"];
        let value = if rng.chance(80) { at(rng.below(2200)) } else { rng.pick(&other).to_owned() };
        append(&mut headers, "expires", &[value]);
    }
    if rng.chance(30) {
        append(&mut headers, "last-modified", &[at(rng.below(1000))]);
    }
    for (name, value, percent) in [
        ("age", "20", 15),
        ("etag", "\"a\"", 30),
        ("pragma", "no-cache", 5),
        ("set-cookie", "a=b", 10),
        ("vary", "*", 5),
    ] {
        if rng.chance(percent) {
            append(&mut headers, name, &[value.into()]);
        }
    }
    headers
}

fn append(headers: &mut HeaderMap, name: &'static str, members: &[String]) {
    if !members.is_empty() {
        let value = HeaderValue::try_from(members.join(", ")).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
}

/// A reason for which the two may disagree: the difference, the RFC section that settles it, and
/// when it applies.
struct Explanation {
    what: &'static str,
    section: &'static str,
    applies: fn(&Case, &Verdicts) -> bool,
}

/// Reasons about storing: apply if exactly one of the two stores.
const STORING: [Explanation; 9] = [
    Explanation {
        what: "we do not keep what could never be used: stale on arrival and no validator",
        section: "RFC 9111, 3 (storing is never required)",
        applies: |case, verdicts| {
            verdicts.ours_storable == Err(NotStorable::NoFreshness)
                && (verdicts.ours_lifetime <= verdicts.ours_age.saturating_sub(case.elapsed)
                    || case.response_says("no-cache"))
        },
    },
    Explanation {
        what: "we do not keep what Vary: * never lets match",
        section: "RFC 9111, 4.1",
        applies: |_, verdicts| verdicts.ours_storable == Err(NotStorable::VaryStar),
    },
    Explanation {
        what: "we store no answers to HEAD; they freshen a stored GET instead",
        section: "RFC 9111, 4.3.5",
        applies: |case, verdicts| {
            case.method == Method::HEAD && verdicts.ours_storable == Err(NotStorable::Method)
        },
    },
    Explanation {
        what: "must-understand lets a cache that knows the status ignore no-store",
        section: "RFC 9111, 5.2.2.3",
        applies: |case, verdicts| {
            verdicts.ours_storable.is_ok()
                && case.response_says("must-understand")
                && case.response_says("no-store")
        },
    },
    Explanation {
        what: "private=\"field\" only keeps the field out",
        section: "RFC 9111, 5.2.2.7",
        applies: |case, verdicts| {
            verdicts.ours_storable.is_ok() && case.response_says("private=\"x-a\"")
        },
    },
    Explanation {
        what: "a final status need not be known; commas and directives in quotes are no directives",
        section: "RFC 9111, 3 and 5.2",
        applies: |case, verdicts| {
            let unknown = [299, 500].contains(&case.status.as_u16());
            let quoted = case.response_says("ext=\"a, no-store\"");
            verdicts.ours_storable.is_ok() && (unknown || quoted)
        },
    },
    Explanation {
        what: "names of directives are case-insensitive",
        section: "RFC 9111, 5.2",
        applies: |case, verdicts| {
            verdicts.ours_storable.is_ok() && Case::raw(&case.response, "MAX-AGE")
        },
    },
    Explanation {
        what: "a cookie is not kept for others on a guess",
        section: "RFC 9111, 3 (storing is never required)",
        applies: |_, verdicts| verdicts.ours_storable == Err(NotStorable::SetCookie),
    },
    Explanation {
        what: "two values of a directive are no must-revalidate that would permit sharing",
        section: "RFC 9111, 3.5 and 4.2.1",
        applies: |case, verdicts| {
            verdicts.ours_storable == Err(NotStorable::Authorization) && has_doubles(&case.response)
        },
    },
];

/// Reasons about reuse: apply if both store and exactly one serves the later request without
/// contacting the origin.
const REUSE: [Explanation; 19] = [
    Explanation {
        what: "the age counts from Date too",
        section: "RFC 9111, 4.2.3",
        applies: |_, verdicts| !verdicts.ours_serves && verdicts.ours_age > verdicts.theirs_age,
    },
    Explanation {
        what: "s-maxage implies proxy-revalidate, so max-stale does not count",
        section: "RFC 9111, 5.2.2.10",
        applies: |case, verdicts| {
            !verdicts.ours_serves && case.response_says("s-maxage") && case.second_says("max-stale")
        },
    },
    Explanation {
        what: "no-cache forbids any use without validation, max-stale or not",
        section: "RFC 9111, 5.2.2.4",
        applies: |case, verdicts| {
            !verdicts.ours_serves && case.response_says("no-cache") && case.second_says("max-stale")
        },
    },
    Explanation {
        what: "proxy-revalidate forbids stale use, max-stale or not",
        section: "RFC 9111, 5.2.2.8",
        applies: |case, verdicts| {
            !verdicts.ours_serves
                && case.response_says("proxy-revalidate")
                && case.second_says("max-stale")
        },
    },
    Explanation {
        what: "proxy-revalidate says nothing about a fresh response",
        section: "RFC 9111, 5.2.2.8",
        applies: |case, verdicts| verdicts.ours_serves && case.response_says("proxy-revalidate"),
    },
    Explanation {
        what: "no-cache=\"field\" only keeps the field out",
        section: "RFC 9111, 5.2.2.4",
        applies: |case, verdicts| verdicts.ours_serves && case.response_says("no-cache=\"x-a\""),
    },
    Explanation {
        what: "Set-Cookie does not forbid reuse",
        section: "RFC 9111, 7.3",
        applies: |case, verdicts| verdicts.ours_serves && case.response.contains_key("set-cookie"),
    },
    Explanation {
        what: "Pragma means nothing in a response",
        section: "RFC 9111, 5.4",
        applies: |case, verdicts| verdicts.ours_serves && case.response.contains_key("pragma"),
    },
    Explanation {
        what: "Pragma means nothing beside Cache-Control",
        section: "RFC 9111, 5.4",
        applies: |case, verdicts| {
            verdicts.ours_serves
                && case.second.contains_key("pragma")
                && case.second.contains_key("cache-control")
        },
    },
    Explanation {
        what: "immutable gives no lifetime",
        section: "RFC 8246, 2",
        applies: |case, verdicts| {
            !verdicts.ours_serves
                && case.response_says("immutable")
                && verdicts.theirs_ttl_at_receipt > verdicts.ours_lifetime
        },
    },
    Explanation {
        what: "of several values the first counts; they add must-revalidate",
        section: "RFC 9111, 4.2.1",
        applies: |case, verdicts| {
            verdicts.ours_serves && case.second_says("max-stale") && has_doubles(&case.response)
        },
    },
    Explanation {
        what: "names of directives are case-insensitive",
        section: "RFC 9111, 5.2",
        applies: |case, _| Case::raw(&case.response, "MAX-AGE"),
    },
    Explanation {
        what: "seconds too large for any integer mean the longest lifetime",
        section: "RFC 9111, 1.2.2",
        applies: |case, verdicts| verdicts.ours_serves && case.response_says("max-age=999999"),
    },
    Explanation {
        what: "max-age without a number makes a response stale",
        section: "RFC 9111, 4.2.1",
        applies: |case, verdicts| {
            !verdicts.ours_serves
                && verdicts.ours_lifetime == 0
                && case.response_says("max-age")
                && verdicts.theirs_ttl_at_receipt > 0
        },
    },
    Explanation {
        what: "what a request limits with a number that cannot be read is limited to nothing",
        section: "RFC 9111, 5.2.1 (a request directive may always be obeyed strictly)",
        applies: |case, verdicts| {
            let unreadable = ["max-age=x", "min-fresh=x", "max-stale=x"];
            !verdicts.ours_serves && unreadable.iter().any(|text| case.second_says(text))
        },
    },
    Explanation {
        what: "max-age=0 is a reload: ages are rounded down, what is stored is older",
        section: "RFC 9111, 5.2.1.1",
        applies: |case, verdicts| !verdicts.ours_serves && case.second_says("max-age=0"),
    },
    Explanation {
        what: "a reload does not disturb what is fresh and immutable",
        section: "RFC 8246, 2",
        applies: |case, verdicts| {
            verdicts.ours_serves && case.response_says("immutable") && case.second_says("max-age=0")
        },
    },
    Explanation {
        what: "stale-while-revalidate permits stale use; max-stale=N includes N",
        section: "RFC 5861, 3; RFC 9111, 5.2.1.2",
        applies: |case, verdicts| match verdicts.ours_reuse {
            Reuse::Stale { permit: StalePermit::WhileRevalidate, .. } => true,
            Reuse::Stale { permit: StalePermit::MaxStale, .. } => {
                let staleness = verdicts.ours_age - verdicts.ours_lifetime;
                case.second_says(&format!("max-stale={staleness}"))
            }
            _ => false,
        },
    },
    Explanation {
        what: "dates come in three forms",
        section: "RFC 9110, 5.6.7",
        applies: |case, verdicts| {
            verdicts.ours_serves && Case::says(&case.response, "expires", "friday,")
        },
    },
];

impl Case {
    /// Works like [`Case::says`], but case-sensitively.
    fn raw(headers: &HeaderMap, text: &str) -> bool {
        let lines = headers.get_all("cache-control").iter();
        lines.map(|line| line.to_str().unwrap()).any(|line| line.contains(text))
    }
}

/// Returns whether a directive of a response occurs twice.
fn has_doubles(headers: &HeaderMap) -> bool {
    let Some(line) = headers.get("cache-control") else { return false };
    let members = line.to_str().unwrap().split(", ");
    let mut names: Vec<&str> = members.map(|member| member.split('=').next().unwrap()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() < all
}

/// Finds an explanation and counts it; panics if there is none.
fn explain(
    explanations: &[Explanation],
    uses: &mut [u32],
    case: &Case,
    verdicts: &Verdicts,
    seed: u64,
) {
    let mut explained = false;
    for (explanation, uses) in explanations.iter().zip(uses) {
        if (explanation.applies)(case, verdicts) {
            *uses += 1;
            explained = true;
        }
    }
    assert!(explained, "no explanation; LARDER_SEED={seed}\n{case:#?}\n{verdicts:#?}");
}

#[test]
fn every_difference_has_an_explanation_in_the_rfcs() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    let (mut storing, mut reuse) = ([0; STORING.len()], [0; REUSE.len()]);
    let (mut agreed_to_serve, mut agreed_to_ask) = (0, 0);
    for _ in 0..CASES {
        let case = Case::draw(&mut rng);
        let verdicts = case.judge();
        if verdicts.ours_storable.is_ok() != verdicts.theirs_storable {
            explain(&STORING, &mut storing, &case, &verdicts, guard.0);
        } else if !verdicts.theirs_storable {
            continue;
        } else if verdicts.ours_serves != verdicts.theirs_serves {
            explain(&REUSE, &mut reuse, &case, &verdicts, guard.0);
        } else if verdicts.ours_serves {
            agreed_to_serve += 1;
        } else {
            agreed_to_ask += 1;
        }
    }
    let all = STORING.iter().zip(&storing).chain(REUSE.iter().zip(&reuse));
    for (explanation, uses) in all {
        assert!(*uses > 0, "explains nothing: {} ({})", explanation.what, explanation.section);
    }
    assert!(agreed_to_serve > CASES / 20, "only {agreed_to_serve} cases served by both");
    assert!(agreed_to_ask > CASES / 20, "only {agreed_to_ask} cases validated by both");
}
