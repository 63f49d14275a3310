//! Arbitrary bytes: no parser of headers or of stored metadata panics, hangs or accepts nonsense.
//!
//! Half of the inputs are random bytes, half are pieces of real syntax in random order, since only
//! the latter get past the first character of most parsers.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use larder_semantics::facts::TargetFacts;
use larder_semantics::invalidation::Write;
use larder_semantics::range::{self, Limits, Selection};
use larder_semantics::sparse::Layout;
use larder_semantics::{
    EntityTag, ExchangeTimes, Meta, NotStorable, RequestFacts, Settings, SparseHead, StoredHead,
    Time, Url, VaryMarker,
};
use larder_semantics::{age, storability};
use larder_semantics::{date, etag, hop_by_hop, max_forwards, validators, vary};
use larder_semantics::{merge, reuse};

use crate::seed::{Rng, SeedGuard, seed};

const NOW: Time = Time::from_unix(1_800_000_000);
const TIMES: ExchangeTimes = ExchangeTimes { requested: NOW, received: NOW };
const ROUNDS: u32 = 10_000;

const PIECES: [&str; 44] = [
    ",",
    " ",
    "\t",
    "\"",
    "\\",
    "=",
    ";",
    "-",
    "*",
    "W/",
    "/",
    ":",
    "?",
    "#",
    "%",
    "%4",
    "%2e",
    "[",
    "]",
    "0",
    "1",
    "9",
    "60",
    "2147483648",
    "99999999999999999999999999",
    "max-age",
    "s-maxage",
    "no-cache",
    "private",
    "no-store",
    "stale-if-error",
    "max-stale",
    "bytes",
    "bytes=",
    "gzip",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Nov",
    "06",
    "http://",
    "a.example",
    "\u{e9}",
    "x-a",
];

const FIELDS: [HeaderName; 24] = [
    header::ACCEPT_ENCODING,
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::LAST_MODIFIED,
    header::LOCATION,
    header::PRAGMA,
    header::RANGE,
    header::SET_COOKIE,
    header::TE,
    header::VARY,
    header::VIA,
];

fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.below(12) {
        if rng.chance(30) {
            bytes.extend((0..rng.below(6)).map(|_| rng.next() as u8));
        } else {
            bytes.extend_from_slice(rng.pick(&PIECES).as_bytes());
        }
    }
    bytes
}

fn noisy_headers(rng: &mut Rng) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for _ in 0..rng.below(10) {
        let name = FIELDS[rng.below(FIELDS.len() as u64) as usize].clone();
        if let Ok(value) = HeaderValue::from_bytes(&noise(rng)) {
            headers.append(name, value);
        }
    }
    headers
}

/// Checks that the normal form and the spelling of a URL parse back to the same.
fn assert_stable(url: &Url) {
    let normal = Url::parse(url.as_str()).unwrap();
    assert_eq!((normal.as_str(), normal.spelled()), (url.as_str(), None));
    assert_eq!(Url::new(url.scheme(), url.authority(), url.sent()).as_ref(), Ok(url));
    assert!(url.spellings().iter().all(|other| other.as_str() == url.as_str()));
}

#[test]
fn single_parsers_take_anything() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    for _ in 0..ROUNDS {
        let bytes = noise(&mut rng);
        if let Some(time) = date::parse(&bytes, NOW) {
            assert_eq!(date::parse(date::format(time).as_bytes(), NOW), Some(time));
        }
        if let Some(tag) = EntityTag::parse(&bytes) {
            assert!(!tag.opaque.contains(&b'"'));
        }
        assert!(etag::tags(&bytes).all(|tag| !tag.opaque.contains(&b'"')));
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(url) = Url::parse(&text) {
            assert_stable(&url);
        }
        let base = Url::parse("http://a.example/b/c?d").unwrap();
        if let Some(url) = base.resolve(&text) {
            assert_stable(&url);
        }
        let length = rng.below(2000);
        check_selection(range::parse(&bytes, length, Limits::default()), length);
        assert_readable_again(&Bytes::from(bytes));
    }
}

