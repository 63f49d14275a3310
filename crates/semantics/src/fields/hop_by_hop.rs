//! Hop-by-hop fields (RFC 9110, 7.6.1), which are never stored or forwarded.
//!
//! `Connection` may name more of them, but some names are protected: a client could change the
//! responses of others if it had `Host`, `Cache-Control` or `Content-Length` removed.

use http::header::{self, CONNECTION, HeaderName, TE};

use crate::fields::list;
use crate::fields::view::{EditFields, Fields};
use crate::settings::usual_names::{UsualName, UsualNames};

const HAS_CONNECTION: UsualNames = UsualNames::of(&["connection"]);

/// Fields that are always hop-by-hop.
const ALWAYS: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
    TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that are end-to-end even if `Connection` names them.
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

/// Returns whether a field is always hop-by-hop, regardless of `Connection`. Case does not matter.
pub fn is_for_one_hop(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    let known: &[&str] = match name.len() {
        2 => &["te"],
        7 => &["trailer", "upgrade"],
        10 => &["connection", "keep-alive"],
        16 => &["proxy-connection"],
        17 => &["transfer-encoding"],
        18 => &["proxy-authenticate"],
        19 => &["proxy-authorization"],
        25 => &["proxy-authentication-info"],
        _ => &[],
    };
    known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Removes the hop-by-hop fields from a request or response.
///
/// A listener that authenticates clients must read `Proxy-Authorization` first; one that tunnels an
/// `Upgrade` must read that first. The writer of the message sets the framing fields
/// (`Transfer-Encoding`, `Trailer`) again.
pub fn strip(fields: &mut impl EditFields) {
    strip_named(fields);
    strip_always(fields);
}

/// Removes the fields that are always hop-by-hop. Call it after [`strip_named`]: it does not obey
/// `Connection` again, which would remove fields that were set since.
pub fn strip_always(fields: &mut impl EditFields) {
    // Most heads have none.
    if fields.all().any(|(name, _)| is_for_one_hop(name)) {
        for name in &ALWAYS {
            fields.remove_lines(name);
        }
    }
}

/// Removes the fields that only `Connection` makes hop-by-hop. Call it before any field is
/// interpreted: a field that the origin never sees must not select a response.
pub fn strip_named(fields: &mut impl EditFields) {
    if !fields.has_any(HAS_CONNECTION) {
        return;
    }
    // Most `Connection` fields name no field but `Keep-Alive`.
    let named = named_by_connection(fields);
    if named.is_empty() {
        return;
    }
    let usual = named.iter().filter_map(|name| UsualName::of(name.as_str())).collect();
    let is_named = |name: &str| {
        let lower = || name.bytes().map(|byte| byte.to_ascii_lowercase());
        named.binary_search_by(|known| known.as_str().bytes().cmp(lower())).is_ok()
    };
    fields.remove_in(usual, is_named);
}

/// Returns the names that only `Connection` makes hop-by-hop, without protected ones, sorted and
/// deduplicated. Sorted because both the names and the fields may number in the thousands.
fn named_by_connection(fields: &impl Fields) -> Vec<HeaderName> {
    let members = list::members(fields, &CONNECTION).filter(|member| !is_for_one_hop(member));
    let names = members.filter_map(|member| HeaderName::from_bytes(member).ok());
    let mut names: Vec<HeaderName> = names.filter(|name| !NEVER.contains(name)).collect();
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}

/// Returns whether the sender accepts trailers (`TE: trailers`; RFC 9110, 10.1.4). Call it before
/// [`strip`].
pub fn accepts_trailers(fields: &impl Fields) -> bool {
    list::members(fields, &TE).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn many_members_of_connection_are_one_pass() {
        let many = format!("Connection: {}", "X-Gone, x-absent, host,".repeat(2000));
        let lines: Vec<String> = (0..2000).map(|number| format!("X-{number}: 1")).collect();
        let lines = lines.iter().map(String::as_str);
        let all: Vec<&str> = lines.chain([&*many, "x-GONE: 1", "Host: a", "X-Gone: 2"]).collect();
        let mut message = headers(&all);
        assert_eq!(named_by_connection(&message), ["x-absent", "x-gone"]);
        strip_named(&mut message);
        assert_eq!(message.len(), 2002);
    }

    #[test]
    fn hop_by_hop_fields_are_recognised_by_name() {
        for name in &ALWAYS {
            assert!(is_for_one_hop(name.as_str().to_ascii_uppercase()), "{name}");
        }
        assert!(!NEVER.iter().any(is_for_one_hop) && !is_for_one_hop("close"));
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
        assert!(accepts_trailers(&message) && message.contains_key(header::UPGRADE));
        assert!(!message.contains_key("x-hop") && !message.contains_key("x-other"));
        strip(&mut message);
        let expected =
            headers(&["Host: a", "Cache-Control: no-store", "Content-Length: 5", "X-Kept: 1"]);
        assert_eq!(message, expected);
        assert!(!accepts_trailers(&message));
    }
}
