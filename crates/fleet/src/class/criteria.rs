//! Criteria by which a document belongs to a class.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Facts about a document that decide its class. A node that has not met the document does not know
/// its size and type until the response head arrives, so the class can change: the lookup follows
/// the class before the head, storing the one after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DocumentFacts<'a> {
    /// Body length in bytes, if known.
    pub size: Option<u64>,
    /// `Content-Type` value with its parameters, if known.
    pub content_type: Option<&'a str>,
    /// Host of the URL, without the port.
    pub host: &'a str,
    /// Recent requests for it at this node ([`crate::popularity::RequestCounts`]).
    pub requests: u64,
}

/// A half-open range of numbers: `from` inclusive, `below` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Inclusive lower bound.
    pub from: u64,
    /// Exclusive upper bound; `None` means unbounded.
    pub below: Option<u64>,
}

impl Bounds {
    /// All numbers, and unknown ones.
    pub const ANY: Bounds = Bounds { from: 0, below: None };

    /// Returns whether `number` is in the range. An unknown number is in [`Bounds::ANY`] only.
    fn contain(&self, number: Option<u64>) -> bool {
        match number {
            Some(number) => self.from <= number && self.below.is_none_or(|below| number < below),
            None => *self == Bounds::ANY,
        }
    }

    /// Returns whether the range is empty.
    pub(super) fn are_empty(&self) -> bool {
        self.below.is_some_and(|below| below <= self.from)
    }

    /// Returns whether the range contains all of `other`.
    fn cover(&self, other: &Bounds) -> bool {
        let above = match (self.below, other.below) {
            (None, _) => true,
            (Some(mine), Some(theirs)) => theirs <= mine,
            (Some(_), None) => false,
        };
        self.from <= other.from && above
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.below {
            Some(below) => write!(f, "from {} below {below}", self.from),
            None => write!(f, "from {}", self.from),
        }
    }
}

/// Maximum bytes of a media type's two names together (RFC 6838, 4.2).
const TYPE_MAX: usize = 255;

/// Error: a text is not a pattern of hosts or media types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPattern {
    given: Box<str>,
    wanted: &'static str,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a valid pattern: {}", self.given, self.wanted)
    }
}

impl Error for InvalidPattern {}

/// A media type, `type/subtype` or `type/*`, case-insensitive (RFC 9110, 8.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePattern(Box<str>);

impl TypePattern {
    /// Returns whether a `Content-Type` value has this type; parameters are ignored.
    fn matches(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or("").trim_ascii();
        match self.0.strip_suffix('*') {
            Some(start) => prefix(essence, start).is_some_and(|rest| !rest.is_empty()),
            None => essence.eq_ignore_ascii_case(&self.0),
        }
    }
}

/// Returns the start of `text` if it equals `start`, ignoring case.
fn prefix<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

impl FromStr for TypePattern {
    type Err = InvalidPattern;

