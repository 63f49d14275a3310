//! Declarations of the keys of a `[[rule]]` table.

use std::time::Duration;

use proxy::rules::request_rules::QuerySend;

use super::common::YEARS;
use crate::config::request_rule::RequestRule;
use crate::config::setting::{Field, choice, fields};
use crate::config::status_times::{STATUS, STATUS_TIME};
use crate::config::value::Kind;

choice!(QUERY_SEND for QuerySend { "key" => QuerySend::Key, "all" => QuerySend::All });

const LIFETIME: Kind = Kind::Time(Duration::ZERO, YEARS);
const LIFETIMES: Kind = Kind::List(&STATUS_TIME);
const PATTERNS: Kind = Kind::List(&Kind::Text("a text in which * stands for anything"));
const FIELDS: Kind = Kind::List(&Kind::Text("\"Name: value\""));
const FIELD_NAMES: Kind = Kind::List(&Kind::Text("a field's name, * for anything"));

const HEADER_TESTS: Kind =
    Kind::List(&Kind::Text("\"Name\", \"Name: value\" with * for anything, or !"));

/// The keys of a `[[rule]]` table, in the order of the documentation.
pub const RULE: &[Field<RequestRule>] = fields! {
    RequestRule;

    /// What `larder explain` and messages call it. "none" is its number in the file.
    "name", Kind::Text("a name"), ["none"], word("none"), live, example(r#""static files""#)
        -> name;

    /// Sites of a reverse proxy that it is for, by name; `reverse` makes one that is called
    /// "default". None: any.
    "sites", Kind::List(&Kind::Text("the name of a site")), [], live, example(r#"["example"]"#)
        -> sites;

    /// Hosts of the URL; a leading dot includes all names below; none: any.
    "hosts", Kind::List(&Kind::HostPattern), [], live, example(r#"["www.example.com"]"#) -> hosts;

    /// Paths without query, in which * stands for anything, such as /static/* or *.css; none: any.
    /// They are compared with the path in every reading that servers have of it: percent-encodings
    /// decoded, dots resolved, slashes in a row taken for one, \ taken for /, and path parameters
    /// (;x=1) removed. `bypass` and `refuse-upgrades` hold when one reading fits, the rest when all
    /// of them do.
    "paths", PATTERNS, [], live, example(r#"["/static/*", "*.css"]"#) -> paths;

    /// Whether letters of `paths` fit in either case: for origin servers that ignore case.
    "paths-ignore-case", Kind::Bool, ["false"], live, example("true") -> paths_ignore_case;

    /// Request methods; GET includes HEAD; none: any.
    "methods", Kind::List(&Kind::Method), [], live, example(r#"["GET"]"#) -> methods;

    /// What must hold of the request's fields, all of it: "Cookie" (it is there), "Cookie:
    /// *session=*" (a line of it fits, without regard to case), or one of them behind a `!` (it
    /// does not).
    "headers", HEADER_TESTS, [], live, example(r#"["!Cookie: *session=*"]"#) -> headers;

    /// Send them past the cache: nothing is looked up, nothing is stored.
    "bypass", Kind::Bool, ["false"], live -> bypass;

    /// Whether what the origin server answers is stored. With false what is stored already is
    /// still used; `bypass` does not use it either.
    "store", Kind::Bool, ["true"], live ~> store;

    /// The statuses of the answers that `ttl`, `default-ttl`, `min-ttl`, `answer-set` and
    /// `answer-remove` apply to: exactly these. 206 and 304 follow 200. "auto" is 200, 203, 204,
    /// 301 and 308, and of 302, 303 and 307 those that the origin server lets shared caches keep
    /// for a time that it states.
    "statuses", Kind::List(&STATUS), ["auto"], word("auto"), live, example(r#"["2xx", "404"]"#)
        ~> lifetimes.statuses;

    /// How long answers of these statuses are fresh, whatever the origin server says; its no-store,
    /// private, no-cache and must-revalidate still count (`answer-remove` takes them away). A list
    /// such as ["200 7d", "301 1h", "4xx 1m"] names the statuses itself; a single status outranks
    /// its class. "auto" is what the origin server says.
    "ttl", LIFETIMES, ["auto"], word("auto"), live, example(r#""1h""#) ~> lifetimes.fixed;

    /// How long answers of these statuses are fresh for which the origin server says nothing, as
    /// one time or as a list like that of `ttl`. "auto" is a guess (`caching.heuristic-percent`).
    "default-ttl", LIFETIMES, ["auto"], word("auto"), live, example(r#""10m""#)
        ~> lifetimes.unsaid;

    /// The shortest time that answers of these statuses are fresh. "auto": no bound.
    "min-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1m""#) ~> lifetimes.min;

    /// The longest time that answers of any status are fresh; `ttl` is not bounded by it. "auto":
    /// no bound.
    "max-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#) ~> lifetimes.max;

    /// How long answers from 400 on are fresh for which the origin server says nothing, and to
    /// which neither `ttl` nor `default-ttl` applies. "auto" is `caching.error-ttl`.
    "error-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""10s""#) ~> lifetimes.errors;

    /// In place of `caching.stale-while-revalidate`, which "auto" is.
    "stale-while-revalidate", LIFETIME, ["auto"], word("auto"), live, example(r#""1m""#)
        ~> stale_while_revalidate;

    /// In place of `caching.stale-if-error`, which "auto" is.
    "stale-if-error", LIFETIME, ["auto"], word("auto"), live, example(r#""1h""#) ~> stale_if_error;

    /// In place of `caching.stale-when-unreachable`, which "auto" is.
    "stale-when-unreachable", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#)
        ~> stale_when_unreachable;

    /// In place of `caching.keep`, which "auto" is.
    "keep", LIFETIME, ["auto"], word("auto"), live, example(r#""7d""#) ~> keep;

    /// In place of `caching.refresh-ahead`, which "auto" is.
    "refresh-ahead", Kind::Int(0, 90), ["auto"], word("auto"), live, example("10")
        ~> refresh_ahead_percent;

    /// In place of `caching.validate-neighbours`, which "auto" is: for what is validated, and 0
    /// also keeps answers from being validated as neighbours.
    "validate-neighbours", Kind::Int(0, 64), ["auto"], word("auto"), live, example("4")
        ~> validate_neighbours;

    /// Names of the query parameters that are part of the key; an empty list: none.
    "query-keep", PATTERNS, ["*"], live -> query_keep;

    /// Names of query parameters that are not part of the key, such as utm_*.
    "query-drop", PATTERNS, [], live, example(r#"["utm_*"]"#) -> query_drop;

    /// Sort the query parameters in the key by name, so that their order does not matter.
    "query-sort", Kind::Bool, ["false"], live, example("true") -> query_sort;

    /// What the origin server is sent of the query with a GET or HEAD: "key" is the query of the
    /// key, so that a parameter that is not in the key cannot change what is stored under it; "all"
    /// is the whole query. Other methods, and requests that pass the cache by `bypass`, are always
    /// sent the whole.
    "query-send", QUERY_SEND, ["key"], live, example(r#""all""#) -> query_send;

    /// Request fields that are part of the key as if each answer had them in its Vary.
    "key-headers", Kind::List(&Kind::Header), [], live, example(r#"["x-currency"]"#) -> key_headers;

    /// Tell apart phones, tablets, desktops and bots by User-Agent: the origin server is sent
    /// X-UA-Device with one of the words mobile, tablet, desktop and bot, and what it answers is
    /// stored once for each.
    "key-device", Kind::Bool, ["false"], live -> key_device;

    /// The languages of the site, the usual one first: the origin server is sent the best of them
    /// as Accept-Language, and what it answers is stored once for each.
    "key-languages", Kind::List(&Kind::Text("a language such as en or pt-BR")), [], live,
        example(r#"["en", "de"]"#) -> key_languages;

    /// Fields that are set in the request before anything looks at it.
    "request-set", FIELDS, [], live, example(r#"["X-Cached: yes"]"#) -> request_set;

    /// Fields that are removed from the request before anything looks at it.
    "request-remove", FIELD_NAMES, [], live, example(r#"["Cookie"]"#) -> request_remove;

    /// Fields that are set in the origin server's answer, if its status is one of `statuses`,
    /// before anything looks at it.
    "answer-set", FIELDS, [], live, example(r#"["Cache-Control: public, max-age=3600"]"#)
        -> answer_set;

    /// Fields that are removed from the origin server's answer, if its status is one of
    /// `statuses`, before anything looks at it, such as Set-Cookie.
    "answer-remove", FIELD_NAMES, [], live, example(r#"["Set-Cookie"]"#) -> answer_remove;

    /// Larger answers are passed on and not stored. "auto" is `store.max-object`.
    "store-max", Kind::Size(0, 1 << 50), ["auto"], word("auto"), live, example(r#""10M""#)
        -> store_max;

    /// Larger answers are refused with 502, or cut where the origin server does not say how long
    /// they are.
    "answer-max", Kind::Size(0, 1 << 50), ["none"], word("none"), live, example(r#""1G""#)
        -> answer_max;

    /// Answer requests that ask for another protocol (Upgrade, WebSocket) with 403; otherwise they
    /// are passed on.
    "refuse-upgrades", Kind::Bool, ["false"], live, example("true") -> refuse_upgrades;
};
