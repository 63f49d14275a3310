//! The facts of a request that caching decisions depend on, parsed once.

use http::Method;
use http::header::{self, HeaderName};

use crate::fields::cache_control::RequestDirectives;
use crate::fields::claims;
use crate::fields::view::Fields;
use crate::request::disguise;
use crate::request::name_set::NameSet;
use crate::settings::usual_names::UsualNames;
use crate::settings::{Settings, Sharing};

/// The class of a method, as a cache treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodClass {
    /// GET and HEAD: may be served from the cache.
    Cacheable,
    /// OPTIONS, TRACE and methods registered as safe: are forwarded and invalidate nothing
    /// (RFC 9110, 9.2.1 and 16.1.1).
    Safe,
    /// All others, including unknown ones: are forwarded and may invalidate (RFC 9111, 4.4).
    Unsafe,
}

/// Methods beyond RFC 9110 that are registered as safe (RFC 4918, RFC 3253, RFC 5323), and
/// QUERY, which is defined so.
const REGISTERED_AS_SAFE: [&str; 4] = ["PROPFIND", "QUERY", "REPORT", "SEARCH"];

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

/// The parts of a request that decide whether and how the cache is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// The class of the method.
    pub class: MethodClass,
    /// True if the method is HEAD: the response has no body and cannot be used for a GET.
    pub is_head: bool,
    /// The directives of `Cache-Control`, or of `Pragma: no-cache` if there is none.
    pub directives: RequestDirectives,
    /// True if the client sent `Authorization` (RFC 9111, 3.5).
    pub authorized: bool,
    /// The names of the client's fields that identify it ([`Identity::of`]).
    pub identified_by: NameSet,
    /// True if the client's connection is logged in at the origin, so that it has credentials that
    /// no field shows.
    pub is_logged_in: bool,
    /// The facts of the target that forbid a heuristic lifetime.
    pub target: TargetFacts,
    /// True if there is a `Range` field.
    pub has_range: bool,
    /// True if there is a `Cookie` field, even if it does not identify the client.
    pub has_cookie: bool,
    /// True if there is an `If-None-Match` or `If-Modified-Since` field.
    pub conditional: bool,
}

/// The facts of a request target that forbid a heuristic lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// True if there is a query: the response may be generated for it.
    pub has_query: bool,
    /// True if the path ends like the name of a file that is not a document ([`disguise`]).
    pub names_file: bool,
}

impl TargetFacts {
    /// Returns the facts of a path with or without a query.
    pub fn of(path_and_query: &str) -> TargetFacts {
        let path_end = path_and_query.bytes().position(|byte| byte == b'?');
        let (path, query) = path_and_query.split_at(path_end.unwrap_or(path_and_query.len()));
        TargetFacts { has_query: query.len() > 1, names_file: disguise::names_file(path) }
    }
}

/// The fields by which a client identifies itself. Fields set by a rule do not count as the
/// client's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// True if there is an `Authorization` field (RFC 9111, 3.5).
    pub authorized: bool,
    /// The names of the fields that identify the client.
    pub fields: NameSet,
}

const HAS_AUTHORIZATION: UsualNames = UsualNames::of(&["authorization"]);
const HAS_CONDITION: UsualNames = UsualNames::of(&["if-none-match", "if-modified-since"]);
const HAS_COOKIE: UsualNames = UsualNames::of(&["cookie"]);
const HAS_DIRECTIVES: UsualNames = UsualNames::of(&["cache-control", "pragma"]);
const HAS_RANGE: UsualNames = UsualNames::of(&["range"]);

impl Identity {
    /// Returns the identity in a client's fields. Without careful sharing only `Authorization`
    /// matters. Otherwise the configured fields count, and always those by which a trusted proxy
    /// names the user.
    pub fn of(client: &impl Fields, settings: &Settings) -> Identity {
        let authorized = client.usual_names().meets(HAS_AUTHORIZATION);
        if settings.sharing != Sharing::Careful {
            return Identity { authorized, fields: NameSet::default() };
        }
        let known = &settings.identifying;
        // Fields that name users are never usual names.
        let unusual = |name: &str| known.includes_unusual(name) || claims::names_user(name);
        let names = client.lines_in(known.usual(), unusual);
        let fields = names.filter_map(|(name, _)| HeaderName::from_bytes(name.as_bytes()).ok());
        Identity { authorized, fields: fields.collect() }
    }

    /// Returns the identity without the fields that are not the client's.
    pub fn without(mut self, is_other: impl Fn(&HeaderName) -> bool) -> Identity {
        self.authorized &= !is_other(&header::AUTHORIZATION);
        self.fields.retain(|name| !is_other(name));
        self
    }
}

impl RequestFacts {
    /// Returns the facts of a request with an unknown target. All fields count as the client's, and
    /// only `Authorization` identifies it.
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

    /// Returns the facts with the target and identity replaced.
    pub fn with(self, path_and_query: &str, identity: Identity) -> RequestFacts {
        let Identity { authorized, fields } = identity;
        let target = TargetFacts::of(path_and_query);
        RequestFacts { authorized, identified_by: fields, target, ..self }
    }

    /// Returns the facts for a connection that is logged in at the origin.
    pub fn logged_in(self) -> RequestFacts {
        RequestFacts { authorized: true, is_logged_in: true, ..self }
    }

    /// Returns the facts as if the client had sent `no-cache`.
    pub fn with_reload(self) -> RequestFacts {
        RequestFacts { directives: self.directives.with_reload(), ..self }
    }

    /// Returns the facts without the directives that restrict the age of the response.
    pub fn without_reload(self) -> RequestFacts {
        RequestFacts { directives: self.directives.without_reload(), ..self }
    }

    /// Returns whether the request carries anything that identifies its client.
    pub fn is_identified(&self) -> bool {
        self.authorized || !self.identified_by.is_empty()
    }

    /// Returns whether the response may be personal to the client: the request is identified or
    /// carries a cookie.
    pub fn is_personal(&self) -> bool {
        self.is_identified() || self.has_cookie
    }

    /// Returns whether the request carries credentials: anything that identifies its client other
    /// than a cookie, which most browser requests carry.
    pub fn has_credentials(&self) -> bool {
        self.authorized || self.identified_by.iter().any(|name| name != header::COOKIE)
    }

    /// Returns whether a response selected by the fields that `selects` accepts is only for clients
    /// with the same identity: these fields include all identifying ones. True if the request has
    /// no identity; false on a logged-in connection, whose identity no field shows.
    pub fn is_told_apart_by(&self, selects: impl Fn(&str) -> bool) -> bool {
        !self.is_logged_in && self.identified_by.iter().all(|name| selects(name.as_str()))
    }

    /// Returns the facts without directives and identity, which do not count if the origin vouches
    /// ([`crate::Settings::origin_vouches`]).
    pub fn without_wishes(self) -> RequestFacts {
        let directives = RequestDirectives::default();
        let (identified_by, is_logged_in) = (NameSet::default(), false);
        RequestFacts { directives, authorized: false, identified_by, is_logged_in, ..self }
    }

    /// Returns the facts of the plain GET whose response would be stored.
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
