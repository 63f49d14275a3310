//! The keys about origin servers: those of `[upstream]`, and those that a `[[site]]` may have
//! otherwise for its own.

use super::{BALANCE, HTTP2, K, M, Setting, SiteField, TIMEOUT, hours, ms};
use crate::config::loaded::Resolver;
use crate::config::setting::{Take, misdeclared};
use crate::config::upstreams::NEXT;
use crate::config::value::{Kind, Value};

choice!(RESOLVER for Resolver { "system" => Resolver::System, "dns" => Resolver::Dns });

/// The connections to origin servers, of one pool for all sites.
pub(super) const POOL: &[Setting] = &[
    Setting::new(
        "upstream.connect-timeout",
        TIMEOUT,
        &["10s"],
        |c, v| c.upstream.connect_timeout = Take::take(v),
        "Time to resolve a name and connect to one of its addresses; then 504.",
    )
    .live(),
    Setting::new(
        "upstream.stagger",
        TIMEOUT,
        &["250ms"],
        |c, v| c.upstream.stagger = Take::take(v),
        "Head start of each address of a name before the next one is tried as well (RFC 8305).",
    )
    .live(),
    Setting::new(
        "upstream.head-timeout",
        TIMEOUT,
        &["60s"],
        |c, v| c.upstream.head_timeout = Take::take(v),
        "Time from a request to the head of its answer; then 504.",
    )
    .live(),
    Setting::new(
        "upstream.body-timeout",
        TIMEOUT,
        &["60s"],
        |c, v| c.upstream.body_timeout = Take::take(v),
        "Longest silence within a body; then the transfer is cut.",
    )
    .live(),
    Setting::new(
        "upstream.head-size",
        Kind::Size(8 * K, M),
        &["64K"],
        |c, v| c.upstream.head_size = Take::take(v),
        "Largest head of an answer; a longer one becomes a 502.",
    )
    .live(),
    Setting::new(
        "upstream.idle-per-origin",
        Kind::Int(0, 100_000),
        &["32"],
        |c, v| c.upstream.idle_per_origin = Take::take(v),
        "Unused connections kept per origin server and worker.",
    )
    .live(),
    Setting::new(
        "upstream.idle-total",
        Kind::Int(0, 1_000_000),
        &["512"],
        |c, v| c.upstream.idle_total = Take::take(v),
        "Unused connections kept per worker.",
    )
    .live(),
    Setting::new(
        "upstream.idle-timeout",
        TIMEOUT,
        &["30s"],
        |c, v| c.upstream.idle_timeout = Take::take(v),
        "How long an unused connection is kept.",
    )
    .live(),
    Setting::new(
        "upstream.dns-ttl",
        Kind::Time(ms(0), hours(24)),
        &["30s"],
        |c, v| c.upstream.dns_ttl = Take::take(v),
        "How long the addresses of a name are remembered where no lifetime of theirs is known.",
    )
    .live(),
    Setting::new(
        "upstream.resolver",
        RESOLVER,
        &["system"],
        |c, v| c.upstream.resolver = Take::take(v),
        "Who looks names up: the system, by all that `nsswitch.conf` names, which tells no \
         lifetimes (\"system\"), or name servers, after the hosts file (\"dns\").",
    )
    .live(),
    Setting::new(
        "upstream.dns-servers",
        Kind::List(&Kind::Addr),
        &["system"],
        |c, v| c.upstream.dns_servers = Take::take(v),
        "Name servers for `resolver = \"dns\"`; \"system\": those of /etc/resolv.conf, with its \
         search domains, as they are at the start and at each reload.",
    )
    .word("system")
    .live(),
    Setting::new(
        "upstream.dns-ttl-min",
        Kind::Time(ms(0), hours(24)),
        &["1s"],
        |c, v| c.upstream.dns_ttl_min = Take::take(v),
        "Least time for which an answer of name servers is used, whatever its lifetime.",
    )
    .live(),
    Setting::new(
        "upstream.dns-ttl-max",
        Kind::Time(ms(0), hours(24)),
        &["1h"],
        |c, v| c.upstream.dns_ttl_max = Take::take(v),
        "Longest time for which it is used.",
    )
    .live(),
];

