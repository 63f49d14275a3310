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

/// In a site: use the system's authorities instead of a file that `[upstream]` names.
const SYSTEM: &str = "system";
/// In a site: use none instead of the value that `[upstream]` names.
const NONE: &str = "none";

/// The connections to origin servers, which all sites share in one pool.
pub const POOL: &[Setting] = fields! {
    Config;

    /// Time to resolve a name and connect to one of its addresses; then 504.
    "upstream.connect-timeout", TIMEOUT, ["10s"], live -> upstream.connect_timeout;

    /// Head start of each address of a name before the next one is tried as well (RFC 8305).
    "upstream.stagger", TIMEOUT, ["250ms"], live -> upstream.stagger;

    /// Time from a request to the head of its answer; then 504.
    "upstream.head-timeout", TIMEOUT, ["60s"], live -> upstream.head_timeout;

    /// Longest silence within a body; then the transfer is cut.
    "upstream.body-timeout", TIMEOUT, ["60s"], live -> upstream.body_timeout;

    /// Largest head of an answer; a longer one becomes a 502.
    "upstream.head-size", Kind::Size(8 * K, M), ["64K"], live -> upstream.head_bytes;

    /// Unused connections kept per origin server and worker.
    "upstream.idle-per-origin", Kind::Int(0, 100_000), ["32"], live -> upstream.idle_per_origin;

    /// Unused connections kept per worker.
    "upstream.idle-total", Kind::Int(0, 1_000_000), ["512"], live -> upstream.idle_total;

    /// How long an unused connection is kept.
    "upstream.idle-timeout", TIMEOUT, ["30s"], live -> upstream.idle_timeout;

    /// How long the addresses of a name are remembered where no lifetime of theirs is known.
    "upstream.dns-ttl", Kind::Time(ms(0), hours(24)), ["30s"], live -> upstream.dns_ttl;

    /// Who looks names up: the system, by all that `nsswitch.conf` names, which tells no lifetimes
    /// ("system"), or name servers, after the hosts file ("dns").
    "upstream.resolver", RESOLVER, ["system"], live -> resolver;

    /// Name servers for `resolver = "dns"`; "system": those of /etc/resolv.conf, with its search
    /// domains, as they are at the start and at each reload.
    "upstream.dns-servers", Kind::List(&Kind::Addr), ["system"], word("system"), live
        -> dns_servers;

    /// Least time for which an answer of name servers is used, whatever its lifetime.
    "upstream.dns-ttl-min", Kind::Time(ms(0), hours(24)), ["1s"], live -> upstream.dns_ttl_min;

    /// Longest time for which it is used.
    "upstream.dns-ttl-max", Kind::Time(ms(0), hours(24)), ["1h"], live -> upstream.dns_ttl_max;
};

for_all_and_site! {
    "upstream", UpstreamSettings, upstream_settings, own;

    /// Whether origin servers are spoken to in HTTP/2: never ("off"), where both sides choose it
    /// within TLS ("auto"), or always, without TLS, too ("prior-knowledge").
    "http2", HTTP2, ["auto"] -> http2;

    /// PEM file with the authorities that may vouch for origin servers; "system": those that the
    /// system believes.
    "tls-ca", Kind::Path, ["system"], word("system")
        => |m, v| m.tls.authorities = unless(v, SYSTEM).map(Into::into);

    /// PEM file with the certificate that origin servers are shown when they ask for one, and those
    /// between it and an authority.
    "tls-certificate", Kind::Path, ["none"], word("none")
        => |m, v| m.certificate = unless(v, NONE).map(Into::into);

    /// PEM file with the key of `tls-certificate`.
    "tls-key", Kind::Path, ["none"], word("none")
        => |m, v| m.key = unless(v, NONE).map(Into::into);

    /// The name that origin servers are asked for (SNI) and that their certificate must have;
    /// "none": the host of their URL.
    "tls-name", Kind::Host, ["none"], word("none") => |m, v| m.tls.name = unless(v, NONE);

    /// Whether an origin server must prove by its certificate that it is who it should be. Without,
    /// any machine on the way can answer in its place, and the answer is stored.
    "tls-verify", Kind::Bool, ["true"] => |m, v| m.tls.unverified = !bool::take(v);

    /// How requests are spread over several origin servers: one after another, to the one with the
    /// fewest requests under way, or by the URL.
    "balance", BALANCE, ["round-robin"] -> group.balance;

    /// So many failures in a row take one of several origin servers out of use; 0: none does.
    "max-fails", Kind::Int(0, 1_000_000), ["3"] -> group.max_fails;

    /// How long a server that failed is out of use; then one request tries it out.
    "fail-timeout", TIMEOUT, ["10s"] -> group.fail_timeout;

    /// What makes a request go to the next origin server, while its client has got nothing. What
    /// may have had an effect goes on only when it is idempotent and has no body. The statuses
    /// count as failures of the server, too.
    "next-upstream", Kind::List(&Kind::OneOf(NEXT)), ["error", "timeout"]
        => |m, v| m.group.next = next(&Vec::take(v));

    /// Origin servers that one request is sent to at most.
    "next-upstream-tries", Kind::Int(1, 64), ["3"] -> group.tries;

    /// Requests that wait at most for a site's servers while all have as many as `max-conns`
    /// permits; further ones get a 503 at once.
    "queue", Kind::Int(0, 1_000_000), ["256"] -> group.queue;

    /// How long a request waits for a server that has room; then 503.
    "queue-timeout", TIMEOUT, ["10s"] -> group.queue_timeout;

    /// What origin servers are asked for from time to time, to take those out of use that do not
    /// answer well; "none": they are not.
    "check-path", Kind::Text("a path"), ["none"], word("none")
        => |m, v| m.check_path = unless(v, NONE);

    /// Time between two such checks of one server.
    "check-interval", TIMEOUT, ["5s"] -> check.interval;

    /// Time that the answer to a check may take, and the connection before it.
    "check-timeout", TIMEOUT, ["2s"] -> check.timeout;

    /// Statuses that say that a server is well.
    "check-status", Kind::List(&Kind::Text("a status such as 200, 200-299 or 2xx")), ["2xx", "3xx"]
        -> check_status;

    /// So many good checks in a row bring a server back.
    "check-rise", Kind::Int(1, 1000), ["2"] -> check.rise;

    /// So many bad checks in a row take a server out of use.
    "check-fall", Kind::Int(1, 1000), ["3"] -> check.fall;
}

/// Returns the text, unless it is the word by which a site selects none.
fn unless(value: Value, none: &str) -> Option<String> {
    <Option<String> as Take>::take(value).filter(|text| text != none)
}
