//! `Cache-Control` of requests and responses (RFC 9111, 5.2), read restrictively.
//!
//! Unknown directives are skipped. A malformed *value* of a known directive counts as the most
//! restrictive one, since a sender of `max-age=abc` meant to limit something. In a malformed member
//! of a response each word counts that forbids something: `no-store; max-age=60` is `no-store`.
//! Names are case-insensitive, and values may be quoted (5.2). If a directive has several values,
//! the first counts (4.2.1). Contradicting directives are all kept, and the caller checks the
//! restrictive ones first. Values above 2^31 become 2^31 (1.2.2).

use http::HeaderName;
use http::header::{CACHE_CONTROL, HeaderMap, PRAGMA, SET_COOKIE};

use crate::fields::ignored_fields::IgnoredFields;
use crate::fields::list;
use crate::fields::view::Fields;
use crate::settings::Settings;
use crate::time::Seconds;

/// The value of a directive that takes a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    /// The directive is absent.
    #[default]
    Absent,
    /// The directive has no usable number.
    Invalid,
    /// The directive has this value.
    Value(Seconds),
}

impl Delta {
    /// Parses `delta-seconds` (RFC 9111, 1.2.2): digits only.
    pub(crate) fn parse(digits: &[u8]) -> Delta {
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Delta::Invalid;
        }
        let value = digits.iter().fold(0u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        Delta::Value(Seconds::new(value))
    }

    /// Returns the seconds; an unusable number counts as zero. `None` if the directive is absent.
    pub fn or_zero_when_invalid(self) -> Option<Seconds> {
        match self {
            Delta::Absent => None,
            Delta::Invalid => Some(Seconds::ZERO),
            Delta::Value(seconds) => Some(seconds),
        }
    }

    fn set(&mut self, value: Delta) {
        if *self == Delta::Absent {
            *self = value;
        }
    }
}

/// The extent of a `private` or `no-cache` directive: the whole response or some of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The directive is absent.
    #[default]
    Absent,
    /// Only these fields, as in `no-cache="set-cookie"`.
    Fields(Vec<HeaderName>),
    /// The whole response.
    All,
}

impl Scope {
    /// Fields that cannot be left out of a response without changing its meaning. A directive that
    /// names one of them applies to the whole response.
    const ESSENTIAL: [HeaderName; 10] = [
        http::header::CACHE_CONTROL,
        http::header::CONTENT_ENCODING,
        http::header::CONTENT_LENGTH,
        http::header::CONTENT_RANGE,
        http::header::CONTENT_TYPE,
        http::header::DATE,
        http::header::ETAG,
        http::header::EXPIRES,
        http::header::LOCATION,
        http::header::VARY,
    ];

    /// Parses a list of field names. Returns [`Scope::All`] if the list is empty, or contains an
    /// essential field or an invalid name.
    fn from_list(list: &[u8]) -> Scope {
        let mut fields = Vec::new();
        let names_a_field = |name: &HeaderName| {
            // `private=1` means the response.
            name.as_str().bytes().any(|byte| byte.is_ascii_alphabetic())
                && !Self::ESSENTIAL.contains(name)
        };
        for member in list::split(list) {
            match HeaderName::from_bytes(member) {
                Ok(name) if names_a_field(&name) => fields.push(name),
                _ => return Scope::All,
            }
        }
        if fields.is_empty() { Scope::All } else { Scope::Fields(fields) }
    }

    fn widen(&mut self, more: Scope) {
        match (&mut *self, more) {
            (Scope::All, _) | (_, Scope::Absent) => {}
            (Scope::Fields(fields), Scope::Fields(others)) => fields.extend(others),
            (_, more) => *self = more,
        }
    }

    /// Returns the named fields; empty if the directive is absent or applies to the whole response.
    pub fn fields(&self) -> &[HeaderName] {
        match self {
            Scope::Fields(fields) => fields,
            Scope::Absent | Scope::All => &[],
        }
    }
}

