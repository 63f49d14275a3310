//! Declarations for origin servers: the keys of `[upstream]`, and those that a `[[site]]` may set
//! for itself.

use upstream::servers::balance::Balance;
use upstream::settings::endpoint::Http2;

use super::common::{K, M, Setting, TIMEOUT, hours, ms};
use crate::config::configuration::Config;
use crate::config::configuration::Resolver;
use crate::config::setting::{Take, choice, fields, for_all_and_site};
use crate::config::upstreams::{NEXT, UpstreamSettings, next};
use crate::config::value::{Kind, Value};

choice!(RESOLVER for Resolver { "system" => Resolver::System, "dns" => Resolver::Dns });
choice!(HTTP2 for Http2 {
    "off" => Http2::Off,
    "auto" => Http2::Negotiated,
    "prior-knowledge" => Http2::PriorKnowledge,
});
choice!(BALANCE for Balance {
    "round-robin" => Balance::RoundRobin,
    "least-connections" => Balance::LeastConnections,
    "url-hash" => Balance::UrlHash,
});

/// A program that is linked statically cannot load the modules of the system's resolver.
const RESOLVER_DEFAULT: &str = if cfg!(target_feature = "crt-static") { "dns" } else { "system" };

/// In a site: use the system's authorities instead of a file that `[upstream]` names.
const SYSTEM: &str = "system";
/// In a site: use none instead of the value that `[upstream]` names.
const NONE: &str = "none";

/// The connections to origin servers, which all sites share in one pool.
pub const POOL: &[Setting] = fields! {
    Config;

    /// Time to resolve a name and connect to one of its addresses; then 504.
    "upstream.connect-timeout", TIMEOUT, ["10s"], live -> upstream.connect_timeout;

    /// Head start of each address of a name before the next is tried as well (RFC 8305).
    "upstream.stagger", TIMEOUT, ["250ms"], live -> upstream.stagger;

    /// Time from a request to its response head; then 504.
    "upstream.head-timeout", TIMEOUT, ["60s"], live -> upstream.head_timeout;

    /// Longest pause within a body; then the transfer is cut.
    "upstream.body-timeout", TIMEOUT, ["60s"], live -> upstream.body_timeout;

    /// Largest response head; a longer one becomes a 502.
    "upstream.head-size", Kind::Size(8 * K, M), ["64K"], live -> upstream.head_bytes;

    /// Unused connections kept per origin server and worker.
    "upstream.idle-per-origin", Kind::Int(0, 100_000), ["32"], live -> upstream.idle_per_origin;

    /// Unused connections kept per worker.
    "upstream.idle-total", Kind::Int(0, 1_000_000), ["512"], live -> upstream.idle_total;

    /// How long an unused connection is kept.
    "upstream.idle-timeout", TIMEOUT, ["30s"], live -> upstream.idle_timeout;

    /// How long addresses of unknown lifetime are remembered.
    "upstream.dns-ttl", Kind::Time(ms(0), hours(24)), ["30s"], live -> upstream.dns_ttl;

    /// Name resolution: the system's, by `nsswitch.conf`, without lifetimes ("system"), or name
    /// servers, after the hosts file ("dns"), which is the default and only choice of the packages.
    "upstream.resolver", RESOLVER, [RESOLVER_DEFAULT], live -> resolver;

    /// Name servers for `resolver = "dns"`; "system": those of /etc/resolv.conf with its search
    /// domains, read at start and reload.
    "upstream.dns-servers", Kind::List(&Kind::Addr), ["system"], word("system"), live
        -> dns_servers;

    /// Shortest use of a name servers' response, whatever its lifetime.
    "upstream.dns-ttl-min", Kind::Time(ms(0), hours(24)), ["1s"], live -> upstream.dns_ttl_min;

    /// Longest use of such a response.
    "upstream.dns-ttl-max", Kind::Time(ms(0), hours(24)), ["1h"], live -> upstream.dns_ttl_max;
};

for_all_and_site! {
    "upstream", UpstreamSettings, upstream_settings, own;

    /// HTTP/2 to origin servers: never ("off"), if TLS negotiates it ("auto"), or always, even
    /// without TLS ("prior-knowledge").
    "http2", HTTP2, ["auto"] -> http2;

    /// PEM file with the authorities trusted for origin servers; "system": the system's.
    "tls-ca", Kind::Path, ["system"], word("system")
        => |m, v| m.tls.authorities = unless(v, SYSTEM).map(Into::into);

    /// PEM file with the client certificate for origin servers that ask for one, and its
    /// intermediates.
    "tls-certificate", Kind::Path, ["none"], word("none")
        => |m, v| m.certificate = unless(v, NONE).map(Into::into);

    /// PEM file with the key of `tls-certificate`.
    "tls-key", Kind::Path, ["none"], word("none")
        => |m, v| m.key = unless(v, NONE).map(Into::into);

    /// Name sent to origin servers (SNI) and required in their certificate; "none": the host of
    /// their URL.
    "tls-name", Kind::Host, ["none"], word("none") => |m, v| m.tls.name = unless(v, NONE);

    /// Verifies the certificates of origin servers. Without, any machine on the way can
    /// respond instead, and its response is stored.
    "tls-verify", Kind::Bool, ["true"] => |m, v| m.tls.unverified = !bool::take(v);

    /// Choice among several origin servers: in turn, fewest running requests, or by URL.
    "balance", BALANCE, ["round-robin"] -> group.balance;

    /// Failures in a row that take one of several origin servers out of use; 0: never.
    "max-fails", Kind::Int(0, 1_000_000), ["3"] -> group.max_fails;

    /// Time that a failed server is out of use; then one request tries it.
    "fail-timeout", TIMEOUT, ["10s"] -> group.fail_timeout;

    /// Failures after which a request goes to the next origin server (docs/guide/upstreams.md). The
    /// statuses count as failures of the server, too, except 403 and 404.
    "next-upstream", Kind::List(&Kind::OneOf(NEXT)), ["error", "timeout"]
        => |m, v| m.group.next = next(&Vec::take(v));

    /// Most origin servers that one request is sent to.
    "next-upstream-tries", Kind::Int(1, 64), ["3"] -> group.tries;

    /// Most requests that wait for a site's servers while all have reached `max-conns`; further
    /// ones get 503 at once.
    "queue", Kind::Int(0, 1_000_000), ["256"] -> group.queue;

    /// Longest wait in that queue; then 503.
    "queue-timeout", TIMEOUT, ["10s"] -> group.queue_timeout;

    /// Path requested from origin servers regularly, to take those out of use that fail; "none": no
    /// checks.
    "check-path", Kind::Text("a path"), ["none"], word("none")
        => |m, v| m.check_path = unless(v, NONE);

    /// Time between two checks of one server.
    "check-interval", TIMEOUT, ["5s"] -> check.interval;

    /// Time to connect for a check, and again for its response.
    "check-timeout", TIMEOUT, ["2s"] -> check.timeout;

    /// Statuses of a healthy server.
    "check-status", Kind::List(&Kind::Text("a status such as 200, 200-299 or 2xx")), ["2xx", "3xx"]
        -> check_status;

    /// Good checks in a row that bring a server back.
    "check-rise", Kind::Int(1, 1000), ["2"] -> check.rise;

    /// Bad checks in a row that take a server out of use.
    "check-fall", Kind::Int(1, 1000), ["3"] -> check.fall;
}

/// Returns the text, unless it is the word by which a site selects none.
fn unless(value: Value, none: &str) -> Option<String> {
    <Option<String> as Take>::take(value).filter(|text| text != none)
}
