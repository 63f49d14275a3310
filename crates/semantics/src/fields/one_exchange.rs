//! Response fields that speak of one exchange or of one message, not of the representation.
//!
//! A 304 that carries one of them carries it for the client whose request caused the validation;
//! stored with the representation it would reach every other client. A digest of a message's
//! content (RFC 9530, 2; `Content-MD5` before it) is wrong for any other message: for a 304, which
//! has no content, and for a part.

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

/// Returns the fields that an update of a stored response with these fields leaves out: those of
/// one exchange or message that it has not got itself.
pub(crate) fn lacked_by(stored: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let all = FOR_CLIENT.into_iter().chain(CONTENT_DIGESTS);
    all.filter(|name| !stored.contains_key(name))
}

/// Returns the fields of an update that are for its client alone, as the stored response has none
/// of them. A digest is not: the client gets another message than the one that it is of.
pub(crate) fn for_client(stored: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    FOR_CLIENT.into_iter().filter(|name| !stored.contains_key(name))
}

/// Removes from trailers that others may get the fields for the client of one exchange.
pub fn remove_personal(trailers: &mut HeaderMap) {
    for name in FOR_CLIENT {
        trailers.remove(name);
    }
}

/// Returns whether a field of this name is a digest of a message's content.
pub fn is_content_digest(name: &str) -> bool {
    CONTENT_DIGESTS.iter().any(|digest| digest == name)
}

/// Removes the digests of a message's content: the fields are to be those of another message.
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
