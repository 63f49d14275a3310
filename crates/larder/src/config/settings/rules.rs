//! Declarations of the keys of a `[[rule]]` table.

use std::time::Duration;

use proxy::rules::request_rules::QuerySend;

use super::common::YEARS;
use super::files::CODING;
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

    /// Name in `larder explain` and messages. "none" is its number in the file.
    "name", Kind::Text("a name"), ["none"], word("none"), live, example(r#""static files""#)
        -> name;

    /// Sites of a reverse proxy, by name; the site of `reverse` is "default". None: any.
    "sites", Kind::List(&Kind::Text("the name of a site")), [], live, example(r#"["example"]"#)
        -> sites;

    /// Hosts of the URL; a leading dot includes all names below; none: any.
    "hosts", Kind::List(&Kind::HostPattern), [], live, example(r#"["www.example.com"]"#) -> hosts;

    /// Paths without query, * for anything, such as /static/* or *.css; none: any. Compared with
    /// every reading of the path: decoded, dots resolved, slashes merged, \ as /, path parameters
    /// removed. `bypass` and `refuse-upgrades` need one matching reading, other keys all.
    "paths", PATTERNS, [], live, example(r#"["/static/*", "*.css"]"#) -> paths;

    /// Matches `paths` in either case, for origin servers that ignore case.
    "paths-ignore-case", Kind::Bool, ["false"], live, example("true") -> paths_ignore_case;

    /// Request methods; GET includes HEAD; none: any.
    "methods", Kind::List(&Kind::Method), [], live, example(r#"["GET"]"#) -> methods;

    /// Conditions on request fields, all required: "Cookie" (present), "Cookie: *session=*" (a line
    /// matches, ignoring case), or either after a `!` (not).
    "headers", HEADER_TESTS, [], live, example(r#"["!Cookie: *session=*"]"#) -> headers;

    /// Pass requests on without the cache: no lookup, no store.
    "bypass", Kind::Bool, ["false"], live -> bypass;

    /// Stores responses. With false, stored ones are still used; with `bypass` not.
    "store", Kind::Bool, ["true"], live ~> store;

    /// Statuses to which `ttl`, `default-ttl`, `min-ttl`, `answer-set` and `answer-remove` apply.
    /// 206 and 304 follow 200. "auto": 200, 203, 204, 301, 308, and 302, 303, 307 with a stated
    /// lifetime for shared caches.
    "statuses", Kind::List(&STATUS), ["auto"], word("auto"), live, example(r#"["2xx", "404"]"#)
        ~> lifetimes.statuses;

    /// Freshness lifetime, whatever the origin server states; its no-store, private, no-cache and
    /// must-revalidate still count (`answer-remove` removes them). Lists name statuses: ["200 7d",
    /// "4xx 1m"]; a status outranks its class. "auto": as the origin server states.
    "ttl", LIFETIMES, ["auto"], word("auto"), live, example(r#""1h""#) ~> lifetimes.fixed;

    /// Freshness lifetime where the origin server states none, as one time or a list as for `ttl`.
    /// "auto" is heuristic (`caching.heuristic-percent`).
    "default-ttl", LIFETIMES, ["auto"], word("auto"), live, example(r#""10m""#)
        ~> lifetimes.unsaid;

    /// Shortest freshness lifetime. "auto": no bound.
    "min-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1m""#) ~> lifetimes.min;

    /// Longest freshness lifetime, of any status; does not bound `ttl`. "auto": no bound.
    "max-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#) ~> lifetimes.max;

    /// Freshness lifetime of responses from 400 on that state none, unless `ttl` or `default-ttl`
    /// applies. "auto" is `caching.error-ttl`.
    "error-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""10s""#) ~> lifetimes.errors;

    /// Replaces `caching.stale-while-revalidate` ("auto").
    "stale-while-revalidate", LIFETIME, ["auto"], word("auto"), live, example(r#""1m""#)
        ~> stale_while_revalidate;

    /// Replaces `caching.stale-if-error` ("auto").
    "stale-if-error", LIFETIME, ["auto"], word("auto"), live, example(r#""1h""#) ~> stale_if_error;

    /// Replaces `caching.stale-when-unreachable` ("auto").
    "stale-when-unreachable", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#)
        ~> stale_when_unreachable;

    /// Replaces `caching.keep` ("auto").
    "keep", LIFETIME, ["auto"], word("auto"), live, example(r#""7d""#) ~> keep;

    /// Replaces `caching.refresh-ahead` ("auto").
    "refresh-ahead", Kind::Int(0, 90), ["auto"], word("auto"), live, example("10")
        ~> refresh_ahead_percent;

    /// Replaces `caching.validate-neighbours` ("auto") for the revalidated response; 0 also exempts
    /// responses from being revalidated as neighbours.
    "validate-neighbours", Kind::Int(0, 64), ["auto"], word("auto"), live, example("4")
        ~> validate_neighbours;

    /// Names of query parameters in the key; an empty list: none.
    "query-keep", PATTERNS, ["*"], live -> query_keep;

    /// Names of query parameters left out of the key, such as utm_*.
    "query-drop", PATTERNS, [], live, example(r#"["utm_*"]"#) -> query_drop;

    /// Sort query parameters by name in the key, so that their order does not matter.
    "query-sort", Kind::Bool, ["false"], live, example("true") -> query_sort;

    /// Query sent to the origin server with GET and HEAD: the one of the key, so that a parameter
    /// outside the key cannot change what is stored, or all of it. Other methods and `bypass`
    /// always send all.
    "query-send", QUERY_SEND, ["key"], live, example(r#""all""#) -> query_send;

    /// Request fields in the key, as if every response named them in Vary.
    "key-headers", Kind::List(&Kind::Header), [], live, example(r#"["x-currency"]"#) -> key_headers;

    /// Separate phones, tablets, desktops and bots by User-Agent: the origin server gets
    /// X-UA-Device (mobile, tablet, desktop or bot), and each has its own copy.
    "key-device", Kind::Bool, ["false"], live -> key_device;

    /// Languages of the site, the default first: the origin server gets the best as
    /// Accept-Language, and each has its own copy.
    "key-languages", Kind::List(&Kind::Text("a language such as en or pt-BR")), [], live,
        example(r#"["en", "de"]"#) -> key_languages;

    /// Fields set in the request before anything else reads it.
    "request-set", FIELDS, [], live, example(r#"["X-Cached: yes"]"#) -> request_set;

    /// Fields removed from the request before anything else reads it.
    "request-remove", FIELD_NAMES, [], live, example(r#"["Cookie"]"#) -> request_remove;

    /// Fields set in the origin server's response before anything else reads it, if its status is
    /// in `statuses`.
    "answer-set", FIELDS, [], live, example(r#"["Cache-Control: public, max-age=3600"]"#)
        -> answer_set;

    /// Fields removed from the origin server's response before anything else reads it, such as
    /// Set-Cookie, if its status is in `statuses`.
    "answer-remove", FIELD_NAMES, [], live, example(r#"["Set-Cookie"]"#) -> answer_remove;

    /// Largest response that is stored. "auto" is `store.max-object`.
    "store-max", Kind::Size(0, 1 << 50), ["auto"], word("auto"), live, example(r#""10M""#)
        -> store_max;

    /// Largest response; larger ones get 502, or are cut if their length was not stated.
    "answer-max", Kind::Size(0, 1 << 50), ["none"], word("none"), live, example(r#""1G""#)
        -> answer_max;

    /// Answer requests for another protocol (Upgrade, WebSocket) with 403; otherwise they are
    /// passed on.
    "refuse-upgrades", Kind::Bool, ["false"], live, example("true") -> refuse_upgrades;

    /// Codings in which responses are compressed; an empty list: none. "auto" is
    /// `compression.codings`.
    "compress", Kind::List(&CODING), ["auto"], word("auto"), live, example("[]") -> compress;
};
