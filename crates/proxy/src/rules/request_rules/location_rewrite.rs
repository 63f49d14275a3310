//! Rewrites URLs of the origin in `Location`, `Content-Location` and `Refresh`.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::message::template::{Template, Values};
use crate::rules::request_rules::action::Location;

/// Replacement of the beginning of a URL.
#[derive(Clone, Debug)]
pub struct LocationRewrite {
    from: String,
    to: To,
}

#[derive(Clone, Debug)]
enum To {
    Template(Location),
    Fixed(HeaderValue),
}

/// The field with a delay in seconds and a URL.
const REFRESH: HeaderName = HeaderName::from_static("refresh");

impl LocationRewrite {
    /// Parses `FROM TO`: two URLs or paths, the second with variables.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<LocationRewrite, String> {
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let [from, to] = parts[..] else {
            return Err(format!(
                "expected two URLs (\"http://app:8080/ https://www.example.com/\"), got {text:?}"
            ));
        };
        if !from.contains("://") && !from.starts_with('/') {
            return Err(format!("expected a URL or a path first, got {from:?}"));
        }
        // Otherwise the rest of a URL could continue the host.
        if from.ends_with('/') != to.ends_with('/') {
            return Err(format!("expected a / at the end of both or none, got {text:?}"));
        }
        let to = To::Template(Location::parse(to)?);
        Ok(LocationRewrite { from: from.to_owned(), to })
    }

    /// Returns the rewrite with the values of its variables.
    pub(crate) fn fill(&self, values: &impl Values) -> LocationRewrite {
        let to = match &self.to {
            To::Template(location) => location.value(values).map(To::Fixed),
            To::Fixed(_) => None,
        };
        LocationRewrite { from: self.from.clone(), to: to.unwrap_or_else(|| self.to.clone()) }
    }

    /// Returns the text with variables that replaces the beginning.
    pub fn template(&self) -> Option<&Template> {
        match &self.to {
            To::Template(location) => Some(location.template()),
            To::Fixed(_) => None,
        }
    }

    /// Returns the URL that replaces `url`; `None` if it does not begin like this.
    fn rewritten(&self, url: &[u8]) -> Option<Vec<u8>> {
        let To::Fixed(to) = &self.to else { return None };
        let from = self.from.as_bytes();
        let (begin, rest) = url.split_at_checked(from.len())?;
        // Scheme and host have no case.
        let path_at = path_at(from);
        let is_same = begin[..path_at].eq_ignore_ascii_case(&from[..path_at])
            && begin[path_at..] == from[path_at..];
        let is_whole =
            from.ends_with(b"/") || matches!(rest.first(), None | Some(b'/' | b'?' | b'#'));
        if !is_same || !is_whole {
            return None;
        }
        let made = [to.as_bytes(), rest].concat();
        // A browser reads two slashes at the beginning as the beginning of a host.
        let slashes = made.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        Some(if slashes > 1 { [b"/", &made[slashes..]].concat() } else { made })
    }
}

/// Rewrites the fields of a response: the first rewrite that fits a URL applies.
pub(super) fn rewrite(rewrites: &[LocationRewrite], fields: &mut HeaderMap) {
    let first = |url: &[u8]| rewrites.iter().find_map(|rewrite| rewrite.rewritten(url));
    for (name, value) in fields.iter_mut() {
        let made = match name {
            _ if *name == header::LOCATION || *name == header::CONTENT_LOCATION => {
                first(value.as_bytes())
            }
            _ if *name == REFRESH => {
                let (before, url, after) = url_of_refresh(value.as_bytes());
                first(url).map(|url| [before, &url, after].concat())
            }
            _ => None,
        };
        if let Some(Ok(made)) = made.map(|made| HeaderValue::from_bytes(&made)) {
            *value = made;
        }
    }
}

/// Splits `5; url="http://…"` around the URL.
fn url_of_refresh(value: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let is_key = |window: &[u8]| window.eq_ignore_ascii_case(b"url=");
    let Some(at) = value.windows(4).position(is_key) else { return (value, b"", b"") };
    let (before, rest) = value.split_at(at + 4);
    match rest.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let end = rest[1..].iter().position(|byte| byte == quote);
            let end = end.map_or(rest.len(), |end| end + 1);
            (&value[..at + 5], &rest[1..end], &rest[end..])
        }
        _ => (before, rest, b""),
    }
}

/// Returns where the path of a URL begins.
fn path_at(url: &[u8]) -> usize {
    let Some(scheme) = url.windows(3).position(|window| window == b"://") else { return 0 };
    let after = &url[scheme + 3..];
    scheme + 3 + after.iter().position(|byte| *byte == b'/').unwrap_or(after.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::message::template::Variable;

    struct Host;

    impl Values for Host {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
            if *variable == Variable::Host {
                out.extend_from_slice(b"www.test");
            }
        }
    }

    fn rewritten(texts: &[&str], name: &'static str, value: &'static str) -> String {
        let rewrites: Vec<_> =
            texts.iter().map(|text| LocationRewrite::parse(text).unwrap().fill(&Host)).collect();
        let mut fields = HeaderMap::new();
        fields.insert(name, HeaderValue::from_static(value));
        rewrite(&rewrites, &mut fields);
        fields[name].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_beginning_of_a_url_is_replaced() {
        let all = ["http://app:8080/a/ https://{host}/", "http://app:8080 https://{host}:8443"];
        for (value, expected) in [
            ("http://app:8080/a/b?c", "https://www.test/b?c"),
            ("HTTP://App:8080/a/b", "https://www.test/b"),
            ("http://app:8080/A/b", "https://www.test:8443/A/b"),
            ("http://app:8080", "https://www.test:8443"),
            ("http://app:80801/", "http://app:80801/"),
            ("http://app:8080@evil/", "http://app:8080@evil/"),
            ("http://other/a/", "http://other/a/"),
            ("/a/", "/a/"),
        ] {
            assert_eq!(rewritten(&all, "location", value), expected);
            assert_eq!(rewritten(&all, "content-location", value), expected);
        }
        assert_eq!(rewritten(&all, "x-other", "http://app:8080/a/"), "http://app:8080/a/");
        for (value, expected) in [
            ("5; url=http://app:8080/a/b", "5; url=https://www.test/b"),
            ("5;URL='http://app:8080/a/b' x", "5;URL='https://www.test/b' x"),
            ("5", "5"),
            ("0; url=\"", "0; url=\""),
        ] {
            assert_eq!(rewritten(&all, "refresh", value), expected);
        }
        assert_eq!(rewritten(&["http://app/ /"], "location", "http://app//evil/x"), "/evil/x");
    }

    #[test]
    fn rewrites_that_could_change_the_host_are_refused() {
        for text in [
            "http://app/",
            "http://app/ https://www.test",
            "http://app https://www.test/",
            "http://app/ https://{header.x}/",
            "app/ /",
            "",
        ] {
            assert!(LocationRewrite::parse(text).is_err(), "{text}");
        }
    }
}
