//! Stored responses that an unsafe request makes invalid (RFC 9111, 4.4).

use http::header::{CONTENT_LOCATION, HeaderMap, LOCATION};
use http::{Method, StatusCode};

use crate::request::facts::MethodClass;
use crate::request::url::Url;

/// Returns the URLs whose stored responses become invalid after `method` on `url` was answered with
/// this status and headers: the target itself, and those that `Location` and `Content-Location`
/// name at the same origin. Empty for a safe method and for an error, which changed nothing.
pub fn targets(method: &Method, url: &Url, status: StatusCode, response: &HeaderMap) -> Vec<Url> {
    let succeeded = status.is_success() || status.is_redirection();
    if MethodClass::of(method) != MethodClass::Unsafe || !succeeded {
        return Vec::new();
    }
    let mut targets = vec![url.clone()];
    let named = [LOCATION, CONTENT_LOCATION].into_iter().flat_map(|name| response.get_all(name));
    for value in named {
        let reference = value.to_str().ok();
        if let Some(target) = reference.and_then(|reference| url.resolve(reference))
            && target.same_origin(url)
            && !targets.contains(&target)
        {
            targets.push(target);
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    fn invalidated(method: &str, status: u16, response: &[&str]) -> Vec<String> {
        let url = Url::parse("http://a.example/dir/page?q").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        targets(&method.parse().unwrap(), &url, status, &headers(response))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn successful_unsafe_requests_invalidate_their_target() {
        let page = ["http://a.example/dir/page?q"];
        for method in ["POST", "PUT", "DELETE", "PATCH", "UNHEARD-OF"] {
            for status in [200, 201, 204, 299, 303, 399] {
                assert_eq!(invalidated(method, status, &[]), page, "{method} {status}");
            }
            for status in [400, 404, 500, 503] {
                assert!(invalidated(method, status, &[]).is_empty(), "{method} {status}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(invalidated(method, 200, &["Location: /x"]).is_empty(), "{method}");
        }
    }

    #[test]
    fn named_locations_go_too_at_the_same_origin_only() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["Location: /x"], &["http://a.example/x"]),
            (
                &["Location: x", "Content-Location: ../y"],
                &["http://a.example/dir/x", "http://a.example/y"],
            ),
            (&["Location: HTTP://A.example:80/x#f"], &["http://a.example/x"]),
            (&["Location: http://b.example/x", "Content-Location: https://a.example/x"], &[]),
            (&["Location: http://a.example:81/x", "Content-Location: mailto:x"], &[]),
            (&["Location: page?q"], &[]),
        ];
        for (response, more) in cases {
            let all = invalidated("POST", 201, response);
            assert_eq!(all[0], "http://a.example/dir/page?q");
            assert_eq!(all[1..], *more, "{response:?}");
        }
    }
}
