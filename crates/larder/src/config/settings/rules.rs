//! Declarations of the keys of a `[[rule]]` table.

use std::time::Duration;

use http::HeaderName;
use proxy::rules::limits::{LimitKey, Rate};
use proxy::rules::request_rules::QuerySend;
use semantics::ignored_fields::IGNORABLE;
use semantics::settings::stale_cases;

use super::common::{TIMEOUT, YEARS};
use super::files::CODING;
use crate::config::request_rule::{RequestRule, Then};
use crate::config::rule_actions::ErrorPageFor;
use crate::config::rule_condition;
use crate::config::rule_condition::RuleCondition;
use crate::config::rule_response::RuleResponse;
use crate::config::rule_substitute::RuleSubstitute;
use crate::config::setting::{Field, Take, choice, count, fields, joined};
use crate::config::status_times::{STATUS, STATUS_TIME};
use crate::config::upstreams::NEXT;
use crate::config::value::{Checked, Kind};

choice!(QUERY_SEND for QuerySend { "key" => QuerySend::Key, "all" => QuerySend::All });

choice!(ERROR_PAGE_FOR for ErrorPageFor {
    "all" => ErrorPageFor::All,
    "proxy" => ErrorPageFor::Proxy,
});

choice!(THEN for Then { "stop" => Then::Stop, "continue" => Then::Continue });

const STALE_CASE: Kind = Kind::OneOf(&stale_cases::NAMES);
const RATE: Kind = Kind::Checked(&Checked {
    check: Checked::read::<Rate>,
    expected: "requests in a time, such as 10/s or 30/m",
    value_name: "RATE",
    example: "10/s",
});
const LIMIT_KEY: Kind = Kind::Checked(&Checked {
    check: Checked::read::<LimitKey>,
    expected: "\"client\", \"site\", \"rule\", \"request\" or \"header.NAME\"",
    value_name: "KEY",
    example: "client",
});

const LIFETIME: Kind = Kind::Time(Duration::ZERO, YEARS);
const LIFETIMES: Kind = Kind::List(&STATUS_TIME);
const PATTERNS: Kind = Kind::List(&Kind::Text("a text in which * stands for anything"));
const FIELDS: Kind = Kind::List(&Kind::Text("\"Name: value\""));
const FIELD_NAMES: Kind = Kind::List(&Kind::Text("a field's name, * for anything"));

const IGNORABLE_FIELDS: Kind = Kind::List(&Kind::Checked(&Checked {
    check: |text| text.parse::<HeaderName>().is_ok_and(|name| IGNORABLE.contains(&name)),
    expected: "Cache-Control, Expires, Set-Cookie, Vary, CDN-Cache-Control, Surrogate-Control or \
               X-Accel-Expires",
    value_name: "FIELD",
    example: "Cache-Control",
}));

const NAMED: Kind = Kind::List(&Kind::Text("\"name\" or \"name=value\", * for anything"));
const LISTENERS: Kind = Kind::List(&Kind::Checked(&Checked {
    check: |text| rule_condition::listener(text).is_some(),
    expected: "a port, an address and port, or unix:/PATH",
    value_name: "LISTENER",
    example: "8080",
}));
const HIDDEN: Kind = Kind::List(&super::client::HIDEABLE);

const HEADER_TESTS: Kind =
    Kind::List(&Kind::Text("\"Name\", \"Name: value\" with * for anything, or !"));

