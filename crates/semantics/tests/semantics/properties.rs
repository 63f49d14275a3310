//! Properties that hold for all inputs.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use larder_semantics::age;
use larder_semantics::cache_key;
use larder_semantics::date;
use larder_semantics::facts::TargetFacts;
use larder_semantics::range::{self, Limits, Selection};
use larder_semantics::reuse::FetchTime;
use larder_semantics::url::Url;
use larder_semantics::{
    ExchangeTimes, MethodClass, Packed, RequestFacts, Reuse, Seconds, Settings, StoredHead, Time,
    VaryMarker,
};
use larder_semantics::{merge, reuse};
use proptest::prelude::*;

use crate::seed::check;

const START: u64 = 1_700_000_000;

fn a_time() -> impl Strategy<Value = Time> {
    (START..START + 200_000).prop_map(Time::from_unix)
}

/// Returns a plausible value for one of the relevant header fields.
fn a_field() -> impl Strategy<Value = (HeaderName, HeaderValue)> {
    let seconds = prop_oneof![0u64..5000, Just(u64::MAX)];
    let directive = prop_oneof![
        seconds.clone().prop_map(|seconds| format!("max-age={seconds}")),
        seconds.clone().prop_map(|seconds| format!("s-maxage={seconds}")),
        seconds.clone().prop_map(|seconds| format!("stale-if-error={seconds}")),
        seconds.prop_map(|seconds| format!("stale-while-revalidate={seconds}")),
        Just("must-revalidate".to_owned()),
        Just("no-cache".to_owned()),
        Just("public".to_owned()),
    ];
    let field = |name: HeaderName, value: String| (name, HeaderValue::try_from(value).unwrap());
    prop_oneof![
        4 => directive.prop_map(move |value| field(header::CACHE_CONTROL, value)),
        1 => (0u64..5000).prop_map(move |age| field(header::AGE, age.to_string())),
        1 => a_time().prop_map(move |time| field(header::DATE, date::format(time))),
        1 => a_time().prop_map(move |time| field(header::EXPIRES, date::format(time))),
        1 => a_time().prop_map(move |time| field(header::LAST_MODIFIED, date::format(time))),
        1 => "(W/)?\"[ab]\"".prop_map(move |tag| field(header::ETAG, tag)),
        1 => "[a-z]{0,5}".prop_map(move |value| field(header::CONTENT_ENCODING, value)),
        1 => "[0-9]{1,4}".prop_map(move |value| field(header::CONTENT_LENGTH, value)),
        1 => "[ -~\t]{0,20}".prop_map(move |value| field(HeaderName::from_static("x-any"), value)),
    ]
}

fn some_headers() -> impl Strategy<Value = HeaderMap> {
    proptest::collection::vec(a_field(), 0..8).prop_map(|fields| fields.into_iter().collect())
}

fn an_exchange() -> impl Strategy<Value = ExchangeTimes> {
    let millis = |millis| prop_oneof![Just(0), 0..millis];
    (a_time(), millis(1000u64), millis(100_000)).prop_map(|(second, beside, delay)| {
        let requested = second.unix_millis() + beside;
        let [requested, received] = [requested, requested + delay].map(Time::from_unix_millis);
        ExchangeTimes { requested, received }
    })
}

fn head(headers: &HeaderMap, times: ExchangeTimes) -> StoredHead {
    StoredHead::new(TargetFacts::default(), StatusCode::OK, headers, times, &Settings::default())
}

#[test]
fn age_never_falls_and_freshness_never_returns() {
    let inputs = (some_headers(), an_exchange(), 0u64..10_000, 0u64..10_000);
    check(2_000, inputs, |(headers, times, first, more)| {
        let head = head(&headers, times);
        let early = times.received.after(Seconds::new(first));
        let late = early.after(Seconds::new(more));
        let facts = head.packed();
        prop_assert!(facts.age(early) <= facts.age(late));
        prop_assert!(facts.ttl(early) >= facts.ttl(late));
        prop_assert!(facts.is_fresh(early) || !facts.is_fresh(late));
        prop_assert!(facts.age(early) >= Seconds::new(first), "at least the time spent here");
        Ok(())
    });
}

