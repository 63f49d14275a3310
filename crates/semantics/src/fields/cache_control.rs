//! `Cache-Control` of requests and responses (RFC 9111, 5.2), read restrictively.
//!
//! Unknown directives and malformed members are skipped; a malformed *value* of a known directive
//! counts as the most restrictive one, since a sender that wrote `max-age=abc` did mean to limit
//! something. Names are case-insensitive; a value may be quoted or not (5.2); of several values of
//! one directive the first is taken (4.2.1); of contradicting directives all are kept, and the
//! caller looks at the restrictive ones first. Values above 2^31 become 2^31 (1.2.2).

use http::HeaderName;
use http::header::{CACHE_CONTROL, HeaderMap, PRAGMA};

use crate::fields::list;
use crate::fields::view::Fields;
use crate::settings::Settings;
use crate::time::Seconds;

/// The value of a directive that takes seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    /// The directive is not there.
    #[default]
    Absent,
    /// It is there without a number that can be used.
    Invalid,
    /// It is there.
    Value(Seconds),
}

impl Delta {
    /// Reads `delta-seconds` (RFC 9111, 1.2.2): digits only.
    pub(crate) fn parse(digits: &[u8]) -> Delta {
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Delta::Invalid;
        }
        let value = digits.iter().fold(0u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        Delta::Value(Seconds::new(value))
    }

    /// Returns the seconds; an unusable number counts as zero.
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

/// `private` and `no-cache`: for the whole response or for some of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The directive is not there.
    #[default]
    Absent,
    /// Only these fields are meant, such as in `no-cache="set-cookie"`.
    Fields(Vec<HeaderName>),
    /// The whole response is meant.
    All,
}

impl Scope {
    /// Fields that cannot be left out of an answer without changing what it says: a directive that
    /// names one of them is taken for the whole response.
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

    /// Returns the fields that `list` names; all fields when it names none, or one that is no field
    /// name.
    fn from_list(list: &[u8]) -> Scope {
        let mut fields = Vec::new();
        for member in list::split(list) {
            match HeaderName::from_bytes(member) {
                Ok(name) if !Self::ESSENTIAL.contains(&name) => fields.push(name),
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

    /// Returns the named fields; none when the directive is absent or for the whole response.
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
    /// Not at all.
    #[default]
    None,
    /// At most this long past its lifetime.
    UpTo(Seconds),
    /// However stale.
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
    /// `only-if-cached`: a stored answer or 504.
    pub only_if_cached: bool,
    /// `max-age`: the oldest answer wanted.
    pub max_age: Delta,
    /// `min-fresh`: how long the answer must stay fresh.
    pub min_fresh: Delta,
    /// `max-stale`.
    pub max_stale: MaxStale,
    /// `stale-if-error`.
    pub stale_if_error: Delta,
}

impl RequestDirectives {
    /// Returns the directives in a request's fields.
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

    /// Returns whether they ask for an answer that is made after the request.
    pub fn reloads(&self) -> bool {
        self.no_cache || self.max_age == Delta::Value(Seconds::ZERO)
    }

    /// Returns the same directives without those that ask for an answer of some age.
    pub fn without_reload(self) -> RequestDirectives {
        RequestDirectives {
            no_cache: false,
            max_age: Delta::Absent,
            min_fresh: Delta::Absent,
            ..self
        }
    }
}

/// The directives of a response (RFC 9111, 5.2.2; RFC 5861; `immutable` of RFC 8246).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// They come from a targeted field (RFC 9213), so `Expires` is not to be looked at.
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
    /// Returns the directives that count for this cache: those of the first targeted field in
    /// `settings.targets` that is there, is not empty and can be parsed (RFC 9213, 2.2), else those
    /// of `Cache-Control`. None count for an origin that vouches for its answers.
    pub fn parse(headers: &HeaderMap, settings: &Settings) -> ResponseDirectives {
        if settings.origin_vouches {
            return ResponseDirectives { targeted: true, ..ResponseDirectives::default() };
        }
        settings
            .targets
            .iter()
            .find_map(|target| Self::targeted(headers, target))
            .unwrap_or_else(|| Self::plain(headers))
    }

    fn plain(headers: &HeaderMap) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        for (name, value) in list::members(headers, &CACHE_CONTROL).map(name_and_value) {
            let scope = || match value {
                None => Scope::All,
                Some(value) => {
                    let plain = list::unquote(value);
                    Scope::from_list(plain.as_deref().unwrap_or(value))
                }
            };
            directives.apply(name.as_str(), || delta(value), scope);
        }
        directives
    }

    /// Returns the directives of a targeted field: a dictionary structured field (RFC 9213, 2.1).
    fn targeted(headers: &HeaderMap, target: &HeaderName) -> Option<ResponseDirectives> {
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
                // No directive is defined so: what would permit says nothing then, what restricts
                // is heeded none the less.
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

/// The name of a directive in lower case, without an allocation: requests are parsed on every hit.
struct Name {
    bytes: [u8; Name::MAX_LEN],
    length: usize,
}

impl Name {
    /// The longest name that means anything to us is `stale-while-revalidate`.
    const MAX_LEN: usize = 24;

    /// Returns the name in lower case; one that is too long becomes empty, which is just as
    /// unknown.
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

/// Splits a member at its first `=`; the name is trimmed, the value taken as it is, so that
/// `max-age = 60` is a `max-age` with a bad value and not something unknown.
fn name_and_value(member: &[u8]) -> (Name, Option<&[u8]>) {
    let (name, value) = match member.iter().position(|&byte| byte == b'=') {
        Some(at) => (&member[..at], Some(&member[at + 1..])),
        None => (member, None),
    };
    (Name::new(list::trim(name)), value)
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
}
