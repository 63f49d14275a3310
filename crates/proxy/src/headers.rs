//! What a proxy takes out of and puts into a message head: hop-by-hop fields and `Via`
//! (RFC 9110 sections 7.6.1 and 7.6.3).

use std::hash::{BuildHasher, Hasher, RandomState};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Version};

use crate::options::Pseudonym;

/// Fields of one hop, whatever `Connection` names. `Trailer` stays: trailers are passed on, and
/// `Proxy-Authenticate`/`Proxy-Authorization` concern us alone.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that `Connection` must not remove even when it names them: they say where a message
/// goes, how long it is, or what may be done with it, so a sender could use the removal against
/// us or those behind us.
const KEPT: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CACHE_CONTROL,
    header::VIA,
    header::AGE,
    header::AUTHORIZATION,
];

/// Removes everything that concerns one hop only.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = list(headers, &header::CONNECTION)
            .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
            .filter(|name| !KEPT.contains(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP {
        headers.remove(name);
    }
}

/// The members of a comma-separated list field, over all its lines, empty ones left out. Not for
/// fields whose members may hold quoted commas.
pub(crate) fn list<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|member| !member.is_empty())
}

/// True when a list field has a member, compared without case.
pub(crate) fn has_member(headers: &HeaderMap, name: &HeaderName, member: &str) -> bool {
    headers.contains_key(name) && list(headers, name).any(|m| m.eq_ignore_ascii_case(member))
}

/// True when the trailers of an answer may be sent on: the client said `TE: trailers`.
pub(crate) fn takes_trailers(headers: &HeaderMap) -> bool {
    has_member(headers, &header::TE, "trailers")
}

/// Our entries for `Via`, one for each version of HTTP a message may have come in with. A comment
/// with a random number tells this process from others of the same name, so that two Larders in
/// a row are no loop.
pub(crate) struct Via {
    http10: HeaderValue,
    http11: HeaderValue,
    own: String,
}

impl Via {
    pub fn new(pseudonym: &Pseudonym) -> Via {
        let own = format!("{} ({:08x})", pseudonym.as_str(), random() as u32);
        let value = |version: &str| {
            HeaderValue::from_str(&format!("{version} {own}")).expect("a pseudonym is a token")
        };
        Via { http10: value("1.0"), http11: value("1.1"), own }
    }

    /// The entry for a message received with `version`.
    pub fn entry(&self, version: Version) -> HeaderValue {
        if version == Version::HTTP_10 { self.http10.clone() } else { self.http11.clone() }
    }

    /// True when a request went through us before.
    pub fn is_loop(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(header::VIA)
            && list(headers, &header::VIA).any(|entry| entry.ends_with(&self.own))
    }
}

/// A random number from the keys that the standard library draws for its hash maps.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// True for methods that neither change the resource nor anything else (RFC 9110, 9.2.1).
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
        || method.as_str() == "PROPFIND"
        || method.as_str() == "REPORT"
        || method.as_str() == "SEARCH"
}

/// True for methods that may be repeated (RFC 9110, 9.2.2).
pub(crate) fn is_idempotent(method: &Method) -> bool {
    is_safe(method) || matches!(*method, Method::PUT | Method::DELETE)
}