#[test]
fn a_response_fresh_on_arrival_serves_all_waiting_requests() {
    let inputs = (some_headers(), some_headers(), an_exchange(), 0u64..100_000);
    check(2_000, inputs, |(response, request, times, before)| {
        let (head, settings) = (head(&response, times), Settings::default());
        let (packed, when_asked) = (head.packed(), age::when_asked(&response, times));
        prop_assert!(when_asked.seconds() <= packed.age(times.received));
        let is_for_waiters = reuse::is_for_waiters(packed, when_asked, &settings);
        let facts = RequestFacts::of(&Method::GET, &request);
        let came = times.received.unix_millis() - before;
        let came = Time::from_unix_millis(came.max(times.requested.unix_millis()));
        let before = FetchTime::Before(came);
        let decision = reuse::decide(packed, |_| false, &facts, times.received, &settings);
        if let Reuse::Fresh { .. } = decision {
            prop_assert!(is_for_waiters);
            prop_assert!(reuse::may_follow(packed, &[], &facts, before, &settings));
        }
        let no_cache = |headers: &HeaderMap| {
            headers.get_all(header::CACHE_CONTROL).iter().any(|value| value == "no-cache")
        };
        prop_assert!(!(no_cache(&response) && is_for_waiters));
        prop_assert!(
            !(no_cache(&request) && reuse::may_follow(packed, &[], &facts, before, &settings))
        );
        prop_assert!(reuse::may_follow(packed, &[], &facts, FetchTime::After, &settings));
        Ok(())
    });
}

#[test]
fn a_response_served_as_fresh_is_fresh() {
    let inputs = (some_headers(), some_headers(), an_exchange(), 0u64..10_000);
    check(2_000, inputs, |(response, request, times, later)| {
        let now = times.received.after(Seconds::new(later));
        let facts = RequestFacts::of(&Method::GET, &request);
        prop_assert_eq!(facts.class, MethodClass::Cacheable);
        let head = head(&response, times);
        let decision = reuse::decide(head.packed(), |_| false, &facts, now, &Settings::default());
        let no_cache = response
            .get_all(header::CACHE_CONTROL)
            .iter()
            .chain(request.get_all(header::CACHE_CONTROL))
            .any(|value| value == "no-cache");
        let must = response.get_all(header::CACHE_CONTROL).iter().any(|v| v == "must-revalidate");
        match decision {
            Reuse::Fresh { age } => {
                prop_assert!(head.packed().is_fresh(now) && !no_cache);
                prop_assert_eq!(age, head.packed().age(now));
            }
            Reuse::Stale { .. } => prop_assert!(!no_cache && !must),
            Reuse::Validate { fallback, .. } => {
                prop_assert!(!((no_cache || must) && fallback.on_error));
                prop_assert!(fallback.on_unreachable || !fallback.on_error);
            }
            Reuse::GatewayTimeout { .. } | Reuse::Unusable | Reuse::NotShared | Reuse::Outlived => {
                prop_assert!(false, "no such request was made");
            }
        }
        Ok(())
    });
}

#[test]
fn heads_and_facts_survive_the_store() {
    check(2_000, (some_headers(), an_exchange()), |(headers, times)| {
        let head = head(&headers, times);
        prop_assert_eq!(StoredHead::decode(&head.encode()), Ok(head.clone()));
        prop_assert_eq!(Packed::decode(&head.packed().encode()), Some(*head.packed()));
        Ok(())
    });
}

#[test]
fn a_304_never_touches_what_describes_the_body() {
    let inputs = (some_headers(), some_headers(), an_exchange());
    check(2_000, inputs, |(stored, update, times)| {
        let before = head(&stored, times);
        let after =
            merge::freshen(TargetFacts::default(), &before, &update, times, &Settings::default());
        let values = |head: &StoredHead, name: &HeaderName| -> Vec<HeaderValue> {
            head.headers().get_all(name).iter().cloned().collect()
        };
        for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE] {
            prop_assert_eq!(values(&before, &name), values(&after, &name), "{}", name);
        }
        let other = HeaderName::from_static("x-any");
        let expected: Vec<HeaderValue> = match update.contains_key(&other) {
            true => update.get_all(&other).iter().cloned().collect(),
            false => values(&before, &other),
        };
        prop_assert_eq!(values(&after, &other), expected);
        Ok(())
    });
}

