//! What an unsafe request makes invalid (RFC 9111, 4.4).

use http::header::{CONTENT_LOCATION, HeaderMap, LOCATION};
use http::{Method, StatusCode};

use crate::request::MethodClass;
use crate::url::Url;

/// The URLs whose stored responses must go after `method` on `url` was answered so: the target
/// itself, and what `Location` and `Content-Location` name at the same origin. Empty for a safe
/// method and for an error, which changed nothing.
pub fn targets(method: &Method, url: &Url, status: StatusCode, response: &HeaderMap) -> Vec<Url> {
    let succeeded = status.is_success() || status.is_redirection();
    if MethodClass::of(method) != MethodClass::Unsafe || !succeeded {
        return Vec::new();
    }
    let mut targets = vec![url.clone()];
    for name in [LOCATION, CONTENT_LOCATION] {
        let named = response.get(name).and_then(|value| value.to_str().ok());
        if let Some(target) = named.and_then(|reference| url.resolve(reference))
            && target.same_origin(url)
            && !targets.contains(&target)
        {
            targets.push(target);
        }
    }
    targets
}
