//! `Max-Forwards` (RFC 9110, 7.6.2): the remaining number of hops of a TRACE or OPTIONS request.

use http::Method;
use http::header::MAX_FORWARDS;

use crate::fields::cache_control::Delta;
use crate::fields::view::Fields;

/// Returns how many more hops a request may take; `None` means no limit. The field only applies to
/// TRACE and OPTIONS, and a malformed value is ignored. Numbers above 2^31 count as 2^31.
pub fn hops_left(method: &Method, request: &impl Fields) -> Option<u32> {
    if !matches!(*method, Method::TRACE | Method::OPTIONS) {
        return None;
    }
    match Delta::parse(request.line(&MAX_FORWARDS)?) {
        Delta::Value(left) => Some(left.get()),
        Delta::Absent | Delta::Invalid => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::fixture::headers;

    #[test]
    fn the_number_counts_for_trace_and_options() {
        for (method, value, expected) in [
            (Method::TRACE, "0", Some(0)),
            (Method::OPTIONS, "10", Some(10)),
            (Method::OPTIONS, "99999999999999999999", Some(1 << 31)),
            (Method::OPTIONS, "x", None),
            (Method::OPTIONS, "-1", None),
            (Method::OPTIONS, "+1", None),
            (Method::GET, "0", None),
        ] {
            let request = headers(&[&format!("Max-Forwards: {value}")]);
            assert_eq!(hops_left(&method, &request), expected, "{method} {value}");
        }
        assert_eq!(hops_left(&Method::TRACE, &HeaderMap::new()), None);
    }
}