#[test]
fn ranges_lie_within_the_body_and_hold_what_was_asked() {
    let spec = prop_oneof![
        (0u64..120, 0u64..60).prop_map(|(first, more)| format!("{first}-{}", first + more)),
        (0u64..120).prop_map(|first| format!("{first}-")),
        (0u64..120).prop_map(|count| format!("-{count}")),
    ];
    let inputs = (proptest::collection::vec(spec, 1..6), 1u64..100, 0u64..10);
    check(4_000, inputs, |(specs, length, join_gap)| {
        let wanted = |at: u64| {
            specs.iter().any(|spec| match spec.split_once('-') {
                Some(("", count)) => at + count.parse::<u64>().unwrap() >= length,
                Some((first, "")) => at >= first.parse().unwrap(),
                Some((first, last)) => {
                    (first.parse().unwrap()..=last.parse().unwrap()).contains(&at)
                }
                None => false,
            })
        };
        let limits = Limits { join_gap, ..Limits::default() };
        let value = format!("bytes={}", specs.join(","));
        let parts = match range::parse(value.as_bytes(), length, limits) {
            Selection::Whole => vec![range::ByteRange { start: 0, end: length }],
            Selection::Single(part) => vec![part],
            Selection::Multiple(parts) => parts,
            Selection::Unsatisfiable => Vec::new(),
        };
        let mut unwanted = 0;
        for at in 0..length {
            let sent = parts.iter().filter(|part| part.as_range().contains(&at)).count();
            prop_assert!(sent <= 1, "byte {} sent twice", at);
            prop_assert!(sent == 1 || !wanted(at), "byte {} missing", at);
            unwanted += u64::from(sent == 1 && !wanted(at));
        }
        prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
        prop_assert!(unwanted <= join_gap * specs.len() as u64, "{} bytes too many", unwanted);
        Ok(())
    });
}

#[test]
fn normal_urls_are_stable_and_keys_tell_them_apart() {
    let url = "[hH]ttps?://[aA]{1,2}(:[0-9]{1,3})?(/[a%/.]{0,3}(%[0-9a-fA-F]{2})?)?(\\?[a&]{0,2})?";
    check(2_000, (url, url), |(one, other)| {
        let (one, other) = (Url::parse(&one).unwrap(), Url::parse(&other).unwrap());
        let again = Url::parse(one.as_str()).unwrap();
        prop_assert_eq!((again.as_str(), again.spelled()), (one.as_str(), None));
        let keys = (cache_key::primary("front", &one), cache_key::primary("front", &other));
        let sent = |url: &Url| format!("{}{}", url.site(), url.sent());
        prop_assert_eq!(keys.0 == keys.1, sent(&one) == sent(&other));
        prop_assert!(one != other || keys.0 == keys.1);
        Ok(())
    });
}

#[test]
fn variant_keys_are_equal_exactly_when_the_named_fields_are() {
    // Without commas, around which white space and empty members are insignificant.
    let value = proptest::option::of("[ab;]{0,2}");
    let inputs = (value.clone(), value.clone(), value.clone(), value);
    check(4_000, inputs, |(a1, b1, a2, b2)| {
        let request = |a: &Option<String>, b: &Option<String>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [("x-a", a), ("x-b", b)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::try_from(value).unwrap());
                }
            }
            headers
        };
        let marker = VaryMarker::new(1, &["x-a".parse().unwrap(), "x-b".parse().unwrap()]);
        let key = |headers: &HeaderMap| cache_key::variant(b"primary", &marker, headers);
        let same = key(&request(&a1, &b1)) == key(&request(&a2, &b2));
        prop_assert_eq!(same, a1 == a2 && b1 == b2);
        Ok(())
    });
}

#[test]
fn dates_come_back() {
    check(4_000, 0u64..253_402_300_800, |seconds| {
        let time = Time::from_unix(seconds);
        prop_assert_eq!(date::parse(date::format(time).as_bytes(), time), Some(time));
        Ok(())
    });
}
