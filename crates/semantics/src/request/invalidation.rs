//! Stored responses that an unsafe request invalidates (RFC 9111, 4.4; RFC 4918, 9.6, 9.8, 9.9).

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};

use crate::request::facts::MethodClass;
use crate::request::url::Url;

/// The field with the second resource of a COPY or MOVE (RFC 4918, 10.3).
const DESTINATION: HeaderName = HeaderName::from_static("destination");
/// The field that marks a request as one for a collection, unless it is `0` (RFC 4918, 10.2).
const DEPTH: HeaderName = HeaderName::from_static("depth");

/// An unsafe request and the head of its response.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The URL of the request.
    pub url: &'a Url,
    /// The fields of the request.
    pub request: &'a HeaderMap,
    /// The status of the response.
    pub status: StatusCode,
    /// The fields of the response.
    pub response: &'a HeaderMap,
}

impl Write<'_> {
    /// Returns the URLs whose stored responses become invalid: the target, also without its query,
    /// which may say only how the resource is changed; the URLs in `Location` and
    /// `Content-Location` at the same origin, and the `Destination` at the same authority.
    /// Empty for a safe method and for an error response, since nothing changed.
    pub fn targets(&self) -> Vec<Url> {
        let succeeded = self.status.is_success() || self.status.is_redirection();
        if MethodClass::of(self.method) != MethodClass::Unsafe || !succeeded {
            return Vec::new();
        }
        let mut targets = vec![self.url.clone()];
        let names = [LOCATION, CONTENT_LOCATION];
        let named = names.into_iter().flat_map(|name| self.response.get_all(name));
        let named = named.filter_map(|value| self.url.resolve(text(value)?));
        let named = named.filter(|target| target.same_origin(self.url));
        for target in named.chain(self.destination()).chain([self.url.without_query()]) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets
    }

    /// Returns the collections below which all stored responses become invalid, as URLs that end
    /// with a slash: the one that a DELETE or MOVE removed, and the one that a COPY or MOVE
    /// replaced. A request concerns a collection if its URL ends with a slash, as RFC 4918 (5.2)
    /// recommends, if it has a `Depth` other than `0`, or if its response lists several resources
    /// (207). Only the statuses by which RFC 4918 reports success count, because many applications
    /// respond to any method with 200.
    pub fn collections(&self) -> Vec<Url> {
        let (is_gone, is_replaced) = match self.method.as_str() {
            "DELETE" => (true, false),
            "MOVE" => (true, true),
            "COPY" => (false, true),
            _ => return Vec::new(),
        };
        let has_slash = self.url.without_query().path_and_query().ends_with('/');
        let has_depth = self.request.get(DEPTH).is_some_and(|depth| depth != "0");
        let is_collection = has_slash || has_depth || self.status == StatusCode::MULTI_STATUS;
        if !matches!(self.status.as_u16(), 201 | 204 | 207) || !is_collection {
            return Vec::new();
        }
        let gone = as_collection(self.url);
        // The client chooses the destination freely, even where no collection is ever moved. It
        // counts only if the URL of the request ends with a slash and is not below it.
        let replaced = self.destination().filter(|_| is_replaced && has_slash);
        let replaced = replaced.as_ref().and_then(as_collection);
        let replaced = replaced.filter(|replaced| {
            gone.as_ref().is_some_and(|gone| !gone.as_str().starts_with(replaced.as_str()))
        });
        gone.filter(|_| is_gone).into_iter().chain(replaced).collect()
    }

    /// Returns the `Destination` as a URL with the scheme of the request, since a TLS terminator in
    /// front may have seen another scheme.
    fn destination(&self) -> Option<Url> {
        let mut lines = self.request.get_all(DESTINATION).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return None };
        let named = self.url.resolve(text(line)?)?;
        if named.authority() != self.url.authority() {
            return None;
        }
        Url::new(self.url.scheme(), self.url.authority(), named.sent()).ok()
    }
}

/// Returns the text of a field that names a URL, which may have raw UTF-8.
fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