/// Declares keys that `[upstream]` has for all origin servers and a site for its own.
macro_rules! manner {
    ($(
        $field:ident $key:literal $kind:expr,
            $($default:literal)|* $(or $word:literal)?,
            $text:expr;
    )*) => {
        /// What holds for all origin servers.
        pub(super) const FOR_ALL: &[Setting] = &[$(
            Setting::new(
                concat!("upstream.", $key),
                $kind,
                &[$($default),*],
                |c, v| c.upstream.manner.$field = Take::take(v),
                $text,
            )
            $(.word($word))?
            .live(),
        )*];

        /// What holds for those of one site.
        pub(super) const FOR_SITE: &[SiteField] = &[$(
            SiteField::new(
                $key,
                $kind,
                &["inherit"],
                |s, v| s.manner.$field = Take::take(v),
                concat!("As `", $key, "` of `[upstream]`; \"inherit\" takes that."),
            )
            .word("inherit"),
        )*];
    };
}

manner! {
    http2 "http2" HTTP2, "auto",
        "Whether origin servers are spoken to in HTTP/2: never (\"off\"), where both sides choose \
         it within TLS (\"auto\"), or always, without TLS, too (\"prior-knowledge\").";
    tls_ca "tls-ca" Kind::Path, "system" or "system",
        "PEM file with the authorities that may vouch for origin servers; \"system\": those that \
         the system believes.";
    tls_certificate "tls-certificate" Kind::Path, "none" or "none",
        "PEM file with the certificate that origin servers are shown when they ask for one, and \
         those between it and an authority.";
    tls_key "tls-key" Kind::Path, "none" or "none",
        "PEM file with the key of `tls-certificate`.";
    tls_name "tls-name" Kind::Host, "none" or "none",
        "The name that origin servers are asked for (SNI) and that their certificate must have; \
         \"none\": the host of their URL.";
    tls_verify "tls-verify" Kind::Bool, "true",
        "Whether an origin server must prove by its certificate that it is who it should be. \
         Without, anybody on the way can answer in its place, and the answer is stored.";
    balance "balance" BALANCE, "round-robin",
        "How requests are spread over several origin servers: one after another, to the one with \
         the fewest requests under way, or by the URL.";
    max_fails "max-fails" Kind::Int(0, 1_000_000), "3",
        "So many failures in a row take one of several origin servers out of use; 0: none does.";
    fail_timeout "fail-timeout" TIMEOUT, "10s",
        "How long a server that failed is out of use; then one request tries it out.";
    next_upstream "next-upstream" Kind::List(&Kind::OneOf(NEXT)), "error" | "timeout",
        "What makes a request go to the next origin server, while its client has got nothing. What \
         may have had an effect goes on only when it is idempotent and has no body. The statuses \
         count as failures of the server, too.";
    next_upstream_tries "next-upstream-tries" Kind::Int(1, 64), "3",
        "Origin servers that one request is sent to at most.";
    queue "queue" Kind::Int(0, 1_000_000), "256",
        "Requests that wait at most for a site's servers while all have as many as `max-conns` \
         permits; further ones get a 503 at once.";
    queue_timeout "queue-timeout" TIMEOUT, "10s",
        "How long a request waits for a server that has room; then 503.";
    check_path "check-path" Kind::Text("a path"), "none" or "none",
        "What origin servers are asked for from time to time, to take those out of use that do not \
         answer well; \"none\": they are not.";
    check_interval "check-interval" TIMEOUT, "5s",
        "Time between two such checks of one server.";
    check_timeout "check-timeout" TIMEOUT, "2s",
        "Time that the answer to a check may take, and the connection before it.";
    check_status "check-status" Kind::List(&Kind::Text("a status such as 200, 200-299 or 2xx")),
        "2xx" | "3xx",
        "Statuses that say that a server is well.";
    check_rise "check-rise" Kind::Int(1, 1000), "2",
        "So many good checks in a row bring a server back.";
    check_fall "check-fall" Kind::Int(1, 1000), "3",
        "So many bad checks in a row take a server out of use.";
}
