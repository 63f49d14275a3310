//! Fields that a proxy adds to a message head and reads from it: `Via` (RFC 9110, 7.6.3) or
//! `CDN-Loop` (RFC 8586), with loop detection; also simple list fields and methods.

use http::header::{HeaderName, HeaderValue};
use http::{Method, Version, header};
use net::random::random;
use semantics::{EditFields, Fields, MethodClass, UsualNames, value};

use crate::message::pseudonym::Pseudonym;

/// Returns the members of a comma-separated list field over all its lines, without empty ones. Not
/// suitable for fields whose members may contain quoted commas.
pub fn list<'a>(fields: &'a impl Fields, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    fields
        .lines(name)
        .filter_map(value::text)
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|member| !member.is_empty())
}

/// Returns whether a list field contains a member, ignoring case.
pub fn has_member(fields: &impl Fields, name: &HeaderName, member: &str) -> bool {
    list(fields, name).any(|m| m.eq_ignore_ascii_case(member))
}

/// `CDN-Loop`: the proxies that a request has passed. Servers attach no other meaning to it.
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// The fields that record the path of a request.
const HAS_WAY: UsualNames = UsualNames::of(&["via", "cdn-loop"]);

/// The proxy's `Via` entries, one for each HTTP version in which a message may arrive. A comment
/// with a random number distinguishes this process from others with the same name, so that two
/// Larders in a row are not mistaken for a loop.
pub struct Via {
    http10: HeaderValue,
    http11: HeaderValue,
    http2: HeaderValue,
    own: String,
    cdn_loop: HeaderValue,
}

impl Via {
    /// Creates the entries of a proxy with this name.
    pub fn new(pseudonym: &Pseudonym) -> Via {
        let (name, number) = (pseudonym.as_str(), random() as u32);
        let own = format!("{name} ({number:08x})");
        let value = |text: &str| HeaderValue::from_str(text).expect("a pseudonym is a token");
        let entry = |version: &str| value(&format!("{version} {own}"));
        let cdn_loop = value(&format!("{name};id={number:08x}"));
        Via { http10: entry("1.0"), http11: entry("1.1"), http2: entry("2.0"), own, cdn_loop }
    }

    /// Returns the entry for a message received with `version`.
    pub fn entry(&self, version: Version) -> HeaderValue {
        match version {
            Version::HTTP_10 => self.http10.clone(),
            Version::HTTP_2 => self.http2.clone(),
            _ => self.http11.clone(),
        }
    }

    /// Marks a request as having passed this proxy with `CDN-Loop` instead of `Via`.
    pub fn hide(&self, fields: &mut impl EditFields) {
        fields.remove_lines(&header::VIA);
        fields.add_line(&CDN_LOOP, &self.cdn_loop);
    }

    /// Returns whether a request has already passed this proxy.
    pub fn is_loop(&self, fields: &impl Fields) -> bool {
        let is_own = |entry: &str| {
            let entry = entry.bytes().filter(|byte| !matches!(byte, b' ' | b'\t'));
            entry.eq(self.cdn_loop.as_bytes().iter().copied())
        };
        fields.has_any(HAS_WAY)
            && (list(fields, &header::VIA).any(|entry| entry.ends_with(&self.own))
                || list(fields, &CDN_LOOP).any(is_own))
    }
}

/// Returns whether a method is idempotent and its request may be repeated (RFC 9110, 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    MethodClass::of(method) != MethodClass::Unsafe
        || matches!(*method, Method::PUT | Method::DELETE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn its_own_entries_are_a_loop_and_those_of_a_namesake_are_not() {
        let [own, namesake] = [(); 2].map(|()| Via::new(&Pseudonym::default()));
        let mut request = HeaderMap::new();
        assert!(!own.is_loop(&request));
        request.append(header::VIA, HeaderValue::from_static("1.0 fred"));
        request.append(header::VIA, namesake.entry(Version::HTTP_11));
        assert!(!own.is_loop(&request));
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            let mut request = request.clone();
            request.append(header::VIA, own.entry(version));
            request.append(header::VIA, HeaderValue::from_static("1.1 fred"));
            assert!(own.is_loop(&request), "{version:?}");
        }
        namesake.hide(&mut request);
        assert!(!request.contains_key(header::VIA) && !own.is_loop(&request));
        own.hide(&mut request);
        assert!(own.is_loop(&request));
        let spaced = own.cdn_loop.to_str().unwrap().replace(';', " ; ");
        let spaced = HeaderValue::from_str(&format!("other, {spaced}")).unwrap();
        assert!(own.is_loop(&HeaderMap::from_iter([(CDN_LOOP, spaced)])));
    }
}