    fn from_str(given: &str) -> Result<TypePattern, InvalidPattern> {
        // A token (RFC 9110, 5.6.2) may itself contain a star, so a star is rejected here.
        let token = |part: &str| {
            let plain =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
            !part.is_empty() && part.bytes().all(plain)
        };
        match given.split_once('/') {
            Some((kind, subtype))
                if given.len() <= TYPE_MAX && token(kind) && (subtype == "*" || token(subtype)) =>
            {
                Ok(TypePattern(given.to_ascii_lowercase().into()))
            }
            _ => Err(InvalidPattern {
                given: given.into(),
                wanted: "write a media type such as text/html, or image/* for all of a kind",
            }),
        }
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host, or `*.` and a domain for all hosts below it, case-insensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePattern(Box<str>);

impl SitePattern {
    /// Returns whether the pattern matches `host`.
    fn matches(&self, host: &str) -> bool {
        match self.0.strip_prefix('*') {
            Some(domain) => {
                let start = host.len().checked_sub(domain.len()).filter(|start| *start > 0);
                let end = start.and_then(|start| host.get(start..));
                end.is_some_and(|end| end.eq_ignore_ascii_case(domain))
            }
            None => host.eq_ignore_ascii_case(&self.0),
        }
    }
}

impl FromStr for SitePattern {
    type Err = InvalidPattern;

    fn from_str(given: &str) -> Result<SitePattern, InvalidPattern> {
        let host = given.strip_prefix("*.").unwrap_or(given);
        // Colons and brackets belong to IPv6 addresses.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty() || host.len() > 253 || !host.bytes().all(plain) {
            return Err(InvalidPattern {
                given: given.into(),
                wanted: "write a host such as www.example.com, or *.example.com for those below",
            });
        }
        Ok(SitePattern(given.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for SitePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Criteria of a class; a document must meet all of them.
///
/// The default is [`Criteria::ANY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// Range of body lengths in bytes. An unknown length is in [`Bounds::ANY`] only.
    pub size: Bounds,
    /// Range of recent request counts.
    pub requests: Bounds,
    /// Accepted media types; empty accepts any, including an unknown one.
    pub types: Vec<TypePattern>,
    /// Accepted hosts; empty accepts any.
    pub sites: Vec<SitePattern>,
}

impl Default for Criteria {
    fn default() -> Criteria {
        Criteria::ANY
    }
}

impl Criteria {
    /// Criteria that every document meets.
    pub const ANY: Criteria =
        Criteria { size: Bounds::ANY, requests: Bounds::ANY, types: Vec::new(), sites: Vec::new() };

    /// Returns the number of patterns that matching a document may compare.
    pub(super) fn patterns(&self) -> usize {
        self.types.len() + self.sites.len()
    }

    /// Returns whether they contain facts that only an answer tells: a size or a type.
    pub(super) fn depend_on_answers(&self) -> bool {
        self.size != Bounds::ANY || !self.types.is_empty()
    }

    /// Returns whether they contain the number of recent requests.
    pub(super) fn depend_on_requests(&self) -> bool {
        self.requests != Bounds::ANY
    }

    /// Returns whether a document meets all criteria.
    pub fn match_document(&self, document: &DocumentFacts<'_>) -> bool {
        let type_fits = || {
            let known = document.content_type;
            known.is_some_and(|known| self.types.iter().any(|pattern| pattern.matches(known)))
        };
        self.size.contain(document.size)
            && self.requests.contain(Some(document.requests))
            && (self.types.is_empty() || type_fits())
            && (self.sites.is_empty()
                || self.sites.iter().any(|pattern| pattern.matches(document.host)))
    }

    /// Returns whether these criteria accept every document that `other` accepts. Only equal
    /// patterns are compared, so `false` may be wrong.
    pub(super) fn cover(&self, other: &Criteria) -> bool {
        fn all<T: PartialEq>(mine: &[T], theirs: &[T]) -> bool {
            mine.is_empty()
                || (!theirs.is_empty() && theirs.iter().all(|pattern| mine.contains(pattern)))
        }
        self.size.cover(&other.size)
            && self.requests.cover(&other.requests)
            && all(&self.types, &other.types)
            && all(&self.sites, &other.sites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_without_parameters_and_case() {
        let html: TypePattern = "Text/HTML".parse().unwrap();
        let image: TypePattern = "image/*".parse().unwrap();
        assert!(html.matches("text/html; charset=utf-8") && html.matches("TEXT/HTML"));
        assert!(!html.matches("text/htmlx") && !html.matches(""));
        assert!(
            image.matches("image/PNG") && !image.matches("image/") && !image.matches("images/a")
        );
        for wrong in ["", "text", "*/*", "text/", "/html", "text/html;q=1", "te*t/html", "a/b/c"] {
            assert!(wrong.parse::<TypePattern>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_star_stands_for_hosts_below_a_domain_only() {
        let below: SitePattern = "*.Example.com".parse().unwrap();
        assert!(below.matches("a.example.com") && below.matches("a.b.EXAMPLE.com"));
        assert!(!below.matches("example.com") && !below.matches("badexample.com"));
        assert!(!below.matches(".example.com") && !below.matches("é"));
        let one: SitePattern = "example.com".parse().unwrap();
        assert!(one.matches("EXAMPLE.com") && !one.matches("a.example.com"));
        for wrong in ["", "*", "*.", "a*.b", "a b", "http://a", "**.b"] {
            assert!(wrong.parse::<SitePattern>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn unknown_numbers_are_outside_all_bounds() {
        let small = Criteria { size: Bounds { from: 0, below: Some(10) }, ..Criteria::ANY };
        let of = |size| DocumentFacts { size, ..DocumentFacts::default() };
        assert!(small.match_document(&of(Some(9))) && !small.match_document(&of(Some(10))));
        assert!(!small.match_document(&of(None)) && Criteria::ANY.match_document(&of(None)));
        let typed = Criteria { types: vec!["a/b".parse().unwrap()], ..Criteria::ANY };
        assert!(!typed.match_document(&of(None)));
    }
}
