//! Fields that may follow a body (RFC 9110, 6.5).

use http::header::{self, HeaderMap, HeaderName};
use semantics::hop_by_hop::is_for_one_hop;

/// Returns the trailers that a head announces and that may be trailers (RFC 9110, 6.5.1).
pub(crate) fn announced(fields: &HeaderMap) -> Vec<HeaderName> {
    let lines = fields.get_all(header::TRAILER).iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    names
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .filter(may_be_trailer)
        .collect()
}

/// Returns whether a field may be a trailer.
pub(crate) fn may_be_trailer(name: &HeaderName) -> bool {
    let is_of_head = matches!(
        *name,
        header::AUTHORIZATION
            | header::CACHE_CONTROL
            | header::CONTENT_ENCODING
            | header::CONTENT_LENGTH
            | header::CONTENT_RANGE
            | header::CONTENT_TYPE
            | header::HOST
            | header::MAX_FORWARDS
            | header::SET_COOKIE
    );
    !is_of_head && !is_for_one_hop(name)
}
