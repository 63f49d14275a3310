//! Fields have the same meaning in every representation: a map, lines in any spelling of their
//! names, or the encoded head of a stored response.

use std::fmt::Debug;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use larder_semantics::facts::TargetFacts;
use larder_semantics::validators::Selected;
use larder_semantics::*;

use crate::seed::{Rng, SeedGuard, seed};

const NOW: Time = Time::from_unix(1_800_000_000);
const TIMES: ExchangeTimes = ExchangeTimes { requested: NOW, received: NOW };

/// The lines of a message as received.
#[derive(Clone, Debug, Default)]
struct Lines(Vec<(String, HeaderValue)>);

impl Fields for Lines {
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }
}

impl EditFields for Lines {
    fn remove_lines(&mut self, name: &HeaderName) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| name != known.as_str());
        self.0.len() < before
    }

    fn remove_in(&mut self, usual: UsualNames, unusual: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| !usual.has_or(name, &unusual));
    }

    fn set_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove_lines(name);
        self.add_line(name, value);
    }

    fn add_line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.0.push((name.to_string(), value.clone()));
    }
}

impl Lines {
    fn to_map(&self) -> HeaderMap {
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.0.iter().map(|(known, value)| (name(known), value.clone())).collect()
    }
}

/// Fields that some function looks up, with values that it can parse.
const USUAL: [(&str, &str); 62] = [
    ("accept", "text/html, */*;q=0.8"),
    ("accept-encoding", "GZip;q=1, br"),
    ("accept-encoding", "x-gzip;q=0.5"),
    ("accept-language", "de-CH, de;q=0.9, en;q=0.825"),
    ("accept-language", "fr;q=0.9, *;q=0.1"),
    ("authorization", "Basic x"),
    ("authorization", "NTLM x"),
    ("cache-control", "no-cache, max-age=5"),
    ("cache-control", "max-stale=\"7\", no-store"),
    ("cache_control", "x"),
    ("client-cert", "x"),
    ("connection", "keep-alive"),
    ("connection", "close, x-a, te, cache-control"),
    ("connection", "Upgrade, X-Token"),
    ("content-length", "0"),
    ("content_length", "5"),
    ("cookie", "a=b"),
    ("cookie", "c=d; e=f"),
    ("forwarded", "for=1;host=A.example;proto=https"),
    ("forwarded", "for=\"[::1]\", for=2"),
    ("if-match", "\"a\""),
    ("if-modified-since", "Fri, 15 Jan 2027 08:00:00 GMT"),
    ("if-none-match", "\"a\", W/\"b\""),
    ("if-none-match", "*"),
    ("if-none-match", "a"),
    ("if-range", "\"a\""),
    ("if-unmodified-since", "Fri, 15 Jan 2027 08:00:00 GMT"),
    ("keep-alive", "timeout=5"),
    ("max-forwards", "3"),
    ("origin", "http://a.example"),
    ("pragma", "no-cache"),
    ("proxy-authorization", "Negotiate x"),
    ("range", "bytes=0-5"),
    ("range", "bytes=-5, 0-1"),
    ("sec-ch-ua-mobile", "?1"),
    ("te", "trailers"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "websocket"),
    ("user-agent", "Mozilla/5.0 (Linux; Android 14) Mobile Safari"),
    ("user-agent", "Googlebot/2.1"),
    ("x-a", "1"),
    ("x-a", "2"),
    ("x-api-key", "k"),
    ("x-auth-request-user", "u"),
    ("x-auth-token", "t"),
    ("x-forwarded-for", "192.0.2.1"),
    ("x-forwarded-host", "A.example"),
    ("x-forwarded-host", "b.example"),
    ("x-forwarded-port", "80"),
    ("x-forwarded-proto", "https, http"),
    ("x-http-method-override", "DELETE, PUT"),
    ("x-original-url", "/x"),
    ("x-request-id", "7"),
    ("x-session", "s"),
    ("x-token", "t"),
    ("x.real_ip", "1"),
    // Response fields.
    ("etag", "\"a\""),
    ("etag", "a"),
    ("last-modified", "Fri, 15 Jan 2027 07:00:00 GMT"),
    ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
    ("expires", "0"),
    ("vary", "x-a"),
];

/// Draws lines, with names in any spelling.
fn lines(rng: &mut Rng) -> Lines {
    let count = rng.below(14);
    let line = |rng: &mut Rng| {
        let (name, value) = USUAL[rng.below(USUAL.len() as u64) as usize];
        let value = if rng.chance(5) { "\u{e9}, x" } else { value };
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        let spelled = |letter: char| match rng.chance(30) {
            true => letter.to_ascii_uppercase(),
            false => letter,
        };
        (name.chars().map(spelled).collect(), value)
    };
    Lines((0..count).map(|_| line(rng)).collect())
}

/// Returns the fields sorted by name; lines of one name keep their order.
fn sorted(fields: &impl Fields) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = fields.all().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    let mut all: Vec<_> = all.collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

