//! Response fields that the operator has the cache ignore, as nginx's `proxy_ignore_headers` does:
//! they do not decide on storing, lifetimes or variants, and clients still get them.
//!
//! The names travel with the response in the field [`IGNORED`], so that the store, a later 304 and
//! other nodes of a fleet judge it alike.

use http::header::{CACHE_CONTROL, EXPIRES, HeaderMap, HeaderName, HeaderValue, SET_COOKIE, VARY};

use crate::fields::list;

/// Field of stored responses with the names of the ignored fields. Clients never get it, and
/// origins cannot set it. Its name is as long as [`crate::compressed::BODY_ID`], which makes it
/// cheap to leave out of a response.
pub const IGNORED: HeaderName = HeaderName::from_static("larder-skip");

/// Every field that can be ignored.
pub const IGNORABLE: [HeaderName; 7] = [
    CACHE_CONTROL,
    EXPIRES,
    SET_COOKIE,
    VARY,
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("x-accel-expires"),
];

/// Between `vary` and a name that counts although the origin's `Vary` does not.
const BUT: u8 = b'=';

/// The ignored fields of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IgnoredFields<'a>(&'a [u8]);

impl<'a> IgnoredFields<'a> {
    /// Returns the ignored fields of a response with these fields.
    pub fn of(headers: &'a HeaderMap) -> IgnoredFields<'a> {
        IgnoredFields(headers.get(IGNORED).map_or(b"", HeaderValue::as_bytes))
    }

    /// Returns whether a field is ignored.
    pub fn has(self, name: &HeaderName) -> bool {
        !self.0.is_empty() && list::split(self.0).any(|member| member == name.as_str().as_bytes())
    }

    /// Returns the names that the response varies on, if its `Vary` is ignored.
    pub fn in_place_of_vary(self) -> Option<impl Iterator<Item = &'a [u8]>> {
        let name = |member: &'a [u8]| member.strip_prefix(b"vary")?.strip_prefix(&[BUT]);
        self.has(&VARY).then(|| list::split(self.0).filter_map(name))
    }
}

/// Returns the value of [`IGNORED`] for these fields. The names in `keyed` select the response even
/// if its `Vary` is ignored.
pub fn value_of<'a>(
    names: &[HeaderName],
    keyed: impl Iterator<Item = &'a HeaderName>,
) -> HeaderValue {
    let mut members: Vec<String> = names.iter().map(HeaderName::to_string).collect();
    if names.contains(&VARY) {
        members.extend(keyed.map(|name| format!("vary={name}")));
    }
    HeaderValue::try_from(members.join(", ")).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::vary::Vary;
    use crate::fixture::{EARLIER_DATE, LATER_DATE, NOW, headers};
    use crate::response::freshness;
    use crate::{ExchangeTimes, RequestFacts, ResponseDirectives, Settings, StoredHead};

    const ALL: &[&str] = &[
        "Cache-Control: private, max-age=9",
        "CDN-Cache-Control: no-store",
        "Set-Cookie: a=b",
        "Vary: Accept, Accept-Language",
    ];

    fn ignoring(names: &[HeaderName], lines: &[&str]) -> HeaderMap {
        let keyed = [http::header::ACCEPT_LANGUAGE];
        let mut fields = headers(lines);
        fields.insert(IGNORED, value_of(names, keyed.iter()));
        fields
    }

    #[test]
    fn ignored_fields_decide_nothing() {
        let cdn = IGNORABLE[4].clone();
        let settings = Settings { targets: vec![cdn.clone()], ..Settings::default() };
        let parse = |names: &[HeaderName]| {
            let fields = ignoring(names, ALL);
            ResponseDirectives::parse(&fields, &settings)
        };
        assert!(parse(&[CACHE_CONTROL]).no_store);
        assert!(!parse(std::slice::from_ref(&cdn)).no_store);
        assert!(
            parse(std::slice::from_ref(&cdn)).max_age
                == crate::fields::cache_control::Delta::parse(b"9")
        );
        assert_eq!(parse(&[cdn, CACHE_CONTROL]), ResponseDirectives::default());
    }

    #[test]
    fn names_of_the_key_count_beside_an_ignored_vary() {
        let vary = |names: &[HeaderName]| Vary::of(&ignoring(names, ALL)).names().len();
        assert_eq!((vary(&[EXPIRES]), vary(&[VARY])), (2, 1));
        let mut fields = headers(&["Vary: *"]);
        fields.insert(IGNORED, value_of(&[VARY], std::iter::empty()));
        assert_eq!(Vary::of(&fields), Vary::None);
    }

    #[test]
    fn an_ignored_expires_is_no_lifetime() {
        let stated = |names: &[HeaderName]| {
            let expires = format!("Expires: {LATER_DATE}");
            let modified = format!("Last-Modified: {EARLIER_DATE}");
            let fields = ignoring(names, &[&expires, &modified]);
            let settings = Settings::default();
            let directives = ResponseDirectives::parse(&fields, &settings);
            let (target, ok) = (crate::facts::TargetFacts::default(), http::StatusCode::OK);
            let freshness = freshness::lifetime(target, ok, &fields, &directives, NOW, &settings);
            freshness.is_stated_by_origin()
        };
        assert!(stated(&[]) && !stated(&[EXPIRES]));
    }

    #[test]
    fn a_stored_response_has_no_ignored_cookie() {
        let fields = ignoring(&[CACHE_CONTROL, SET_COOKIE], &["Set-Cookie: a=b", "ETag: \"a\""]);
        let facts = RequestFacts::of(&http::Method::GET, &headers(&[]));
        let times = ExchangeTimes { requested: NOW, received: NOW };
        let settings = Settings::default();
        let judged =
            |fields| StoredHead::judged(&facts, http::StatusCode::OK, fields, times, &settings);
        let head = judged(&fields).unwrap();
        assert_eq!(head.headers().get(SET_COOKIE), None);
        assert!(judged(&ignoring(&[CACHE_CONTROL], &["Set-Cookie: a=b", "ETag: \"a\""])).is_err());
    }
}
