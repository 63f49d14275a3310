//! The `Date` field of responses that lack one (RFC 9110, 6.6.1). The HTTP library would set it
//! from the system's clock.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use http::header::{Entry, HeaderValue};
use http::{HeaderMap, header};

use net::clock::TokioClock;

/// Adds `Date` with the current time, unless the response has the field.
pub fn set(headers: &mut HeaderMap, clock: TokioClock) {
    if let Entry::Vacant(date) = headers.entry(header::DATE) {
        date.insert(now(clock));
    }
}

/// Returns the value of `Date` for the current time.
pub fn now(clock: TokioClock) -> HeaderValue {
    value(clock.since_1970().as_secs())
}

/// Returns the value for a time in seconds since 1970; formatted once per second and thread.
fn value(now: u64) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == now => value.clone(),
        _ => {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
            let value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
            *last = Some((now, value.clone()));
            value
        }
    })
}