/// The staleness that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxStale {
    /// No stale response.
    #[default]
    None,
    /// At most this long past the freshness lifetime.
    UpTo(Seconds),
    /// Any staleness.
    Any,
}

/// The directives of a request (RFC 9111, 5.2.1; `stale-if-error` of RFC 5861, 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-cache`, or `Pragma: no-cache` in a request without `Cache-Control` (5.4).
    pub no_cache: bool,
    /// `no-store`: nothing of this exchange may be stored.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `only-if-cached`: answer from the cache or with 504.
    pub only_if_cached: bool,
    /// `max-age`: the highest age that the client accepts.
    pub max_age: Delta,
    /// `min-fresh`: how long the response must stay fresh.
    pub min_fresh: Delta,
    /// `max-stale`.
    pub max_stale: MaxStale,
    /// `stale-if-error`.
    pub stale_if_error: Delta,
}

impl RequestDirectives {
    /// Parses the directives in the fields of a request.
    pub fn parse(fields: &impl Fields) -> RequestDirectives {
        let mut directives = RequestDirectives::default();
        let mut lines = fields.lines(&CACHE_CONTROL).peekable();
        if lines.peek().is_none() {
            directives.no_cache = list::members(fields, &PRAGMA)
                .any(|member| member.eq_ignore_ascii_case(b"no-cache"));
            return directives;
        }
        let mut saw_max_stale = false;
        for (name, value) in lines.flat_map(list::split).map(name_and_value) {
            match name.as_str() {
                "no-cache" => directives.no_cache = true,
                "no-store" => directives.no_store = true,
                "no-transform" => directives.no_transform = true,
                "only-if-cached" => directives.only_if_cached = true,
                "max-age" => directives.max_age.set(delta(value)),
                "min-fresh" => directives.min_fresh.set(delta(value)),
                "stale-if-error" => directives.stale_if_error.set(delta(value)),
                "max-stale" if !saw_max_stale => {
                    saw_max_stale = true;
                    directives.max_stale = match (value, delta(value)) {
                        (None, _) => MaxStale::Any,
                        (_, Delta::Value(seconds)) => MaxStale::UpTo(seconds),
                        _ => MaxStale::None,
                    };
                }
                _ => {}
            }
        }
        directives
    }

    /// Returns whether the client asks for a response generated after this request.
    pub fn reloads(&self) -> bool {
        self.no_cache || self.max_age == Delta::Value(Seconds::ZERO)
    }

    /// Returns the directives with `no-cache`.
    pub fn with_reload(self) -> RequestDirectives {
        RequestDirectives { no_cache: true, ..self }
    }

    /// Returns the directives without those that restrict the age of the response.
    pub fn without_reload(self) -> RequestDirectives {
        RequestDirectives {
            no_cache: false,
            max_age: Delta::Absent,
            min_fresh: Delta::Absent,
            ..self
        }
    }
}

const ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// The directives of a response (RFC 9111, 5.2.2; RFC 5861; `immutable` of RFC 8246).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// True if they come from a targeted field (RFC 9213), in which case `Expires` does not count.
    pub targeted: bool,
    /// `public`.
    pub public: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `immutable`.
    pub immutable: bool,
    /// `private`.
    pub private: Scope,
    /// `no-cache`.
    pub no_cache: Scope,
    /// `max-age`.
    pub max_age: Delta,
    /// `s-maxage`.
    pub s_maxage: Delta,
    /// `stale-while-revalidate`.
    pub stale_while_revalidate: Delta,
    /// `stale-if-error`.
    pub stale_if_error: Delta,
}