/// Declares the lists of a condition: for a rule, and for an alternative of `any`; each also with
/// `not-` in front.
macro_rules! tests {
    ($(
        $(#[doc = $text:literal])+
        $key:literal, $kind:expr, $example:literal -> $place:ident;
    )*) => {
        const TESTS_OF_RULE: &[Field<RequestRule>] = &[$(
            Field::new($key, $kind, &[], |rule: &mut RequestRule, value| {
                Take::set(&mut rule.when.is.$place, value);
            }, concat!($($text),+)).live().example($example),
            Field::new(concat!("not-", $key), $kind, &[], |rule: &mut RequestRule, value| {
                Take::set(&mut rule.when.not.$place, value);
            }, concat!(" As `", $key, "`, but none may match.")).live().example($example),
        )*];

        const TESTS: &[Field<RuleCondition>] = &[$(
            Field::new($key, $kind, &[], |when: &mut RuleCondition, value| {
                Take::set(&mut when.is.$place, value);
            }, concat!($($text),+)),
            Field::new(concat!("not-", $key), $kind, &[], |when: &mut RuleCondition, value| {
                Take::set(&mut when.not.$place, value);
            }, concat!(" As `", $key, "`, but none may match.")),
        )*];
    };
}

tests! {
    /// Sites of a reverse proxy, by name; the site of `reverse` is "default". None: any.
    "sites", Kind::List(&Kind::Text("the name of a site")), r#"["example"]"# -> sites;

    /// Hosts of the URL; a leading dot includes all names below; none: any.
    "hosts", Kind::List(&Kind::HostPattern), r#"["www.example.com"]"# -> hosts;

    /// Paths without query, * for anything, such as /static/* or *.css, or regular expressions
    /// after ~, such as ~^/[0-9]+$; none: any. Compared with every reading of the path
    /// (docs/guide/rules.md).
    "paths", PATTERNS, r#"["/static/*", "*.css"]"# -> paths;

    /// Path and query together, patterns and regular expressions as in `paths`, such as
    /// ~[?&]preview=; none: any.
    "urls", PATTERNS, r#"["~[?&]preview="]"# -> urls;

    /// Scheme, host without port, path and query, such as https://*.example.com/api/* or
    /// ~^http://[^/]*\.test/; none: any. Otherwise as `urls`.
    "absolute-urls", PATTERNS, r#"["https://*/api/*"]"# -> absolute_urls;

    /// Request methods; GET includes HEAD; none: any.
    "methods", Kind::List(&Kind::Method), r#"["GET"]"# -> methods;

    /// Conditions on request fields, all required: "Cookie" (present), "Cookie: *session=*" (a line
    /// matches), "Cookie: ~session=[0-9]" (a regular expression), or one of them after a `!` (not).
    "headers", HEADER_TESTS, r#"["!Cookie: *session=*"]"# -> headers;

    /// Scheme of the URL.
    "schemes", Kind::List(&Kind::OneOf(&["http", "https"])), r#"["https"]"# -> schemes;

    /// Networks of the client; behind a proxy in `forwarded.trust`, of the client that it names in
    /// X-Forwarded-For.
    "clients", Kind::List(&Kind::Network), r#"["192.168.0.0/16"]"# -> clients;

    /// Parameters of the query: "preview" (present), "page=2*" (has such a value).
    "query", NAMED, r#"["preview"]"# -> query;

    /// Cookies: "session" (present), "theme=dark" (has such a value).
    "cookies", NAMED, r#"["session*"]"# -> cookies;

    /// Classes of the request, as NAME=VALUE.
    "classes", Kind::List(&Kind::Text("\"NAME=VALUE\"")), r#"["plan=paid"]"# -> classes;
    /// Listeners that the client connected to: ports, or addresses as in `listen` and
    /// `[[listener]]`.
    "listeners", LISTENERS, r#"["443"]"# -> listeners;
}

/// The keys of an entry in `responses`.
pub const RESPONSE: &[Field<RuleResponse>] = fields! {
    RuleResponse;

    /// Statuses of the response; 206 and 304 follow 200; none: any.
    "statuses", Kind::List(&STATUS), [], live, example(r#"["404"]"#) -> is.statuses;

    /// Statuses of which none may match.
    "not-statuses", Kind::List(&STATUS), [], live, example(r#"["5xx"]"#) -> not.statuses;

    /// Media types without parameters, * for anything; none: any.
    "types", PATTERNS, [], live, example(r#"["image/*"]"#) -> is.types;

    /// Media types of which none may match.
    "not-types", PATTERNS, [], live, example(r#"["text/html"]"#) -> not.types;

    /// Conditions on response fields, as those of a rule on request fields.
    "headers", HEADER_TESTS, [], live, example(r#"["X-Private: yes"]"#) -> is.headers;

    /// Conditions on response fields of which none may hold.
    "not-headers", HEADER_TESTS, [], live, example(r#"["ETag"]"#) -> not.headers;

    /// Bytes that the whole body must exceed. Of a body of unknown length it holds for `store =
    /// false` alone, once more have arrived.
    "larger-than", Kind::Size(0, 1 << 50), ["none"], word("none"), live, example(r#""1K""#)
        -> larger_than;

    /// Bytes that the whole body must stay below; its length must be stated.
    "smaller-than", Kind::Size(0, 1 << 50), ["none"], word("none"), live, example(r#""10M""#)
        -> smaller_than;

    /// Replaces `ttl` of the rule. Without `statuses` here it is for those of the rule.
    "ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#) -> ttl;

    /// Replaces `default-ttl` of the rule, in the same way.
    "default-ttl", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#) -> default_ttl;

    /// Stores the response, if the rule does.
    "store", Kind::Bool, ["true"], live, example("false") -> store;

    /// Fields set like those of `answer-set` of the rule, whatever the status.
    "answer-set", FIELDS, [], live, example(r#"["X-Kind: image"]"#) -> answer_set;

    /// Fields removed like those of `answer-remove` of the rule, whatever the status.
    "answer-remove", FIELD_NAMES, [], live, example(r#"["Set-Cookie"]"#) -> answer_remove;

    /// Fields ignored like those of `answer-ignore` of the rule.
    "answer-ignore", IGNORABLE_FIELDS, [], live, example(r#"["Cache-Control"]"#) -> answer_ignore;

    /// Fields set like those of `client-set` of the rule.
    "client-set", FIELDS, [], live, example(r#"["X-Frame-Options: DENY"]"#) -> client_set;

    /// Fields removed like those of `client-remove` of the rule.
    "client-remove", FIELD_NAMES, [], live, example(r#"["X-Powered-By"]"#) -> client_remove;
};

/// A text that may be empty.
const ANY_TEXT: Kind = Kind::Checked(&Checked {
    check: |text| !text.contains('\0'),
    expected: "a text",
    value_name: "TEXT",
    example: "https://{host}/",
});

/// The keys of an entry in `substitute`.
pub const SUBSTITUTE: &[Field<RuleSubstitute>] = fields! {
    RuleSubstitute;

    /// Text that is replaced in 200 responses without Content-Encoding.
    "from", Kind::Text("a text"), [], required, live, example(r#""http://app:8080/""#) -> from;

    /// Text that replaces it, with the variables {host}, {scheme}, {site} and {rule}.
    "to", ANY_TEXT, [], required, live, example(r#""https://{host}/""#) -> to;

    /// Replaces the first one of a body only.
    "once", Kind::Bool, ["false"], live, example("true") -> once;
};

const MORE_TESTS: &[Field<RuleCondition>] = fields! {
    RuleCondition;

    /// Matches `paths`, `urls` and `absolute-urls` in either case.
    "paths-ignore-case", Kind::Bool, ["false"] -> paths_ignore_case;

    /// Share of the clients.
    "share", SHARE, ["all"], word("all") -> share;
};

const CONDITION_PARTS: &[&[Field<RuleCondition>]] = &[TESTS, MORE_TESTS];

/// The keys of an alternative in `any`.
pub const CONDITION: &[Field<RuleCondition>] =
    &joined::<RuleCondition, { count(CONDITION_PARTS) }>(CONDITION_PARTS);

const RULE_PARTS: &[&[Field<RequestRule>]] = &[FLOW, TESTS_OF_RULE, TREATMENT];

/// The keys of a `[[rule]]` table, in the order of the documentation, but for `any`, a list of
/// conditions.
pub const RULE: &[Field<RequestRule>] = &joined::<RequestRule, { count(RULE_PARTS) }>(RULE_PARTS);

const SHARE: Kind = Kind::Text("a percentage such as 5%");

const FLOW: &[Field<RequestRule>] = fields! {
    RequestRule;

    /// Name in `larder explain` and messages. "none" is its number in the file.
    "name", Kind::Text("a name"), ["none"], word("none"), live, example(r#""static files""#)
        -> name;

    /// Next step after a match: "stop", or "continue" with the next rules, whose settings are
    /// added to those of this one.
    "then", THEN, ["stop"], live, example(r#""continue""#) -> then;

    /// Matches `paths`, `urls` and `absolute-urls` in either case, for origin servers that ignore
    /// case.
    "paths-ignore-case", Kind::Bool, ["false"], live, example("true") -> when.paths_ignore_case;

    /// Share of the clients, chosen by their addresses so that a client stays in it.
    "share", SHARE, ["all"], word("all"), live, example(r#""5%""#) -> when.share;
};

const TREATMENT: &[Field<RequestRule>] = fields! {
    RequestRule;

    /// Answers with 403.
    "deny", Kind::Bool, ["false"], live, example("true") -> actions.deny;

    /// Answers with a redirect: a URL or path with variables, after a status (302 if none stands
    /// there).
    "redirect", Kind::Text("a URL with variables, such as \"301 https://example.com{uri}\""),
        ["none"], word("none"), live, example(r#""301 https://www.example.com{uri}""#)
        -> actions.redirect;

    /// Answers with a status and a text with variables, or a file of at most 1M after an @, which
    /// is read at start and reload.
    "respond", Kind::Text("a status and a text or @FILE, such as \"200 ok\""), ["none"],
        word("none"), live -> actions.respond;

    /// Pages that clients get in place of errors: the status or class, perhaps another status to
    /// send, and a text with variables or a file of at most 1M after an @.
    "error-page", Kind::List(&Kind::Text("a status or class and a text or @FILE")), [], live,
        example(r#"["404 There is no such page", "5xx 503 Please come back later"]"#)
        -> actions.error_page;

    /// Errors that `error-page` replaces: those of origin servers and of the proxy ("all"), or of
    /// the proxy alone.
    "error-page-for", ERROR_PAGE_FOR, ["all"], live, example(r#""proxy""#)
        -> actions.error_page_for;

    /// Methods that are not answered with 405; GET includes HEAD; none: any.
    "allow-methods", Kind::List(&Kind::Method), [], live, example(r#"["GET", "POST"]"#)
        -> actions.allow_methods;

    /// Largest body of a request; a larger one is answered with 413.
    "max-body", Kind::Size(0, 1 << 50), ["none"], word("none"), live, example(r#""10M""#)
        -> actions.max_body;

    /// Requests in a second, minute or hour ("10/s", "30/m", "100/h"), for each key of `limit-by`;
    /// more are answered with 429.
    "limit-rate", RATE, ["none"], word("none"), live, example(r#""10/s""#)
        -> actions.guards.rate;

    /// Requests beyond the rate that are accepted at once before others are refused.
    "limit-burst", Kind::Int(0, 100_000), ["0"], live, example("20") -> actions.guards.burst;

    /// Those of the burst that wait in place of being sent on at once, until the rate permits them.
    "limit-queue", Kind::Int(0, 100_000), ["0"], live, example("20") -> actions.guards.queue;

    /// Requests at the same time; more are answered with 429.
    "limit-concurrent", Kind::Int(1, 1 << 30), ["none"], word("none"), live, example("20")
        -> actions.guards.concurrent;

    /// Bytes of response bodies a second. Tunnels are not slowed.
    "limit-bandwidth", Kind::Size(1, 1 << 40), ["none"], word("none"), live, example(r#""1M""#)
        -> actions.guards.bandwidth;

    /// Bytes of each response that come before that.
    "limit-bandwidth-after", Kind::Size(0, 1 << 50), ["0"], live, example(r#""10M""#)
        -> actions.guards.bandwidth_after;

    /// Key that limits count by (docs/guide/rules.md, "Limits and passwords"); "request" is for
    /// `limit-bandwidth` only.
    "limit-by", LIMIT_KEY, ["client"], live, example(r#""header.X-API-Key""#)
        -> actions.guards.by;

    /// Name that limits of several rules share, which then count together, each by its own rate:
    /// they need the same `limit-by`. "none": the limit counts alone.
    "limit-name", Kind::Text("a name"), ["none"], word("none"), live, example(r#""api""#)
        -> actions.guards.limit_name;

    /// Status of refusals.
    "limit-status", Kind::Int(400, 599), ["429"], live, example("503") -> actions.guards.status;

    /// Counts and logs requests over the limits, but refuses none.
    "limit-dry-run", Kind::Bool, ["false"], live -> actions.guards.dry_run;

    /// File of users that `htpasswd -B` makes, one NAME:HASH in each line, with bcrypt or argon2;
    /// read at start and reload. Others get 401. The origin server does not get Authorization.
    "basic-auth", Kind::Text("a path"), ["none"], word("none"), live -> actions.guards.basic_auth;

    /// Realm that browsers show when they ask for name and password.
    "realm", Kind::Text("a text"), ["Restricted"], live -> actions.guards.realm;

    /// Prefix of whole segments removed from the path that the origin server is asked for. Further
    /// changes follow in the order of these keys.
    "remove-prefix", Kind::Text("a path"), ["none"], word("none"), live, example(r#""/api""#)
        -> actions.remove_prefix;

    /// Prefix put before that path.
    "add-prefix", Kind::Text("a path"), ["none"], word("none"), live, example(r#""/v2""#)
        -> actions.add_prefix;

    /// Path in place of that path, with variables.
    "set-path", Kind::Text("a path with variables"), ["none"], word("none"), live,
        example(r#""/items/{capture.1}""#) -> actions.set_path;

    /// Query in place of the client's, with variables.
    "set-query", Kind::Text("a query with variables"), ["none"], word("none"), live,
        example(r#""page={capture.1}""#) -> actions.set_query;

    /// Names of parameters removed from that query, but not from the key (`query-drop`).
    "remove-query", PATTERNS, [], live, example(r#"["debug"]"#) -> actions.remove_query;

    /// Host for the origin server, with variables.
    "set-host", Kind::Text("a host, with variables"), ["none"], word("none"), live,
        example(r#""app.internal""#) -> actions.set_host;

    /// Origin server in place of the site's: the name of a site, servers as in a site's `upstream`,
    /// or within `allowed-hosts` the server that the request names (docs/guide/upstreams.md).
    "upstream", Kind::List(&Kind::Text("the name of a site, a URL or \"{host}\"")), [], live,
        example(r#"["http://10.0.0.9:8080"]"#) -> actions.upstream;

    /// Hosts for which `upstream` is asked where the request names it; others get 403. Hosts to
    /// which `follow-redirects` may lead, besides the site's own. Servers that match only a .domain
    /// must not have private addresses.
    "allowed-hosts", Kind::List(&Kind::HostPattern), [], live,
        example(r#"[".example.com"]"#) -> actions.allowed_hosts;

    /// Replaces `upstream.connect-timeout` ("auto").
    "connect-timeout", TIMEOUT, ["auto"], word("auto"), live, example(r#""2s""#)
        -> actions.timeouts.connect;

    /// Replaces `upstream.head-timeout` ("auto").
    "head-timeout", TIMEOUT, ["auto"], word("auto"), live, example(r#""5m""#)
        -> actions.timeouts.head;

    /// Replaces `upstream.body-timeout` ("auto").
    "body-timeout", TIMEOUT, ["auto"], word("auto"), live, example(r#""5m""#)
        -> actions.timeouts.body;

    /// Replaces the `next-upstream` of the site ("auto").
    "next-upstream", Kind::List(&Kind::OneOf(NEXT)), ["auto"], word("auto"), live,
        example(r#"["error", "timeout", "http-404"]"#) -> actions.next_upstream;

    /// Number of the origin server's redirects that are followed for one GET or HEAD; the final
    /// response is stored under the first URL.
    "follow-redirects", Kind::Int(0, 20), ["0"], live, example("3") -> actions.follow_redirects;

    /// Directory whose files are served by GET and HEAD instead of the origin server's responses to
    /// their paths, with the options of `[files]` except index files, listings, try-files and
    /// error-pages.
    "try-root", Kind::Path, ["none"], word("none"), live -> actions.try_root;

    /// Answers with 404 what the directory of `try-root` has no file for, instead of asking the
    /// origin server.
    "try-root-only", Kind::Bool, ["false"], live -> actions.try_root_only;

    /// Paths tried in the directory of `try-root`, in order, with variables; one that ends in / is
    /// a directory with an index file. None: the changed path, as a file.
    "try-files", Kind::List(&Kind::Text("a path with variables")), [], live -> actions.try_files;

    /// Credentials for the origin server in place of the client's Authorization: a file after an @
    /// with user:password or a bearer token. The response is shared like one without Authorization.
    "credentials", Kind::Text("@FILE"), ["none"], word("none"), live
        -> actions.credentials;

    /// Pass requests on without the cache: no lookup, no store.
    "bypass", Kind::Bool, ["false"], live -> bypass;

    /// Asks the origin server in place of using a stored response, which the answer replaces.
    "refresh", Kind::Bool, ["false"], live, example("true") ~> refresh;

    /// Stores responses. With false, stored ones are still used; with `bypass` not.
    "store", Kind::Bool, ["true"], live ~> store;

    /// Statuses to which `ttl`, `default-ttl`, `min-ttl`, `answer-set` and `answer-remove` apply;
    /// "auto": docs/guide/rules.md, "Lifetimes".
    "statuses", Kind::List(&STATUS), ["auto"], word("auto"), live, example(r#"["2xx", "404"]"#)
        ~> lifetimes.statuses;

    /// Freshness lifetime, whatever the origin server states; its no-store, private, no-cache and
    /// must-revalidate still count (`answer-remove` removes them). Lists name statuses: ["200 7d",
    /// "4xx 1m"]. "auto": as the origin server states.
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

    /// Replaces `caching.heuristic-percent`, where no other key states a lifetime ("auto").
    "heuristic-percent", Kind::Int(0, 100), ["auto"], word("auto"), live, example("20")
        ~> heuristic_percent;

    /// Replaces `caching.heuristic-max` ("auto").
    "heuristic-max", LIFETIME, ["auto"], word("auto"), live, example(r#""1d""#) ~> heuristic_max;

    /// Replaces `caching.heuristic-without-date` ("auto").
    "heuristic-without-date", LIFETIME, ["auto"], word("auto"), live, example(r#""1h""#)
        ~> heuristic_without_date;

    /// Replaces `caching.stale-while-revalidate` ("auto").
    "stale-while-revalidate", LIFETIME, ["auto"], word("auto"), live, example(r#""1m""#)
        ~> stale_while_revalidate;

    /// Replaces `caching.stale-if-error` ("auto").
    "stale-if-error", LIFETIME, ["auto"], word("auto"), live, example(r#""1h""#) ~> stale_if_error;

    /// Errors in place of which stale responses are used, for the time of `stale-if-error` and
    /// `stale-when-unreachable`. "auto": 500, 502, 503, 504, "unreachable" (no lasting connection),
    /// "timeout".
    "stale-if", Kind::List(&STALE_CASE), ["auto"], word("auto"), live,
        example(r#"["5xx", "404", "timeout"]"#) ~> stale_if;

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

    /// Query sent to the origin server with GET and HEAD: the one of the key, or all of it. Other
    /// methods and `bypass` always send all.
    "query-send", QUERY_SEND, ["key"], live, example(r#""all""#) -> query_send;

    /// Path in the key in place of the request's, made of captures of the rule's paths: requests
    /// for several paths share one response.
    "key-path", Kind::Text("a path with {capture.N}"), ["none"], word("none"), live,
        example(r#""/blobs/{capture.1}""#) -> key_path;

    /// Request fields in the key, as if every response named them in Vary.
    "key-headers", Kind::List(&Kind::Header), [], live, example(r#"["x-currency"]"#) -> key_headers;

    /// Separate phones, tablets, desktops and bots by User-Agent: the origin server gets
    /// X-UA-Device (mobile, tablet, desktop or bot), and each has its own copy.
    "key-device", Kind::Bool, ["false"], live -> key_device;

    /// Languages of the site, the default first: the origin server gets the best as
    /// Accept-Language, and each has its own copy.
    "key-languages", Kind::List(&Kind::Text("a language such as en or pt-BR")), [], live,
        example(r#"["en", "de"]"#) -> key_languages;

    /// Cookies that are part of the key, by name.
    "key-cookies", Kind::List(&Kind::Text("the name of a cookie")), [], live,
        example(r#"["currency"]"#) -> key_cookies;

    /// Classes that are part of the key, by name, besides those used in `request-set`, `set-path`
    /// and the like.
    "key-classes", Kind::List(&Kind::Text("the name of a class")), [], live,
        example(r#"["plan"]"#) -> key_classes;

    /// Cookies that stay in the request, by name; an empty list: none.
    "cookie-keep", PATTERNS, ["*"], live, example(r#"["session"]"#) -> cookie_keep;

    /// Cookies removed from the request, by name.
    "cookie-remove", PATTERNS, [], live, example(r#"["_ga*"]"#) -> cookie_remove;

    /// Fields set in the request before anything else reads it. Values may have variables of the
    /// request (docs/guide/rules.md, "Variables").
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

    /// Fields of the origin server's response that do not decide on storing, lifetimes and
    /// variants. Clients still get them, except that what is stored has no ignored Set-Cookie.
    "answer-ignore", IGNORABLE_FIELDS, [], live, example(r#"["Cache-Control", "Expires"]"#)
        -> answer_ignore;

    /// Beginnings of URLs and what replaces them in the origin server's Location, Content-Location
    /// and Refresh, as "FROM TO". The second may have variables.
    "location-rewrite", Kind::List(&Kind::Text("\"FROM TO\", two URLs or paths")), [], live,
        example(r#"["http://app:8080/ https://{host}/"]"#) -> location_rewrite;

    /// Media types in which `substitute` replaces texts, * for anything.
    "substitute-types", PATTERNS, ["text/html"], live, example(r#"["text/*"]"#)
        -> substitution.types;

    /// Finds the texts of `substitute` in either case of ASCII letters.
    "substitute-ignore-case", Kind::Bool, ["false"], live, example("true")
        -> substitution.ignore_case;

    /// Fields set in all responses to clients, stored or not, without being stored. Values may have
    /// variables of request and response (docs/guide/rules.md, "Variables").
    "client-set", FIELDS, [], live, example(r#"["X-Cache: {outcome}"]"#) -> client_set;

    /// Fields removed from all responses to clients; what is stored keeps them.
    "client-remove", FIELD_NAMES, [], live, example(r#"["X-Powered-By"]"#) -> client_remove;

    /// Fields left out of responses to clients, in addition to `client.hide`.
    "hide", HIDDEN, [], live, example(r#"["via"]"#) -> hide;

    /// Share of the requests that the access log has, in percent; metrics count all.
    "log-percent", Kind::Int(0, 100), ["100"], live, example("1") -> log_percent;

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
