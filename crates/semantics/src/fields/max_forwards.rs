//! `Max-Forwards` (RFC 9110, 7.6.2): the number of hops that a TRACE or OPTIONS request may still
//! take.

use http::Method;
use http::header::{HeaderMap, HeaderValue, MAX_FORWARDS};

use crate::fields::cache_control::Delta;

/// The handling of a request by a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pass it on.
    Forward,
    /// Answer it here, as the final recipient.
    AnswerHere,
}

/// Obeys the field and counts it down in place. Only TRACE and OPTIONS are bound by it; with other
/// methods, and when it is no number, it is passed on untouched.
pub fn step(method: &Method, request: &mut HeaderMap) -> Step {
    if !matches!(*method, Method::TRACE | Method::OPTIONS) {
        return Step::Forward;
    }
    let Some(value) = request.get(MAX_FORWARDS) else { return Step::Forward };
    let Delta::Value(left) = Delta::parse(value.as_bytes()) else { return Step::Forward };
    match left.get().checked_sub(1) {
        None => Step::AnswerHere,
        Some(less) => {
            request.insert(MAX_FORWARDS, HeaderValue::from(less));
            Step::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    #[test]
    fn the_number_is_counted_down_for_trace_and_options() {
        for (method, before, step_taken, after) in [
            (Method::TRACE, "0", Step::AnswerHere, "0"),
            (Method::OPTIONS, "0", Step::AnswerHere, "0"),
            (Method::TRACE, "1", Step::Forward, "0"),
            (Method::OPTIONS, "10", Step::Forward, "9"),
            (Method::OPTIONS, "x", Step::Forward, "x"),
            (Method::OPTIONS, "-1", Step::Forward, "-1"),
            (Method::GET, "0", Step::Forward, "0"),
        ] {
            let mut request = headers(&[&format!("Max-Forwards: {before}")]);
            assert_eq!(step(&method, &mut request), step_taken, "{method} {before}");
            assert_eq!(request[MAX_FORWARDS], after, "{method} {before}");
        }
        assert_eq!(step(&Method::TRACE, &mut HeaderMap::new()), Step::Forward);
    }
}
