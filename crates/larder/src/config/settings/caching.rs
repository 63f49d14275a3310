//! Declarations: responses from the cache, and the fields sent to origin servers.

use std::time::Duration;

use semantics::trusted::TrustedField;
use semantics::{ClientReload, Sharing};

use super::common::{MANY, Setting, YEARS, hours, ms};
use crate::config::configuration::Config;
use crate::config::setting::{choice, fields};
use crate::config::value::{Checked, Kind};

const FORWARDED: Kind = Kind::List(&Kind::OneOf(&[
    "auto",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
]));

choice!(SHARING for Sharing { "careful" => Sharing::Careful, "rfc" => Sharing::Rfc });
choice!(CLIENT_RELOAD for ClientReload {
    "obey" => ClientReload::Obey,
    "share" => ClientReload::Share,
    "ignore" => ClientReload::Ignore,
});
const TRUSTED: Kind = Kind::List(&Kind::Checked(&Checked {
    check: Checked::read::<TrustedField>,
    expected: "a field that is otherwise removed from requests",
    value_name: "FIELD",
    example: "X-Forwarded-Host",
}));

/// The tables `[caching]` and `[forwarded]`.
pub const SETTINGS: &[Setting] = fields! {
    Config;

    /// Which responses are shared: "careful" (docs/guide/applications.md), or all that RFC 9111
    /// permits ("rfc").
    "caching.sharing", SHARING, ["careful"], live -> semantics.sharing;

    /// Request fields that identify a client where sharing is careful; * stands for anything.
    /// "auto": Cookie, Authorization and names that speak of a key, token, session, user, account
    /// or certificate.
    "caching.identifying-fields", Kind::List(&Kind::Text("a field's name, * for anything")),
        ["auto"], live -> sharing.identifying;

    /// Effect of a request with no-cache, or with a max-age or min-fresh that the stored response
    /// does not meet: each asks the origin server ("obey"), those that arrive meanwhile share the
    /// next request to it ("share"), or none. "auto": "share" on a reverse, "obey" on a forward
    /// proxy.
    "caching.client-reload", CLIENT_RELOAD, ["auto"], word("auto"), live -> client_reload;

    /// Freshness lifetime of a response without a stated one, in percent of the time since its last
    /// modification (RFC 9111, 4.2.2); 0: none.
    "caching.heuristic-percent", Kind::Int(0, 100), ["10"], live -> semantics.heuristic_percent;

    /// Longest such lifetime. "auto" is 10m, or 1d where `caching.sharing` is "rfc".
    "caching.heuristic-max", Kind::Time(ms(0), YEARS), ["auto"], word("auto"), live
        -> sharing.heuristic_max;

    /// Freshness lifetime of a response without a stated one and without Last-Modified.
    "caching.heuristic-without-date", Kind::Time(ms(0), YEARS), ["0"], live
        -> semantics.heuristic_without_date;

    /// Longest staleness of a response that is served because the origin server cannot be reached
    /// (RFC 9111, 4.2.4), unless the response forbids it.
    "caching.stale-when-unreachable", Kind::Time(ms(0), YEARS), ["1d"], live
        -> semantics.stale_when_unreachable;

    /// How long a stale response that does not state it is served while it is revalidated (RFC
    /// 5861).
    "caching.stale-while-revalidate", Kind::Time(ms(0), YEARS), ["0"], live
        -> semantics.stale_while_revalidate;

    /// How long a stale response that does not state it is served when the origin server answers
    /// with an error (RFC 5861).
    "caching.stale-if-error", Kind::Time(ms(0), YEARS), ["0"], live -> semantics.stale_if_error;

    /// Time after a failure during which permitted stale responses are served at once, while one
    /// request at a time tries the server (docs/guide/upstreams.md). 0: every request waits.
    "caching.stale-refresh-time", Kind::Time(ms(0), hours(24)), ["10s"], live
        -> fill.stale_refresh_time;

    /// Lets an origin server's own permission to serve stale count beside s-maxage, which forbids
    /// it by RFC 9111, 5.2.2.10.
    "caching.stale-despite-s-maxage", Kind::Bool, ["false"], live
        -> semantics.stale_despite_s_maxage;

    /// Response fields that replace Cache-Control, most specific first (RFC 9213). "auto" is
    /// CDN-Cache-Control on a reverse proxy and none on a forward proxy. X-Accel-Expires is read as
    /// nginx reads it.
    "caching.targets", Kind::List(&Kind::Header), ["auto"], live -> semantics.targets;

    /// Stores a response with Set-Cookie, cookie included, if the origin server states a positive
    /// lifetime or public. "auto": only where `caching.sharing` is "rfc".
    "caching.store-set-cookie", Kind::Bool, ["auto"], word("auto"), live
        -> sharing.store_set_cookie;

    /// Lets a response to a request without Authorization serve one that has it, without public,
    /// s-maxage or must-revalidate. "auto": only where `caching.sharing` is "rfc".
    "caching.reuse-for-authorized", Kind::Bool, ["auto"], word("auto"), live
        -> sharing.reuse_for_authorized;

    /// Offers the ETags of the other variants to the origin server if a request matches no stored
    /// one (RFC 9111, 4.3.1). If several variants share an ETag, clients get the wrong one.
    "caching.validate-variants", Kind::Bool, ["false"], live -> semantics.validate_variants;

    /// Freshness lifetime of responses from 400 on that state none (negative caching). "auto" uses
    /// the same heuristic as for others, as in RFC 9111.
    "caching.error-ttl", Kind::Time(Duration::ZERO, YEARS), ["auto"], word("auto"), live
        -> semantics.lifetimes.errors;

    /// Longest staleness of a response that is still revalidated or served stale; beyond it, it is
    /// fetched as if nothing were stored.
    "caching.keep", Kind::Time(Duration::ZERO, YEARS), ["unlimited"], word("unlimited"), live
        -> semantics.keep;

    /// Last part of a lifetime, in percent, in which one of eight hits revalidates the response in
    /// the background; 0: none.
    "caching.refresh-ahead", Kind::Int(0, 90), ["0"], live -> semantics.refresh_ahead_percent;

    /// Stale neighbours in the cache that are revalidated after a stale response
    /// (docs/guide/rules.md). Each is an additional request to the origin server. 0: none.
    "caching.validate-neighbours", Kind::Int(0, 64), ["0"], live -> semantics.validate_neighbours;

    /// Most such revalidations a second for one site; after a pause as many at once.
    "caching.neighbour-rate", Kind::Int(1, MANY), ["20"], live -> fill.neighbour_rate;

    /// Request fields that describe the client to the origin server (RFC 7239). "auto" is all three
    /// x-forwarded-* on a reverse proxy and none on a forward proxy.
    "forwarded.add", FORWARDED, ["auto"], live -> forwarded_add;

    /// Networks of trusted proxies in front of a reverse proxy: their `forwarded.trust-fields` are
    /// kept and added to. Those of other clients are removed, since any client could claim any
    /// address.
    "forwarded.trust", Kind::List(&Kind::Network), [], live -> forwarded.trust;

    /// Fields believed of the proxies in `forwarded.trust` (docs/guide/security.md). A prefix may
    /// end in *, such as X-Auth-Request-*.
    "forwarded.trust-fields", TRUSTED, ["X-Forwarded-For", "X-Forwarded-Proto"], live
        -> forwarded.trust_fields;

    /// Sends Via to origin servers (RFC 9110, 7.6.3), some of which do not compress then. false
    /// sends CDN-Loop (RFC 8586), which still detects loops, and drops the Via of other proxies.
    "forwarded.via", Kind::Bool, ["true"], live -> forwarded.via;
};