/// Checks that the decoder accepts only output of the encoder.
fn assert_readable_again(metadata: &Bytes) {
    match Meta::decode(metadata) {
        Ok(Meta::Head(head)) => assert_eq!(StoredHead::decode(&head.encode()), Ok(head)),
        Ok(Meta::Marker(marker)) => {
            assert_eq!(Meta::decode(&marker.encode()), Ok(Meta::Marker(marker)))
        }
        Ok(Meta::Sparse(sparse)) => {
            assert_eq!(Meta::decode(&sparse.encode()), Ok(Meta::Sparse(sparse)))
        }
        Ok(Meta::Part(part)) => assert_eq!(Meta::decode(&part.encode()), Ok(Meta::Part(part))),
        Err(_) => {}
    }
}

fn check_selection(selection: Selection, length: u64) {
    match selection {
        Selection::Whole | Selection::Unsatisfiable => {}
        Selection::Single(part) => assert!(part.start < part.end && part.end <= length),
        Selection::Multiple(parts) => {
            assert!(parts.len() >= 2 && parts.len() <= Limits::default().max_parts);
            let mut sorted = parts.clone();
            sorted.sort_by_key(|part| part.start);
            assert!(sorted.iter().all(|part| part.start < part.end && part.end <= length));
            assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}

#[test]
fn whole_heads_take_anything() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    let settings = Settings {
        targets: vec![HeaderName::from_static("cdn-cache-control")],
        ..Settings::default()
    };
    for _ in 0..ROUNDS {
        let (request, mut response) = (noisy_headers(&mut rng), noisy_headers(&mut rng));
        if rng.chance(20)
            && let Ok(value) = HeaderValue::from_bytes(&noise(&mut rng))
        {
            response.insert("cdn-cache-control", value);
        }
        let facts = RequestFacts::of(&Method::GET, &request);
        let verdict = storability::judge(&facts, StatusCode::OK, &response, TIMES, &settings);
        let head =
            StoredHead::new(TargetFacts::default(), StatusCode::OK, &response, TIMES, &settings);
        let is_of_unknown_variant = vary::Vary::of(&response) == vary::Vary::Star;
        if is_of_unknown_variant && !response.contains_key(header::ETAG) {
            assert_ne!(verdict, Ok(()));
        }
        assert_eq!(head.packed().age(NOW), age::initial(&response, TIMES).seconds());
        assert_eq!(StoredHead::decode(&head.encode()), Ok(head.clone()));
        let reuse = reuse::decide(head.packed(), |_| false, &facts, NOW, &settings);
        assert!(!(is_of_unknown_variant && matches!(reuse, reuse::Reuse::Fresh { .. })));
        let _ = validators::as_cache(&Method::GET, &request, &head.selected(), NOW);
        let selection =
            range::select(&Method::GET, &request, &head.selected(), 1000, Limits::default());
        check_selection(selection, 1000);
        let mut validation = request.clone();
        let asks = validators::make_conditional(&mut validation, &head.selected());
        assert_eq!(asks, head.packed().has_validator());
        let _ = max_forwards::hops_left(&Method::TRACE, &request);
        let update = noisy_headers(&mut rng);
        let fresh = merge::freshen(TargetFacts::default(), &head, &update, TIMES, &settings);
        assert!(!fresh.headers().contains_key(header::CONNECTION));
        let _ = merge::confirms(&head, &update, TIMES);
        let _ = merge::head_effect(&facts, &head, 5, StatusCode::OK, &update, TIMES, &settings);
        hop_by_hop::strip(&mut validation);
        assert!(!validation.contains_key(header::TE));
    }
}

/// Fields that operators' rules, purges and parts read from heads.
#[test]
fn other_fields_take_anything() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    let names = [
        header::ACCEPT_LANGUAGE,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::LOCATION,
        header::MAX_FORWARDS,
        header::USER_AGENT,
        header::FORWARDED,
        HeaderName::from_static("x-forwarded-proto"),
        HeaderName::from_static("surrogate-key"),
        HeaderName::from_static("cache-tag"),
    ];
    let offered = ["de".to_owned(), "en-gb".to_owned()];
    let pieces = ["bytes 0-0/1", "bytes 5-2/9", "bytes 1-3/*", "bytes */9", "proto=https", ";q=0."];
    let base = Url::parse("http://a.example/b/c?d").unwrap();
    for _ in 0..ROUNDS {
        let mut headers = HeaderMap::new();
        for name in &names {
            let mut bytes = noise(&mut rng);
            if rng.chance(50) {
                bytes.extend_from_slice(rng.pick(&pieces).as_bytes());
            }
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.append(name.clone(), value);
            }
        }
        let language = larder_semantics::language::best(&headers, &offered);
        assert!(offered.iter().any(|one| Some(one.as_str()) == language));
        if let Ok(received) = larder_semantics::partial::read(&headers, None) {
            let range = received.range;
            assert!(range.start < range.end && range.end <= received.length, "{headers:?}");
        }
        for (name, value) in &headers {
            let tags =
                larder_semantics::TagFields::default().of_value(name.as_str(), value.as_bytes());
            assert!(tags.iter().all(|tag| !tag.is_empty()), "{headers:?}");
        }
        for method in ["POST", "MOVE", "DELETE"].map(|name| name.parse().unwrap()) {
            let (url, status) = (&base, StatusCode::CREATED);
            let (method, request, response) = (&method, &headers, &headers);
            let write = Write { method, url, request, status, response };
            for target in write.targets().iter().chain(&write.collections()) {
                assert!(target.same_origin(&base), "{headers:?}");
            }
        }
        let _ = larder_semantics::forwarded::claimed_proto(&headers);
        let _ = larder_semantics::device_class::DeviceClass::of(&headers);
        let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let path = String::from_utf8_lossy(&noise(&mut rng)).into_owned();
        let _ = larder_semantics::disguise::is_disguised(&path, content_type);
        let mut trusted = headers.clone();
        let believed = vec!["forwarded".parse().unwrap()];
        larder_semantics::trusted::TrustedFields::from(believed).settle(&mut trusted);
        let host = larder_semantics::forwarded::tidy_forwarded(&mut trusted.clone());
        let told = trusted.get("x-forwarded-host").map(|host| host.to_str().unwrap().to_owned());
        assert_eq!(host, told, "{headers:?}");
        larder_semantics::claims::remove_claims(
            &mut headers,
            larder_semantics::UsualNames::NONE,
            |_| false,
        );
        assert!(!headers.contains_key(header::FORWARDED));
    }
}

#[test]
fn a_response_without_a_single_clear_permission_is_not_stored() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    for _ in 0..ROUNDS {
        let mut response = noisy_headers(&mut rng);
        response.append(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let facts = RequestFacts::of(&Method::GET, &HeaderMap::new());
        let verdict =
            storability::judge(&facts, StatusCode::OK, &response, TIMES, &Settings::default());
        assert_eq!(verdict, Err(NotStorable::NoStore), "{response:?}");
    }
}

#[test]
fn damaged_metadata_is_refused_or_reads_as_something_valid() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    let marker = VaryMarker::new(5, &[header::ACCEPT, header::COOKIE]).encode();
    for round in 0..ROUNDS {
        let response = noisy_headers(&mut rng);
        let head = StoredHead::new(
            TargetFacts::default(),
            StatusCode::OK,
            &response,
            TIMES,
            &Settings::default(),
        );
        let layout = Layout { epoch: 5, length: 1 << 30, window: 1 << 20 };
        let mut bytes = match round % 4 {
            0 => marker.to_vec(),
            1 => SparseHead { layout, head }.encode().to_vec(),
            _ => head.encode().to_vec(),
        };
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next() as u8;
        }
        assert_readable_again(&Bytes::from(bytes));
    }
}