/// Returns a URL without its query and with a slash at its end.
fn as_collection(url: &Url) -> Option<Url> {
    let url = url.without_query();
    let path = url.path_and_query();
    let slash = if path.ends_with('/') { "" } else { "/" };
    Url::new(url.scheme(), url.authority(), &format!("{path}{slash}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    fn invalidated(method: &str, status: u16, response: &[&str]) -> Vec<String> {
        let url = Url::parse("http://a.example/dir/page?q").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let (method, request, response) =
            (method.parse().unwrap(), HeaderMap::new(), headers(response));
        let write =
            Write { method: &method, url: &url, request: &request, status, response: &response };
        write.targets().iter().map(ToString::to_string).collect()
    }

    /// Returns the targets and collections of a request whose response has this status.
    fn of_dav(
        method: &str,
        path: &str,
        status: u16,
        request: &[&str],
    ) -> (Vec<String>, Vec<String>) {
        let url = Url::parse(&format!("http://a.example{path}")).unwrap();
        let (method, request, response) =
            (method.parse().unwrap(), headers(request), HeaderMap::new());
        let status = StatusCode::from_u16(status).unwrap();
        let write =
            Write { method: &method, url: &url, request: &request, status, response: &response };
        let paths =
            |urls: Vec<Url>| urls.iter().map(|url| url.path_and_query().to_owned()).collect();
        (paths(write.targets()), paths(write.collections()))
    }

    #[test]
    fn a_destination_is_replaced_and_a_collection_goes_with_all_below() {
        type Case<'a> = (&'a str, &'a str, u16, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
        let cases: [Case<'_>; 18] = [
            ("MOVE", "/a", 204, &["Destination: http://a.example/b"], &["/a", "/b"], &[]),
            ("COPY", "/a", 201, &["Destination: /b"], &["/a", "/b"], &[]),
            ("MOVE", "/a", 201, &["Destination: https://A.example/b"], &["/a", "/b"], &[]),
            ("MOVE", "/a", 204, &["Destination: http://b.example/b"], &["/a"], &[]),
            ("MOVE", "/a", 204, &["Destination: /b", "Destination: /c"], &["/a"], &[]),
            ("MOVE", "/a", 412, &["Destination: /b"], &[], &[]),
            ("MOVE", "/a/", 201, &["Destination: /b"], &["/a/", "/b"], &["/a/", "/b/"]),
            ("COPY", "/a/", 204, &["Destination: /b/"], &["/a/", "/b/"], &["/b/"]),
            ("COPY", "/a", 204, &["Destination: /b/"], &["/a", "/b/"], &[]),
            ("MOVE", "/a/b/", 204, &["Destination: /"], &["/a/b/", "/"], &["/a/b/"]),
            ("DELETE", "/a/", 204, &[], &["/a/"], &["/a/"]),
            ("DELETE", "/a", 204, &[], &["/a"], &[]),
            ("DELETE", "/a?b", 207, &[], &["/a?b", "/a"], &["/a/"]),
            ("DELETE", "/a", 204, &["Depth: infinity"], &["/a"], &["/a/"]),
            ("DELETE", "/a", 204, &["Depth: 0"], &["/a"], &[]),
            ("DELETE", "/a/", 200, &["Depth: infinity"], &["/a/"], &[]),
            ("DELETE", "/a/", 302, &[], &["/a/"], &[]),
            ("POST", "/a/", 200, &[], &["/a/"], &[]),
        ];
        for (method, path, status, request, targets, collections) in cases {
            let expected = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
            let expected: (Vec<String>, Vec<String>) = (expected(targets), expected(collections));
            assert_eq!(of_dav(method, path, status, request), expected, "{method} {path} {status}");
        }
    }

    #[test]
    fn successful_unsafe_requests_invalidate_their_target() {
        let page = ["http://a.example/dir/page?q", "http://a.example/dir/page"];
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
        let cases: [(&[&str], &[&str]); 7] = [
            (&["Location: /x"], &["http://a.example/x"]),
            (&["Location: http://a.example./\u{fc}"], &["http://a.example/%C3%BC"]),
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
            let (first, named) = all.split_first().unwrap();
            let (last, named) = named.split_last().unwrap();
            assert_eq!(
                (&**first, &**last),
                ("http://a.example/dir/page?q", "http://a.example/dir/page")
            );
            assert_eq!(*named, *more, "{response:?}");
        }
    }
}