/// Returns the results of every function that reads a request, as text.
fn read(request: &impl Fields, stored: &Selected) -> Vec<String> {
    let text = |value: &dyn Debug| format!("{value:?}");
    let name = |name: &'static str| HeaderName::from_static(name);
    let (get, settings) = (Method::GET, Settings::default());
    let names = ["accept", "accept-encoding", "accept-language", "cookie", "x-a"].map(name);
    let marker = VaryMarker::new(7, &names);
    let (mut key, encoded) = (Vec::new(), marker.encode());
    cache_key::variant_of_set(&mut key, b"p", EncodedSet::read(&encoded).unwrap(), request);
    assert_eq!(key, cache_key::variant(b"p", &marker, request));
    let identity = Identity::of(request, &settings);
    let mut identified_by: Vec<_> = identity.fields.iter().map(ToString::to_string).collect();
    identified_by.sort_unstable();
    let facts = RequestFacts::of(&get, request);
    let languages = ["en", "de", "fr-CA"].map(str::to_owned);
    let mut other_methods = claims::other_methods(request);
    other_methods.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    let offered = ["br", "zstd", "gzip"];
    let limits = range::Limits::default();
    let tag = EntityTag { weak: false, opaque: b"a" };
    vec![
        text(&facts),
        text(&(identity.authorized, identified_by)),
        text(&RequestDirectives::parse(request)),
        text(&other_methods),
        text(&hop_by_hop::accepts_trailers(request)),
        text(&max_forwards::hops_left(&Method::TRACE, request)),
        text(&connection_login::has_credentials(request)),
        text(&forwarded::claimed_proto(request)),
        text(&language::best(request, &languages)),
        text(&device_class::DeviceClass::of(request)),
        text(&coding::is_taken(request, Some(b"gzip, br"))),
        text(&coding::preferred(request, &offered)),
        text(&names.each_ref().map(|name| vary::normalised(request, name))),
        text(&key),
        text(&validators::is_for_origin(request)),
        text(&validators::is_named(request, &tag)),
        text(&validators::as_cache(&get, request, stored, NOW)),
        text(&validators::as_origin(&get, request, stored, NOW)),
        text(&range::if_range_holds(request, stored)),
        text(&range::select(&get, request, stored, 100, limits)),
        text(&Portion::of(&facts, &get, request, stored, Some(100), NOW)),
        text(&partial::asks_for_one(request)),
        text(&validators::has_any(request, NOW)),
    ]
}

/// Applies one of the editing functions to a request, selected by `number`.
fn edit<F: EditFields>(number: u64, request: &mut F, stored: &StoredHead) -> String {
    let trusted: Vec<trusted::TrustedField> =
        ["x-forwarded-host", "forwarded", "x-forwarded-port", "x-auth-request-*", "x-original-url"]
            .map(|name| name.parse().unwrap())
            .into();
    let is_for = |name: &str| name == "x-forwarded-for";
    let other = HeaderValue::from_static("\"z\"");
    let hop = forwarded::Hop { client: [192, 0, 2, 9].into(), host: "c.example", proto: "http" };
    let all = forwarded::Field::NAMES.map(|(_, field)| field);
    let part = range::ByteRange { start: 3, end: 9 };
    match number {
        0 => FieldNames::Plain.enforce(request),
        1 => FieldNames::Any.enforce(request),
        2 => claims::remove_claims(request, UsualNames::all_in(is_for), |_| false),
        3 => claims::remove_other_methods(request),
        4 => hop_by_hop::strip_named(request),
        5 => hop_by_hop::strip_always(request),
        6 => hop_by_hop::strip(request),
        7 => trusted::TrustedFields::from(trusted).settle(request),
        8 => return format!("{:?}", forwarded::tidy_forwarded(request)),
        9 => forwarded::add(request, &hop, &all),
        10 => validators::remove_conditions(request),
        11 => return validators::keep_questions(request).to_string(),
        12 => return validators::make_conditional(request, &stored.selected()).to_string(),
        13 => return validators::ask_about(request, &[other]).to_string(),
        _ => partial::ask(request, stored, part),
    }
    String::new()
}

#[test]
fn fields_mean_the_same_whatever_holds_them() {
    let guard = SeedGuard(seed());
    let mut rng = Rng::new(guard.0);
    for _ in 0..800 {
        let (request, response, other) = (lines(&mut rng), lines(&mut rng), lines(&mut rng));
        let (mut map, of_response) = (request.to_map(), response.to_map());
        let selected = Selected::of(StatusCode::OK, &response, NOW);
        let of_map = Selected::of(StatusCode::OK, &of_response, NOW);
        assert_eq!(read(&request, &selected), read(&map, &of_map), "{request:?} {response:?}");
        let names = [header::ACCEPT_ENCODING, header::COOKIE, header::RANGE];
        assert_eq!(
            vary::same_variant(&names, &request, &other),
            vary::same_variant(&names, &other.to_map(), &map)
        );
        let head = StoredHead::new(
            TargetFacts::default(),
            StatusCode::OK,
            &of_response,
            TIMES,
            &Settings::default(),
        );
        let bytes = head.encode();
        let encoded = EncodedHead::read(&bytes).unwrap();
        assert_eq!(sorted(&encoded), sorted(head.headers()));
        assert_eq!(read(&request, &encoded.selected()), read(&map, &head.selected()));
        let all = encoded.all().map(|(name, _)| HeaderName::from_bytes(name).unwrap());
        for name in all.chain([header::ETAG]) {
            let lines: Vec<&[u8]> = encoded.lines(&name).collect();
            assert_eq!(lines, Fields::lines(head.headers(), &name).collect::<Vec<_>>());
        }
        let (number, mut edited) = (rng.below(15), request.clone());
        let said = edit(number, &mut edited, &head);
        assert_eq!(said, edit(number, &mut map, &head), "{number} {request:?}");
        assert_eq!(sorted(&edited), sorted(&map), "{number} {request:?}");
    }
}
