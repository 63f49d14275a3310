//! Response fields that concern one exchange or one message, not the representation.
//!
//! In a 304, such a field is for the client whose request caused the validation. If it were stored
//! with the representation, every other client would get it. A digest of the content of a message
//! (RFC 9530, 2; formerly `Content-MD5`) is wrong for any other message: for a 304, which has no
//! content, and for a partial response.

use http::header::{HeaderMap, HeaderName, SET_COOKIE, WWW_AUTHENTICATE};

/// Fields for the client of one exchange.
const FOR_CLIENT: [HeaderName; 5] = [
    SET_COOKIE,
    WWW_AUTHENTICATE,
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("set-cookie2"),
];

/// Digests of the content of one message.
const CONTENT_DIGESTS: [HeaderName; 2] =
    [HeaderName::from_static("content-digest"), HeaderName::from_static("content-md5")];

/// Returns the one-exchange and digest fields that are absent from a stored response. An update of
/// the response must not add them.
pub(crate) fn lacked_by(stored: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let all = FOR_CLIENT.into_iter().chain(CONTENT_DIGESTS);
    all.filter(|name| !stored.contains_key(name))
}

/// Returns the fields of an update that go to its client alone because the stored response lacks
/// them. Digests are not included: the client gets a different message than the digest describes.
pub(crate) fn for_client(stored: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    FOR_CLIENT.into_iter().filter(|name| !stored.contains_key(name))
}

/// Returns whether a field of this name is for the client of one exchange.
pub(crate) fn is_for_client(name: &HeaderName) -> bool {
    FOR_CLIENT.contains(name)
}

/// Removes fields for the client of one exchange from trailers that other clients may get.
pub fn remove_personal(trailers: &mut HeaderMap) {
    for name in FOR_CLIENT {
        trailers.remove(name);
    }
}

/// Returns whether a field of this name is a digest of message content.
pub fn is_content_digest(name: &str) -> bool {
    CONTENT_DIGESTS.iter().any(|digest| digest == name)
}

/// Removes digests of message content from fields that will describe another message.
pub fn remove_content_digests(fields: &mut HeaderMap) {
    for name in CONTENT_DIGESTS {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_known_by_their_names() {
        assert!(CONTENT_DIGESTS.iter().all(|name| is_content_digest(name.as_str())));
        assert!(is_content_digest("Content-MD5") && !is_content_digest("repr-digest"));
    }
}