impl ResponseDirectives {
    /// Returns the directives that apply to this cache: those of the first usable field in
    /// `settings.targets`, otherwise those of `Cache-Control`. A targeted field is usable if it is
    /// present, not empty and well-formed (RFC 9213, 2.2). Ignored fields do not count, and an
    /// ignored `Set-Cookie` is `private`. Returns none for an origin that vouches.
    pub fn parse(headers: &HeaderMap, settings: &Settings) -> ResponseDirectives {
        if settings.origin_vouches {
            return ResponseDirectives { targeted: true, ..ResponseDirectives::default() };
        }
        let ignored = IgnoredFields::of(headers);
        let targets = settings.targets.iter().filter(|target| !ignored.has(target));
        let mut directives = targets
            .filter_map(|target| Self::targeted(headers, target))
            .next()
            .unwrap_or_else(|| match ignored.has(&CACHE_CONTROL) {
                true => ResponseDirectives::default(),
                false => Self::plain(headers),
            });
        if ignored.has(&SET_COOKIE) {
            directives.private.widen(Scope::Fields(vec![SET_COOKIE]));
        }
        directives
    }

    fn plain(headers: &HeaderMap) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        for member in list::members(headers, &CACHE_CONTROL) {
            let (name, value) = name_and_value(member);
            let scope = || match value {
                None => Scope::All,
                Some(value) => {
                    let plain = list::unquote(value);
                    Scope::from_list(plain.as_deref().unwrap_or(value))
                }
            };
            directives.apply(name.as_str(), || delta(value), scope);
            if !is_well_formed(member) {
                directives.forbid(member);
            }
        }
        directives
    }

    /// Applies the words of a malformed member that forbid something. A lifetime in it counts as
    /// unusable.
    fn forbid(&mut self, member: &[u8]) {
        for word in member.split(|&byte| !list::is_token_byte(byte)) {
            let name = Name::new(word);
            if !["public", "must-understand", "immutable"].contains(&name.as_str()) {
                self.apply(name.as_str(), || Delta::Invalid, || Scope::All);
            }
        }
    }

    /// Parses nginx's `X-Accel-Expires`: seconds, or 0 for `no-store`. A time (`@…`) and several
    /// fields are `no-store` too; `off` and anything else are ignored.
    fn accelerated(headers: &HeaderMap) -> Option<ResponseDirectives> {
        let mut lines = headers.get_all(ACCEL_EXPIRES).iter();
        let text = lines.next()?.to_str().ok()?.trim();
        let seconds = match (text.strip_prefix('@'), lines.next()) {
            (None, None) => text.parse::<u64>().ok()?,
            _ => 0,
        };
        let mut directives = ResponseDirectives { targeted: true, ..Default::default() };
        match seconds {
            0 => directives.no_store = true,
            seconds => directives.max_age = Delta::Value(Seconds::new(seconds)),
        }
        Some(directives)
    }

    /// Parses a targeted field, a structured field of type dictionary (RFC 9213, 2.1).
    fn targeted(headers: &HeaderMap, target: &HeaderName) -> Option<ResponseDirectives> {
        if *target == ACCEL_EXPIRES {
            return Self::accelerated(headers);
        }
        let lines: Vec<&[u8]> =
            headers.get_all(target).iter().map(|line| line.as_bytes()).collect();
        let members: sfv::Dictionary = sfv::Parser::new(&lines.join(&b", "[..])).parse().ok()?;
        if members.is_empty() {
            return None;
        }
        let mut directives = ResponseDirectives { targeted: true, ..Default::default() };
        for (name, entry) in &members {
            let item = match entry {
                sfv::ListEntry::Item(item) => item,
                // No directive is defined as an inner list. Permissive directives are ignored;
                // restrictive ones still apply.
                sfv::ListEntry::InnerList(_) => {
                    if !["public", "must-understand", "immutable"].contains(&name.as_str()) {
                        directives.apply(name.as_str(), || Delta::Invalid, || Scope::All);
                    }
                    continue;
                }
            };
            let value = &item.bare_item;
            if matches!(value, sfv::BareItem::Boolean(false)) {
                continue;
            }
            let delta = || match value {
                sfv::BareItem::Integer(number) => match u64::try_from(i64::from(*number)) {
                    Ok(seconds) => Delta::Value(Seconds::new(seconds)),
                    Err(_) => Delta::Invalid,
                },
                _ => Delta::Invalid,
            };
            let scope = || match value {
                sfv::BareItem::String(list) => Scope::from_list(list.as_str().as_bytes()),
                sfv::BareItem::Token(name) => Scope::from_list(name.as_str().as_bytes()),
                _ => Scope::All,
            };
            directives.apply(name.as_str(), delta, scope);
        }
        Some(directives)
    }

    fn apply(&mut self, name: &str, delta: impl Fn() -> Delta, scope: impl Fn() -> Scope) {
        match name {
            "public" => self.public = true,
            "no-store" => self.no_store = true,
            "must-understand" => self.must_understand = true,
            "must-revalidate" => self.must_revalidate = true,
            "proxy-revalidate" => self.proxy_revalidate = true,
            "no-transform" => self.no_transform = true,
            "immutable" => self.immutable = true,
            "private" => self.private.widen(scope()),
            "no-cache" => self.no_cache.widen(scope()),
            "max-age" => self.max_age.set(delta()),
            "s-maxage" => self.s_maxage.set(delta()),
            "stale-while-revalidate" => self.stale_while_revalidate.set(delta()),
            "stale-if-error" => self.stale_if_error.set(delta()),
            _ => {}
        }
    }
}

