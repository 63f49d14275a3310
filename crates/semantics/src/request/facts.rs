//! The facts of a request that a cache decides by, parsed once.

use http::Method;
use http::header::{self, HeaderName};

use crate::fields::cache_control::RequestDirectives;
use crate::fields::claims;
use crate::fields::view::Fields;
use crate::request::disguise;
use crate::request::name_set::NameSet;
use crate::settings::usual_names::UsualNames;
use crate::settings::{Settings, Sharing};

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
    /// The client's `Authorization` field is there (RFC 9111, 3.5).
    pub authorized: bool,
    /// The client's fields that identify it ([`Identity::of`]).
    pub identified_by: NameSet,
    /// The client's connection is logged in at the origin: it has credentials that no field shows.
    pub is_logged_in: bool,
    /// The facts of the target that forbid guesses.
    pub target: TargetFacts,
    /// A `Range` field is there.
    pub has_range: bool,
    /// A `Cookie` field is there, whether it identifies the client or not.
    pub has_cookie: bool,
    /// It asks whether what the client has is still good: `If-None-Match` or `If-Modified-Since`.
    pub conditional: bool,
}

/// The facts of a request's target that forbid guessing a lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// It has a query: the answer may be made for it.
    pub has_query: bool,
    /// Its path ends like the name of a file that is no document ([`disguise`]).
    pub names_file: bool,
}

impl TargetFacts {
    /// Returns the facts of a path with or without a query.
    pub fn of(path_and_query: &str) -> TargetFacts {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        TargetFacts { has_query: !query.is_empty(), names_file: disguise::names_file(path) }
    }
}

/// The fields of a client that decide whose an answer is. Fields that a rule sets are not the
/// client's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// An `Authorization` field is there (RFC 9111, 3.5).
    pub authorized: bool,
    /// The names of the fields that identify the client.
    pub fields: NameSet,
}

/// The usual names whose presence is a fact of a request.
const HAS_AUTHORIZATION: UsualNames = UsualNames::of(&["authorization"]);
const HAS_CONDITION: UsualNames = UsualNames::of(&["if-none-match", "if-modified-since"]);
const HAS_COOKIE: UsualNames = UsualNames::of(&["cookie"]);
const HAS_DIRECTIVES: UsualNames = UsualNames::of(&["cache-control", "pragma"]);
const HAS_RANGE: UsualNames = UsualNames::of(&["range"]);

impl Identity {
    /// Returns the identity that a client's fields give, as far as it matters: where the RFC alone
    /// decides, only `Authorization` does. Fields by which a trusted proxy names the user always
    /// count.
    pub fn of(client: &impl Fields, settings: &Settings) -> Identity {
        let authorized = client.usual_names().meets(HAS_AUTHORIZATION);
        if settings.sharing != Sharing::Careful {
            return Identity { authorized, fields: NameSet::default() };
        }
        let known = &settings.identifying;
        // No usual name names a user.
        let unusual = |name: &str| known.includes_unusual(name) || claims::names_user(name);
        let names = client.lines_in(known.usual(), unusual);
        let fields = names.filter_map(|(name, _)| HeaderName::from_bytes(name.as_bytes()).ok());
        Identity { authorized, fields: fields.collect() }
    }

    /// Returns the same identity without the fields that are not the client's.
    pub fn without(mut self, is_other: impl Fn(&HeaderName) -> bool) -> Identity {
        self.authorized &= !is_other(&header::AUTHORIZATION);
        self.fields.retain(|name| !is_other(name));
        self
    }
}

impl RequestFacts {
    /// Returns the facts of a request whose fields are all the client's, and of which only
    /// `Authorization` identifies it; nothing is known of its target.
    pub fn of(method: &Method, fields: &impl Fields) -> RequestFacts {
        let names = fields.usual_names();
        RequestFacts {
            class: MethodClass::of(method),
            is_head: method == Method::HEAD,
            directives: match names.meets(HAS_DIRECTIVES) {
                true => RequestDirectives::parse(fields),
                false => RequestDirectives::default(),
            },
            authorized: names.meets(HAS_AUTHORIZATION),
            identified_by: NameSet::default(),
            is_logged_in: false,
            target: TargetFacts::default(),
            has_range: names.meets(HAS_RANGE),
            has_cookie: names.meets(HAS_COOKIE),
            conditional: names.meets(HAS_CONDITION),
        }
    }

    /// Returns the facts of the same request for this path and query, of a client with this
    /// identity.
    pub fn with(self, path_and_query: &str, identity: Identity) -> RequestFacts {
        let Identity { authorized, fields } = identity;
        let target = TargetFacts::of(path_and_query);
        RequestFacts { authorized, identified_by: fields, target, ..self }
    }

    /// Returns the facts of the same request on a connection that is logged in at the origin.
    pub fn logged_in(self) -> RequestFacts {
        RequestFacts { authorized: true, is_logged_in: true, ..self }
    }

    /// Returns the facts of the same request without what it says about the age of answers.
    pub fn without_reload(self) -> RequestFacts {
        RequestFacts { directives: self.directives.without_reload(), ..self }
    }

    /// Returns whether the request carries anything that identifies its client.
    pub fn is_identified(&self) -> bool {
        self.authorized || !self.identified_by.is_empty()
    }

    /// Returns whether the answer to the request may be made for its client: it carries something
    /// that identifies it, or a cookie.
    pub fn is_personal(&self) -> bool {
        self.is_identified() || self.has_cookie
    }

    /// Returns whether the request carries credentials: something that identifies its client and is
    /// not only a cookie, which most requests of browsers carry.
    pub fn has_credentials(&self) -> bool {
        self.authorized || self.identified_by.iter().any(|name| name != header::COOKIE)
    }

    /// Returns whether a response that the request fields which `selects` names have selected is
    /// for clients with the same identity alone, or the request has none.
    pub fn is_told_apart_by(&self, selects: impl Fn(&str) -> bool) -> bool {
        !self.is_logged_in && self.identified_by.iter().all(|name| selects(name.as_str()))
    }

    /// Returns the same request without what it says about caches, which counts for nothing where
    /// the origin vouches for its answers ([`crate::Settings::origin_vouches`]).
    pub fn without_wishes(self) -> RequestFacts {
        let directives = RequestDirectives::default();
        let (identified_by, is_logged_in) = (NameSet::default(), false);
        RequestFacts { directives, authorized: false, identified_by, is_logged_in, ..self }
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
