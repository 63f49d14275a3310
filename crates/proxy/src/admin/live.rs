//! The live page: the state and the rates of this process, for a browser.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http_body_util::Full;

use crate::admin::interface::Answer;

/// Only what this address serves, and no frame of another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
                      connect-src 'self'; frame-ancestors 'none'";

/// Returns the page.
pub(super) fn page() -> Answer {
    let mut answer = file("text/html; charset=utf-8", include_str!("live/page.html"));
    let policy = HeaderValue::from_static(POLICY);
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// Returns the script of the page.
pub(super) fn script() -> Answer {
    file("text/javascript; charset=utf-8", include_str!("live/page.js"))
}

fn file(kind: &'static str, text: &'static str) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from_static(text.as_bytes())));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