/// A directive name in lower case. Kept on the stack because requests are parsed on every hit.
struct Name {
    bytes: [u8; Name::MAX_LEN],
    length: usize,
}

impl Name {
    /// The longest known name is `stale-while-revalidate`, with 22 bytes.
    const MAX_LEN: usize = 24;

    /// Converts a name to lower case. A name that is too long becomes empty, which is unknown as
    /// well.
    fn new(name: &[u8]) -> Name {
        let mut bytes = [0; Name::MAX_LEN];
        let length = if name.len() > Name::MAX_LEN { 0 } else { name.len() };
        bytes[..length].copy_from_slice(&name[..length]);
        bytes.make_ascii_lowercase();
        Name { bytes, length }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

/// Splits a member at its first `=`. The name is trimmed, the value is not: `max-age = 60` is a
/// `max-age` with a malformed value rather than an unknown directive.
fn name_and_value(member: &[u8]) -> (Name, Option<&[u8]>) {
    let (name, value) = match member.iter().position(|&byte| byte == b'=') {
        Some(at) => (&member[..at], Some(&member[at + 1..])),
        None => (member, None),
    };
    (Name::new(list::trim(name)), value)
}

/// Returns whether a member is a token, or a token and a value that is a token or a quoted string.
fn is_well_formed(member: &[u8]) -> bool {
    let (name, value) = match member.iter().position(|&byte| byte == b'=') {
        Some(at) => (list::trim(&member[..at]), &member[at + 1..]),
        None => return list::is_token(member),
    };
    list::is_token(name) && (list::is_token(value) || list::unquote(value).is_some())
}

fn delta(value: Option<&[u8]>) -> Delta {
    let Some(value) = value else { return Delta::Invalid };
    match list::unquote(value) {
        Some(plain) => Delta::parse(&plain),
        None => Delta::parse(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    fn value(seconds: u64) -> Delta {
        Delta::Value(Seconds::new(seconds))
    }

    fn response(lines: &[&str]) -> ResponseDirectives {
        ResponseDirectives::parse(&headers(lines), &Settings::default())
    }

    fn request(line: &str) -> RequestDirectives {
        RequestDirectives::parse(&headers(&[line]))
    }

    #[test]
    fn seconds_are_digits_and_saturate() {
        let cases = [
            ("max-age=60", value(60)),
            ("max-age=0", value(0)),
            ("max-age=0060", value(60)),
            ("max-age=\"60\"", value(60)),
            ("MAX-AGE=60", value(60)),
            ("max-age=2147483648", value(1 << 31)),
            ("max-age=99999999999999999999999999", value(1 << 31)),
            ("max-age=-1", Delta::Invalid),
            ("max-age=+1", Delta::Invalid),
            ("max-age=1.5", Delta::Invalid),
            ("max-age=60s", Delta::Invalid),
            ("max-age=", Delta::Invalid),
            ("max-age", Delta::Invalid),
            ("max-age = 60", Delta::Invalid),
            ("max-age= 60", Delta::Invalid),
            ("max-age =60", value(60)),
            ("max-age=36 00", Delta::Invalid),
            ("max-age==60", Delta::Invalid),
            ("max-age=\"60", Delta::Invalid),
            ("max-age=60; no-store", Delta::Invalid),
            ("max-agex=60", Delta::Absent),
            ("unheard, unheard=of, max-age=60", value(60)),
            ("max-age='60'", Delta::Invalid),
            ("max-age=10, max-age=20", value(10)),
            ("max-age=x, max-age=20", Delta::Invalid),
            ("xmax-age=60", Delta::Absent),
            ("ext=\"max-age=60\"", Delta::Absent),
            ("ext=\"a, max-age=60\"", Delta::Absent),
            ("ext=\"a, max-age=60", value(60)),
            (",, ,max-age=60,", value(60)),
        ];
        for (text, expected) in cases {
            assert_eq!(response(&[&format!("Cache-Control: {text}")]).max_age, expected, "{text}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let directives =
            response(&["Cache-Control: max-age=10", "Cache-Control: No-Store, public"]);
        assert_eq!(directives.max_age, value(10));
        assert!(directives.no_store && directives.public);
        let halves = response(&["Cache-Control: ext=\"a", "Cache-Control: no-store, max-age=\"60"]);
        assert!(halves.no_store);
    }

    #[test]
    fn a_malformed_member_still_forbids() {
        for text in [
            "private; max-age=600",
            "max-age=600, private;",
            "max-age=600; private",
            "must-revalidate;private",
            "no-transform private",
            "max-age=600, \"private\"",
            "ext=(a) private",
            "private\u{a0}, max-age=60",
            "max-age=60, private=1",
            "max-age=60, private=?1",
        ] {
            let read = response(&[&format!("Cache-Control: {text}")]);
            assert_eq!(read.private, Scope::All, "{text}");
        }
        let read = response(&["Cache-Control: no-cache; No-Store; must-revalidate; max-age=600"]);
        assert!(read.no_store && read.must_revalidate && read.no_cache == Scope::All);
        assert_eq!(read.max_age, Delta::Invalid);
        assert_eq!(response(&["Cache-Control: public; immutable"]), ResponseDirectives::default());
    }

    #[test]
    fn an_argument_does_not_take_a_prohibition_away() {
        let directives = response(&["Cache-Control: no-store=1, must-revalidate=\"x\""]);
        assert!(directives.no_store && directives.must_revalidate);
    }

    #[test]
    fn private_and_no_cache_may_name_fields() {
        let fields = |names: &[&'static str]| {
            Scope::Fields(names.iter().map(|name| HeaderName::from_static(name)).collect())
        };
        let cases = [
            ("private", Scope::All),
            ("private=\"x-a\"", fields(&["x-a"])),
            ("private=x-a", fields(&["x-a"])),
            ("private=\"X-A, x-b\"", fields(&["x-a", "x-b"])),
            ("private=\"x-a\", private=\"x-b\"", fields(&["x-a", "x-b"])),
            ("private=\"x-a\", private", Scope::All),
            ("private, private=\"x-a\"", Scope::All),
            ("private=\"\"", Scope::All),
            ("private=\"x a\"", Scope::All),
            ("private=\"x-a", Scope::All),
            ("private=\"content-type\"", Scope::All),
            ("public", Scope::Absent),
        ];
        for (text, expected) in cases {
            assert_eq!(response(&[&format!("Cache-Control: {text}")]).private, expected, "{text}");
        }
    }

    #[test]
    fn request_directives_are_read() {
        let directives = request("Cache-Control: no-cache, no-store, only-if-cached, no-transform");
        assert!(directives.no_cache && directives.no_store);
        assert!(directives.only_if_cached && directives.no_transform);
        let directives = request("Cache-Control: max-age=1, min-fresh=2, stale-if-error=3");
        assert_eq!(directives.max_age, value(1));
        assert_eq!(directives.min_fresh, value(2));
        assert_eq!(directives.stale_if_error, value(3));
        for (text, expected) in [
            ("max-stale", MaxStale::Any),
            ("max-stale=5", MaxStale::UpTo(Seconds::new(5))),
            ("max-stale=x", MaxStale::None),
            ("max-stale=5, max-stale", MaxStale::UpTo(Seconds::new(5))),
            ("no-transform", MaxStale::None),
        ] {
            assert_eq!(request(&format!("Cache-Control: {text}")).max_stale, expected, "{text}");
        }
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        assert!(request("Pragma: foo, No-Cache").no_cache);
        assert!(!request("Pragma: foo").no_cache);
        let both = headers(&["Pragma: no-cache", "Cache-Control: max-age=5"]);
        assert!(!RequestDirectives::parse(&both).no_cache);
        assert_eq!(response(&["Pragma: no-cache"]), ResponseDirectives::default());
    }

    #[test]
    fn the_first_readable_targeted_field_wins() {
        let settings = Settings {
            targets: vec![
                HeaderName::from_static("larder-cache-control"),
                HeaderName::from_static("cdn-cache-control"),
            ],
            ..Settings::default()
        };
        let parse = |lines: &[&str]| ResponseDirectives::parse(&headers(lines), &settings);
        let plain = "Cache-Control: no-store";
        let read =
            parse(&[plain, "CDN-Cache-Control: max-age=60", "Larder-Cache-Control: max-age=9"]);
        assert_eq!((read.max_age, read.no_store, read.targeted), (value(9), false, true));
        let read = parse(&[plain, "CDN-Cache-Control: max-age=60, private=\"x-a\", public=?0"]);
        assert_eq!((read.max_age, read.public), (value(60), false));
        assert_eq!(read.private, Scope::Fields(vec![HeaderName::from_static("x-a")]));
        let read = parse(&[plain, "CDN-Cache-Control: max-age=60", "CDN-Cache-Control: no-cache"]);
        assert_eq!((read.max_age, read.no_cache), (value(60), Scope::All));
        for unusable in ["", "Max-Age=60", "max-age=60,", "max-age=\"", "(60"] {
            let line = format!("CDN-Cache-Control: {unusable}");
            let read = parse(&[plain, &line]);
            assert!(read.no_store && !read.targeted, "{unusable:?} must be ignored");
        }
        let read =
            parse(&["CDN-Cache-Control: max-age=60, private=(\"x-a\" \"x-b\"), no-store=()"]);
        assert_eq!((read.private, read.no_store), (Scope::All, true));
        for invalid in ["max-age=\"60\"", "max-age=-1", "max-age=1.5", "max-age", "max-age=(60)"] {
            let read = parse(&[&format!("CDN-Cache-Control: {invalid}")]);
            assert_eq!(read.max_age, Delta::Invalid, "{invalid}");
        }
        let ignored = ResponseDirectives::parse(
            &headers(&[plain, "CDN-Cache-Control: max-age=60"]),
            &Settings::default(),
        );
        assert!(ignored.no_store, "without targets the field means nothing");
    }

    #[test]
    fn accel_expires_is_read_as_nginx_reads_it() {
        let targets = vec![HeaderName::from_static("x-accel-expires")];
        let settings = Settings { targets, ..Settings::default() };
        for (field, no_store, max_age) in [
            ("X-Accel-Expires: 60", false, value(60)),
            ("X-Accel-Expires: 0", true, Delta::Absent),
            ("X-Accel-Expires: @1700000000", true, Delta::Absent),
            ("X-Accel-Expires: off", false, value(5)),
            ("X-Accel-Expires: -1", false, value(5)),
            ("X-Other: 60", false, value(5)),
        ] {
            let lines = headers(&["Cache-Control: max-age=5", field]);
            let read = ResponseDirectives::parse(&lines, &settings);
            assert_eq!((read.no_store, read.max_age), (no_store, max_age), "{field}");
        }
    }
}
