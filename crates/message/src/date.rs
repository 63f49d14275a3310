//! The field `Date` of answers that have none (RFC 9110, 6.6.1). The HTTP library would set it by
//! the system's clock.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use http::header::{Entry, HeaderValue};
use http::{HeaderMap, header};

use net::clock::TokioClock;

/// Adds the field with the current time, unless the answer has it.
pub fn set(headers: &mut HeaderMap, clock: TokioClock) {
    if let Entry::Vacant(date) = headers.entry(header::DATE) {
        date.insert(now(clock));
    }
}

/// Returns the value of the field for the current time.
pub fn now(clock: TokioClock) -> HeaderValue {
    value(clock.since_1970().as_secs())
}

/// Returns the text of a second, which is made once.
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
