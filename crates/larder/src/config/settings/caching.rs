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

    /// Whose answers are shared. "careful": an answer to a request that identifies its client
    /// (Cookie, Authorization, a field that names a key, token, session or user) is stored and
    /// shared only if the origin server or a rule states a positive lifetime, or Vary names the
    /// field; stale answers are served only where a positive lifetime was stated; lifetimes are
    /// guessed for 10 minutes at most, and not for URLs with a query nor for feeds; answers with
    /// Set-Cookie are not stored. "rfc": all that RFC 9111 permits.
    "caching.sharing", SHARING, ["careful"], live -> semantics.sharing;

    /// The request fields that identify a client, where sharing is careful; * stands for anything.
    /// "auto" stands for Cookie, Authorization and all whose names speak of a key, token, session,
    /// user, account or certificate; further names may stand beside it.
    "caching.identifying-fields", Kind::List(&Kind::Text("a field's name, * for anything")),
        ["auto"], live -> sharing.identifying;

    /// The effect of a client's reload: a request with no-cache, or with a max-age or min-fresh
    /// that the stored answer does not meet. "obey": each asks the origin server (RFC 9111, 5.2.1).
    /// "share": those that arrive while the origin server is asked share the next request to it.
    /// "ignore": it does nothing. "auto" is "share" on a reverse proxy and "obey" on a forward
    /// proxy.
    "caching.client-reload", CLIENT_RELOAD, ["auto"], word("auto"), live -> client_reload;

    /// How long an answer that says nothing of its lifetime is fresh, in percent of the time since
    /// its last modification (RFC 9111, 4.2.2); 0: not at all.
    "caching.heuristic-percent", Kind::Int(0, 100), ["10"], live -> semantics.heuristic_percent;

    /// The longest such lifetime. "auto" is 10m, or 1d where `caching.sharing` is "rfc".
    "caching.heuristic-max", Kind::Time(ms(0), YEARS), ["auto"], word("auto"), live
        -> sharing.heuristic_max;

    /// Such a lifetime for an answer without a date of modification.
    "caching.heuristic-without-date", Kind::Time(ms(0), YEARS), ["0"], live
        -> semantics.heuristic_without_date;

    /// How stale an answer may be that is served because the origin server cannot be reached (RFC
    /// 9111, 4.2.4), unless it forbids that.
    "caching.stale-when-unreachable", Kind::Time(ms(0), YEARS), ["1d"], live
        -> semantics.stale_when_unreachable;

    /// How long a stale answer that does not say is served while it is asked for anew (RFC 5861).
    "caching.stale-while-revalidate", Kind::Time(ms(0), YEARS), ["0"], live
        -> semantics.stale_while_revalidate;

    /// How long a stale answer that does not say is served when the origin server answers with an
    /// error (RFC 5861).
    "caching.stale-if-error", Kind::Time(ms(0), YEARS), ["0"], live -> semantics.stale_if_error;

    /// How long after a failure of the origin server stale answers that may be given in its place
    /// are given at once, while one request at a time tries the server again. A failure to connect,
    /// or a time-out while the server answered nothing else, counts for all of a host; any other
    /// failure for one URL. 0: each request waits for the server.
    "caching.stale-refresh-time", Kind::Time(ms(0), hours(24)), ["10s"], live
        -> fill.stale_refresh_time;

    /// Whether an origin server's own permission to serve stale counts beside s-maxage, which RFC
    /// 9111 (5.2.2.10) takes for a prohibition.
    "caching.stale-despite-s-maxage", Kind::Bool, ["false"], live
        -> semantics.stale_despite_s_maxage;

    /// Header fields that are obeyed in place of Cache-Control, most specific first (RFC 9213): for
    /// a cache that acts for the origin server. "auto" is CDN-Cache-Control on a reverse proxy and
    /// none on a forward proxy; an empty list is none.
    "caching.targets", Kind::List(&Kind::Header), ["auto"], live -> semantics.targets;

    /// Whether an answer with Set-Cookie may be stored, cookie and all, if the origin server states
    /// a positive lifetime or says public. "auto": only where `caching.sharing` is "rfc".
    "caching.store-set-cookie", Kind::Bool, ["auto"], word("auto"), live
        -> sharing.store_set_cookie;

    /// Whether an answer to a request without Authorization may answer one that has it, without
    /// public, s-maxage or must-revalidate. "auto": only where `caching.sharing` is "rfc".
    "caching.reuse-for-authorized", Kind::Bool, ["auto"], word("auto"), live
        -> sharing.reuse_for_authorized;

    /// Whether a request that selects no stored variant asks the origin server about the others by
    /// their ETags (RFC 9111, 4.3.1). It saves bodies where each variant has an ETag of its own;
    /// where several have the same one, clients get the wrong variant.
    "caching.validate-variants", Kind::Bool, ["false"], live -> semantics.validate_variants;

    /// How long answers from 400 on are fresh for which the origin server says nothing (negative
    /// caching). "auto" makes the same guess for them as for others, as RFC 9111 has it.
    "caching.error-ttl", Kind::Time(Duration::ZERO, YEARS), ["auto"], word("auto"), live
        -> semantics.lifetimes.errors;

    /// How stale an answer may be that is still validated, or served stale; a staler one is fetched
    /// as if nothing were stored.
    "caching.keep", Kind::Time(Duration::ZERO, YEARS), ["unlimited"], word("unlimited"), live
        -> semantics.keep;

    /// The last part of a lifetime, in percent, in which one of eight hits has the answer validated
    /// in the background, so that what is popular does not expire; 0: none.
    "caching.refresh-ahead", Kind::Int(0, 90), ["0"], live -> semantics.refresh_ahead_percent;

    /// When a stale answer is validated: how many stale ones beside it in the cache, of the same
    /// site and directory or written with it, are validated behind it on connections that are open,
    /// so that the next request for them need not wait. Each is a request that the origin server
    /// might not have got. 0: none.
    "caching.validate-neighbours", Kind::Int(0, 64), ["0"], live -> semantics.validate_neighbours;

    /// The most such validations a second of one site; after a pause as many at once.
    "caching.neighbour-rate", Kind::Int(1, MANY), ["20"], live -> fill.neighbour_rate;

    /// Header fields that tell the origin server of the client (RFC 7239). "auto" is
    /// x-forwarded-for, x-forwarded-proto and x-forwarded-host on a reverse proxy and none on a
    /// forward proxy; an empty list is none.
    "forwarded.add", FORWARDED, ["auto"], live -> forwarded_add;

    /// Networks of the proxies in front of a reverse proxy that are believed about their clients:
    /// the fields of `forwarded.trust-fields` are kept and added to. Those of other clients are
    /// removed, for any client could claim any address.
    "forwarded.trust", Kind::List(&Kind::Network), [], live -> forwarded.trust;

    /// The fields that are believed of the proxies in `forwarded.trust`. All other fields by which
    /// a client could claim an address, a user, a host or a path are removed from their requests,
    /// too, so name here what they do set. What a field says of host, port or path is part of the
    /// key: each value has copies of its own. The scheme of X-Forwarded-Proto is that of the URL in
    /// the key. A family of fields that name users may be given with * behind it, such as
    /// X-Auth-Request-*.
    "forwarded.trust-fields", TRUSTED, ["X-Forwarded-For", "X-Forwarded-Proto"], live
        -> forwarded.trust_fields;

    /// Whether origin servers are sent Via (RFC 9110, 7.6.3). Some compress nothing for requests
    /// that have it: nginx unless `gzip_proxied` says otherwise. With false they are sent CDN-Loop
    /// (RFC 8586) in its place, by which a loop is still noticed, and no Via of other proxies.
    "forwarded.via", Kind::Bool, ["true"], live -> forwarded.via;
};
