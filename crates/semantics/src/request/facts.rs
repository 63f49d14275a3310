//! The facts of a request that a cache decides by, parsed once.

use http::{HeaderMap, Method, header};

use crate::fields::cache_control::RequestDirectives;

/// The meaning of a method to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodClass {
    /// GET and HEAD: may be answered from the cache.
    Cacheable,
    /// OPTIONS, TRACE and those that are registered as safe: go to the origin and change nothing
    /// (RFC 9110, 9.2.1 and 16.1.1).
    Safe,
    /// All others, unknown ones included: go to the origin and may invalidate (RFC 9111, 4.4).
    Unsafe,
}

/// Methods beyond RFC 9110 that the registry calls safe (RFC 4918, RFC 3253, RFC 5323).
const REGISTERED_AS_SAFE: [&str; 3] = ["PROPFIND", "REPORT", "SEARCH"];

impl MethodClass {
    /// Returns the class of `method`.
    pub fn of(method: &Method) -> MethodClass {
        match *method {
            Method::GET | Method::HEAD => MethodClass::Cacheable,
            Method::OPTIONS | Method::TRACE => MethodClass::Safe,
            _ if REGISTERED_AS_SAFE.contains(&method.as_str()) => MethodClass::Safe,
            _ => MethodClass::Unsafe,
        }
    }
}

/// The parts of a request that decide whether and how the cache takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// The meaning of the method to a cache.
    pub class: MethodClass,
    /// HEAD: an answer has no body, and cannot answer a GET.
    pub is_head: bool,
    /// `Cache-Control`, or `Pragma: no-cache` when there is none.
    pub directives: RequestDirectives,
    /// An `Authorization` field is there (RFC 9111, 3.5).
    pub authorized: bool,
    /// A `Range` field is there.
    pub has_range: bool,
    /// It asks whether what the client has is still good: `If-None-Match` or `If-Modified-Since`.
    pub conditional: bool,
}

impl RequestFacts {
    /// Returns the facts of a request.
    pub fn of(method: &Method, headers: &HeaderMap) -> RequestFacts {
        RequestFacts {
            class: MethodClass::of(method),
            is_head: method == Method::HEAD,
            directives: RequestDirectives::parse(headers),
            authorized: headers.contains_key(header::AUTHORIZATION),
            has_range: headers.contains_key(header::RANGE),
            conditional: headers.contains_key(header::IF_NONE_MATCH)
                || headers.contains_key(header::IF_MODIFIED_SINCE),
        }
    }

    /// Returns the same request without what it says about caches, which counts for nothing where
    /// the origin vouches for its answers ([`crate::Settings::origin_vouches`]).
    pub fn without_wishes(self) -> RequestFacts {
        RequestFacts { directives: RequestDirectives::default(), authorized: false, ..self }
    }

    /// Returns the same request as if it were the plain GET whose answer is stored.
    pub fn of_get(&self) -> RequestFacts {
        RequestFacts {
            class: MethodClass::Cacheable,
            is_head: false,
            has_range: false,
            conditional: false,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_are_unsafe() {
        let class = |name: &str| MethodClass::of(&name.parse().unwrap());
        assert_eq!(class("GET"), MethodClass::Cacheable);
        assert_eq!(class("HEAD"), MethodClass::Cacheable);
        assert_eq!(class("OPTIONS"), MethodClass::Safe);
        assert_eq!(class("TRACE"), MethodClass::Safe);
        assert_eq!(class("PROPFIND"), MethodClass::Safe);
        for name in ["POST", "PUT", "DELETE", "PATCH", "CONNECT", "PURGE", "get"] {
            assert_eq!(class(name), MethodClass::Unsafe, "{name}");
        }
    }
}
