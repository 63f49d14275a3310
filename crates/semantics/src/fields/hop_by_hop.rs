//! Fields that are for one connection only (RFC 9110, 7.6.1) and are never stored or passed on.
//!
//! `Connection` may name further ones. For some names it is not obeyed: removing `Host`,
//! `Cache-Control` or `Content-Length` at a client's request would let it change the answers of
//! others.

use http::header::{
    self, CONNECTION, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

use crate::fields::list;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");

/// Always for one hop only.
const ALWAYS: [HeaderName; 10] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATION_INFO,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// For the whole way, whatever `Connection` says.
const NEVER: [HeaderName; 28] = [
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::DATE,
    header::ETAG,
    header::EXPECT,
    header::EXPIRES,
    header::FORWARDED,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::LAST_MODIFIED,
    header::LOCATION,
    header::MAX_FORWARDS,
    header::PRAGMA,
    header::RANGE,
    header::SET_COOKIE,
    header::VARY,
    header::VIA,
];

/// Returns whether a field is for one connection only whatever `Connection` says.
pub fn is_for_one_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-authentication-info"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Removes the fields that are for one hop only from a request or response, in place.
///
/// A listener that authenticates clients itself reads `Proxy-Authorization` before this; one that
/// tunnels an `Upgrade`, likewise. The framing fields (`Transfer-Encoding`, `Trailer`) are set anew
/// by the writer of the message.
pub fn strip(headers: &mut HeaderMap) {
    // Most heads have none.
    if headers.keys().any(is_for_one_hop) {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        for name in ALWAYS {
            headers.remove(name);
        }
    }
}

/// Removes the fields that are always for one hop from a request that [`strip_named`] has seen.
/// `Connection` is not obeyed again: it would remove fields that were set since.
pub fn strip_always(headers: &mut HeaderMap) {
    if headers.keys().any(is_for_one_hop) {
        for name in ALWAYS {
            headers.remove(name);
        }
    }
}

/// Removes from a request what only its `Connection` makes hop-by-hop. To be done before anything
/// is concluded from a field: what the origin never sees must not choose among its answers.
pub fn strip_named(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in named_by_connection(headers) {
            if !is_for_one_hop(&name) {
                headers.remove(name);
            }
        }
    }
}

/// Returns the fields that `Connection` makes hop-by-hop, protected ones left out.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    list::members(headers, CONNECTION)
        .filter_map(|member| HeaderName::from_bytes(member).ok())
        .filter(|name| !NEVER.contains(name))
        .collect()
}

/// Returns whether the sender accepts trailers (`TE: trailers`; RFC 9110, 10.1.4). Call it before
/// [`strip`].
pub fn accepts_trailers(headers: &HeaderMap) -> bool {
    list::members(headers, TE).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn what_is_for_one_hop_is_known_by_its_name() {
        assert!(ALWAYS.iter().all(is_for_one_hop) && !NEVER.iter().any(is_for_one_hop));
    }

    #[test]
    fn connection_bound_fields_go_and_essential_ones_stay() {
        let mut message = headers(&[
            "Connection: close, X-Hop, Host, cache-control,,\"x",
            "Connection: x-other, Content-Length",
            "X-Hop: 1",
            "X-Other: 1",
            "X-Other: 2",
            "Keep-Alive: timeout=5",
            "Proxy-Connection: close",
            "Proxy-Authorization: x",
            "Proxy-Authenticate: x",
            "Proxy-Authentication-Info: x",
            "TE: trailers",
            "Trailer: x",
            "Transfer-Encoding: chunked",
            "Upgrade: h2c",
            "Host: a",
            "Cache-Control: no-store",
            "Content-Length: 5",
            "X-Kept: 1",
        ]);
        strip_named(&mut message);
        assert!(accepts_trailers(&message) && message.contains_key(UPGRADE));
        assert!(!message.contains_key("x-hop") && !message.contains_key("x-other"));
        strip(&mut message);
        let expected =
            headers(&["Host: a", "Cache-Control: no-store", "Content-Length: 5", "X-Kept: 1"]);
        assert_eq!(message, expected);
        assert!(!accepts_trailers(&message));
    }
}
