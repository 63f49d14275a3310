//! The part of a representation that a response sends: conditions are evaluated first, then ranges
//! (RFC 9110, 13.2.2). Evaluated once per response, wherever its body comes from.

use http::Method;

use crate::fields::range::{self, ByteRange, Limits, Selection};
use crate::fields::validators::{self, Selected, Verdict};
use crate::fields::view::Fields;
use crate::request::facts::RequestFacts;
use crate::time::Time;

/// The part of a representation to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Portion {
    /// 304: the client has a current copy.
    NotModified,
    /// The whole body, with its own status.
    Whole,
    /// 206 with one part.
    Part(ByteRange),
    /// 206 with `multipart/byteranges`: at least two parts, which do not overlap.
    Parts(Vec<ByteRange>),
    /// 416: no requested range is within the body.
    Unsatisfiable,
}

impl Portion {
    /// Decides for a GET or HEAD. `length` is that of the body in bytes; without it ranges are
    /// ignored.
    pub fn of(
        facts: &RequestFacts,
        method: &Method,
        request: &impl Fields,
        selected: &Selected,
        length: Option<u64>,
        now: Time,
    ) -> Portion {
        if facts.conditional
            && validators::as_cache(method, request, selected, now) == Verdict::NotModified
        {
            return Portion::NotModified;
        }
        let Some(length) = length.filter(|_| facts.has_range) else { return Portion::Whole };
        match range::select(method, request, selected, length, Limits::default()) {
            Selection::Whole => Portion::Whole,
            Selection::Single(part) => Portion::Part(part),
            Selection::Multiple(parts) => Portion::Parts(parts),
            Selection::Unsatisfiable => Portion::Unsatisfiable,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{Request, StatusCode};

    use http::HeaderMap;

    use super::*;

    fn portion(fields: &[(&str, &str)], length: Option<u64>) -> Portion {
        let mut request = Request::get("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let stored = [("etag", "\"a\"")];
        let headers: HeaderMap = stored
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
            .into_iter()
            .collect();
        let now = Time::from_unix(1_000_000);
        let selected = Selected::of(StatusCode::OK, &headers, now);
        let facts = RequestFacts::of(request.method(), request.headers());
        Portion::of(&facts, request.method(), request.headers(), &selected, length, now)
    }

    #[test]
    fn a_condition_that_fails_comes_before_a_range() {
        let range = ("range", "bytes=0-1");
        assert_eq!(portion(&[("if-none-match", "\"a\""), range], Some(10)), Portion::NotModified);
        let part = Portion::Part(ByteRange { start: 0, end: 2 });
        assert_eq!(portion(&[("if-none-match", "\"b\""), range], Some(10)), part);
        assert_eq!(portion(&[("if-range", "\"b\""), range], Some(10)), Portion::Whole);
    }

    #[test]
    fn ranges_do_not_count_where_the_length_is_unknown() {
        assert_eq!(portion(&[("range", "bytes=0-1")], None), Portion::Whole);
        assert_eq!(portion(&[("range", "bytes=20-")], Some(10)), Portion::Unsatisfiable);
        let parts = portion(&[("range", "bytes=0-1,500-501")], Some(1000));
        let ranges = [ByteRange { start: 0, end: 2 }, ByteRange { start: 500, end: 502 }];
        assert_eq!(parts, Portion::Parts(ranges.to_vec()));
    }
}
