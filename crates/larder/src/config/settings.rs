//! The declaration of every setting, once: its name, what it accepts, its default, whether it can
//! change while Larder runs, and what it does.
//!
//! The command line, its help, the configuration file, the reload on SIGHUP and the check of
//! `docs/configuration.md` all read these tables, so they cannot disagree.

use std::time::Duration;

use proxy::upstream::balance::Balance;
use proxy::upstream::origin::Http2;

use crate::config::loaded::{Action, Config, HostHeader, KeyHost, LogFormat, Rule, Site};
use crate::config::setting::{Field, Take, misdeclared};
use crate::config::value::{Kind, Value};

/// A key outside the repeated tables.
pub type Setting = Field<Config>;

type SiteField = Field<Site>;
type RuleField = Field<Rule>;

/// The words of a choice and what they stand for, in one place.
macro_rules! choice {
    ($name:ident for $type:ty { $($word:literal => $variant:expr),* $(,)? }) => {
        const $name: Kind = Kind::OneOf(&[$($word),*]);
        impl Take for $type {
            fn take(value: Value) -> $type {
                match &value {
                    $(Value::Text(word) if word == $word => $variant,)*
                    other => misdeclared(other),
                }
            }
        }
    };
}

choice!(LOG_FORMAT for LogFormat {
    "combined" => LogFormat::Combined,
    "squid" => LogFormat::Squid,
    "json" => LogFormat::Json,
});
const PRESET: Kind = Kind::OneOf(store::PRESETS);
const LAYOUT: Kind = Kind::OneOf(store::LayoutName::NAMES);
choice!(ACTION for Action { "allow" => Action::Allow, "deny" => Action::Deny });
choice!(HOST_HEADER for HostHeader {
    "client" => HostHeader::Client,
    "upstream" => HostHeader::Upstream,
});
choice!(KEY_HOST for KeyHost { "site" => KeyHost::Site, "client" => KeyHost::Client });
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
const LOG_LEVEL: Kind = Kind::OneOf(&["error", "warn", "info", "debug"]);

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const MANY: u64 = u32::MAX as u64;
const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}
/// The longest lifetime that HTTP can express, 2^31 seconds.
pub(crate) const YEARS: Duration = Duration::from_secs(1 << 31);
/// A time-out: never zero, which would refuse everything.
const TIMEOUT: Kind = Kind::Time(ms(10), hours(24));

mod client;
mod clients;
mod neighbours;
mod purging;
mod storing;
mod tables;
mod tunnels;
mod upstream;

pub use crate::config::request_rule::RULE;
pub use clients::{CERTIFICATE, LISTENER};
pub use tables::{ACCESS, SITE};

/// The parts of [`SETTINGS`].
const PARTS: &[&[Setting]] = &[
    GENERAL,
    storing::SETTINGS,
    CACHING,
    client::SETTINGS,
    upstream::POOL,
    upstream::FOR_ALL,
    FILL,
    clients::SETTINGS,
    purging::SETTINGS,
];

/// Every setting outside the repeated tables, in the order of the documentation.
pub const SETTINGS: &[Setting] = &joined::<Config, { count(PARTS) }>(PARTS);

/// How many fields there are in all parts of a table.
const fn count<T>(parts: &[&[Field<T>]]) -> usize {
    let (mut part, mut sum) = (0, 0);
    while part < parts.len() {
        sum += parts[part].len();
        part += 1;
    }
    sum
}

/// The parts of a table as one: a topic declares its own in a file of its own.
const fn joined<T, const N: usize>(parts: &[&[Field<T>]]) -> [Field<T>; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[at] = parts[part][i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    all
}

/// What concerns the whole, the caches and the rules of caching.
const GENERAL: &[Setting] = &[
    Setting::new(
        "listen",
        Kind::List(&Kind::Listen),
        &["127.0.0.1:3128"],
        |c, v| c.listen = Take::take(v),
        "Address and port, or Unix socket, to serve on; may be given several times. `:3128`, \
         `*:3128` and `3128` are all addresses of the machine, IPv6 and IPv4, as `[::]:3128` is; \
         `0.0.0.0:3128` is those of IPv4; `localhost:3128` is 127.0.0.1. TLS, HTTP/2 \
         without TLS and the PROXY protocol need a [[listener]] table; where there are any, the \
         default is none.",
    )
    .flag(),
    Setting::new(
        "reverse",
        Kind::List(&Kind::Origin),
        &["none"],
        |c, v| c.reverse = Take::take(v),
        "Serve as a reverse proxy for this origin server, or for several of the same content \
         (docs/upstreams.md), open to all clients, instead of as a forward proxy. Sites for single \
         hosts are added in [[site]] tables.",
    )
    .word("none")
    .flag(),
    Setting::new(
        "reverse-host",
        HOST_HEADER,
        &["client"],
        |c, v| c.reverse_host = Take::take(v),
        "The Host that the origin server of `reverse` is sent: \"client\" passes on the client's, \
         \"upstream\" names the origin server itself.",
    ),
    Setting::new(
        "cache",
        Kind::List(&Kind::Path),
        &["larder.cache"],
        |c, v| c.cache = Take::take(v),
        "File or block device that holds the cache; a file that is missing or empty is created. \
         May be given several times: the objects are spread over all.",
    )
    .flag(),
    Setting::new(
        "cache-size",
        Kind::Size(store::CACHE_SIZE_MIN, 1 << 50),
        &["auto"],
        |c, v| c.cache_size = Take::take(v),
        "Size of each cache file. \"auto\" keeps the size of an existing cache and creates a new \
         one with 10G, but at most a tenth of the free space. A larger size grows an existing \
         cache; it never shrinks.",
    )
    .word("auto")
    .flag(),
    Setting::new(
        "memory",
        Kind::Size(16 * M, 1 << 46),
        &["256M"],
        |c, v| c.memory = Take::take(v),
        "Memory for the index, the objects kept in memory and the buffers together.",
    )
    .flag(),
    Setting::new(
        "preset",
        PRESET,
        &["larder"],
        |c, v| c.preset = Take::take(v),
        "The set of store parameters that settings which are \"auto\" are taken from: the \
         product's own, or the system of a paper (docs/configuration.md, \"Presets\").",
    )
    .flag(),
    Setting::new(
        "layout",
        LAYOUT,
        &["auto"],
        |c, v| c.layout = Take::take(v),
        "How objects are laid out on the device (docs/layouts.md): in clusters that are reclaimed \
         whole, or in slots that are reclaimed object by object, round and round (\"stream\"), in \
         the largest free piece (\"unified\") or by size (\"buddy\"). \"auto\" is the preset's for \
         a new cache, and for an existing one what it was created with.",
    )
    .word("auto")
    .flag()
    .at_creation(),
    Setting::new(
        "admin",
        Kind::Addr,
        &["127.0.0.1:3129"],
        |c, v| c.admin = Take::take(v),
        "Address and port of the admin interface: /healthz, /readyz, /metrics, /purge. /readyz is \
         200 also when a cache cannot be used, for requests are served; its text says so, and \
         larder_cache_online is 0 in /metrics.",
    )
    .word("off")
    .flag(),
    Setting::new(
        "admin-names",
        Kind::List(&Kind::Host),
        &[],
        |c, v| c.admin_names = Take::take(v),
        "Names that a request to the admin interface may carry as Host, besides localhost and IP \
         addresses.",
    ),
    Setting::new(
        "admin-token",
        Kind::Text("a token"),
        &["none"],
        |c, v| c.admin_token = Take::take(v),
        "A request to the admin interface must carry this token as `Authorization: Bearer TOKEN`.",
    )
    .word("none"),
    Setting::new(
        "admin-token-file",
        Kind::Path,
        &["none"],
        |c, v| c.admin_token_file = Take::take(v),
        "A file that holds the token of the admin interface; white space around it is dropped.",
    )
    .word("none"),
    Setting::new(
        "access-log",
        Kind::Path,
        &["off"],
        |c, v| c.access_log = Take::take(v),
        "File that gets one line per request, \"-\" for standard output. SIGHUP reopens it.",
    )
    .word("off")
    .flag(),
    Setting::new(
        "log-format",
        LOG_FORMAT,
        &["combined"],
        |c, v| c.log_format = Take::take(v),
        "Format of the access log: the combined format of web servers, Squid's native one, or \
         JSON lines.",
    )
    .flag(),
    Setting::new(
        "log-level",
        LOG_LEVEL,
        &["info"],
        |c, v| c.log_level = Take::take(v),
        "The least severe messages written to standard error.",
    )
    .live(),
    Setting::new(
        "workers",
        Kind::Int(1, 1024),
        &["auto"],
        |c, v| c.workers = Take::take(v),
        "Number of worker threads. \"auto\" is the number of cores that this process may use \
         (affinity and cgroup quota).",
    )
    .word("auto")
    .flag(),
    Setting::new(
        "allow",
        Kind::List(&Kind::Network),
        &[],
        |c, v| c.allow = Take::take(v),
        "Network whose clients may use the forward proxy, besides this machine; may be given \
         several times.",
    )
    .flag()
    .live(),
    Setting::new(
        "user",
        Kind::Text("the name of a user"),
        &["none"],
        |c, v| c.user = Take::take(v),
        "When started as root: the user to become once the caches and ports are open.",
    )
    .word("none")
    .flag(),
    Setting::new(
        "connect-ports",
        Kind::List(&Kind::Ports),
        &["443"],
        |c, v| c.connect_ports = Take::take(v),
        "Ports to which CONNECT may open a tunnel.",
    )
    .live(),
    Setting::new(
        "pseudonym",
        Kind::Token,
        &["larder"],
        |c, v| c.pseudonym = Take::take(v),
        "The name of this proxy in Via and Cache-Status. Proxies behind one another need different \
         ones.",
    ),
    Setting::new(
        "drain",
        Kind::Time(ms(0), hours(1)),
        &["30s"],
        |c, v| c.drain = Take::take(v),
        "How long running requests and tunnels may go on after SIGTERM or SIGINT; what is left \
         then is cut.",
    )
    .live(),
];

/// What is answered from the cache.
const CACHING: &[Setting] = &[
    Setting::new(
        "caching.heuristic-percent",
        Kind::Int(0, 100),
        &["10"],
        |c, v| c.caching.heuristic_percent = Take::take(v),
        "How long an answer that says nothing of its lifetime is fresh, in percent of the time \
         since its last modification (RFC 9111, 4.2.2); 0: not at all.",
    )
    .live(),
    Setting::new(
        "caching.heuristic-max",
        Kind::Time(ms(0), YEARS),
        &["1d"],
        |c, v| c.caching.heuristic_max = Take::take(v),
        "The longest such lifetime.",
    )
    .live(),
    Setting::new(
        "caching.heuristic-without-date",
        Kind::Time(ms(0), YEARS),
        &["0"],
        |c, v| c.caching.heuristic_without_date = Take::take(v),
        "Such a lifetime for an answer without a date of modification.",
    )
    .live(),
    Setting::new(
        "caching.stale-when-unreachable",
        Kind::Time(ms(0), YEARS),
        &["1d"],
        |c, v| c.caching.stale_when_unreachable = Take::take(v),
        "How stale an answer may be that is served because the origin server cannot be reached \
         (RFC 9111, 4.2.4), unless it forbids that.",
    )
    .live(),
    Setting::new(
        "caching.stale-while-revalidate",
        Kind::Time(ms(0), YEARS),
        &["0"],
        |c, v| c.caching.stale_while_revalidate = Take::take(v),
        "How long a stale answer that does not say is served while it is asked for anew (RFC \
         5861).",
    )
    .live(),
    Setting::new(
        "caching.stale-if-error",
        Kind::Time(ms(0), YEARS),
        &["0"],
        |c, v| c.caching.stale_if_error = Take::take(v),
        "How long a stale answer that does not say is served when the origin server answers with \
         an error (RFC 5861).",
    )
    .live(),
    Setting::new(
        "caching.stale-despite-s-maxage",
        Kind::Bool,
        &["false"],
        |c, v| c.caching.stale_despite_s_maxage = Take::take(v),
        "Whether an origin server's own permission to serve stale counts beside s-maxage, which \
         RFC 9111 (5.2.2.10) takes for a prohibition.",
    )
    .live(),
    Setting::new(
        "caching.targets",
        Kind::List(&Kind::Header),
        &["auto"],
        |c, v| c.caching.targets = Take::take(v),
        "Header fields that are obeyed in place of Cache-Control, most specific first (RFC 9213): \
         for a cache that acts for the origin server. \"auto\" is CDN-Cache-Control on a reverse \
         proxy and none on a forward proxy; an empty list is none.",
    )
    .live(),
    Setting::new(
        "caching.store-set-cookie",
        Kind::Bool,
        &["true"],
        |c, v| c.caching.store_set_cookie = Take::take(v),
        "Whether an answer with Set-Cookie may be stored.",
    )
    .live(),
    Setting::new(
        "caching.reuse-for-authorized",
        Kind::Bool,
        &["true"],
        |c, v| c.caching.reuse_for_authorized = Take::take(v),
        "Whether an answer to a request without Authorization may answer one that has it.",
    )
    .live(),
    Setting::new(
        "caching.error-ttl",
        Kind::Time(Duration::ZERO, YEARS),
        &["auto"],
        |c, v| c.caching.error_ttl = Take::take(v),
        "How long answers from 400 on are fresh for which the origin server says nothing (negative \
         caching). \"auto\" makes the same guess for them as for others, as RFC 9111 has it.",
    )
    .word("auto")
    .live(),
    Setting::new(
        "caching.keep",
        Kind::Time(Duration::ZERO, YEARS),
        &["unlimited"],
        |c, v| c.caching.keep = Take::take(v),
        "How stale an answer may be that is still validated, or served stale; a staler one is \
         fetched as if nothing were stored.",
    )
    .word("unlimited")
    .live(),
    Setting::new(
        "caching.refresh-ahead",
        Kind::Int(0, 90),
        &["0"],
        |c, v| c.caching.refresh_ahead = Take::take(v),
        "The last part of a lifetime, in percent, in which one of eight hits has the answer \
         validated in the background, so that what is popular does not expire; 0: none.",
    )
    .live(),
    neighbours::MOST,
    neighbours::RATE,
    Setting::new(
        "forwarded.add",
        Kind::List(&Kind::OneOf(&[
            "auto",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
        ])),
        &["auto"],
        |c, v| c.forwarded.add = Take::take(v),
        "Header fields that tell the origin server of the client (RFC 7239). \"auto\" is \
         x-forwarded-for, x-forwarded-proto and x-forwarded-host on a reverse proxy and none on a \
         forward proxy; an empty list is none.",
    )
    .live(),
    Setting::new(
        "forwarded.trust",
        Kind::List(&Kind::Network),
        &[],
        |c, v| c.forwarded.trust = Take::take(v),
        "Networks of the proxies in front of a reverse proxy: such fields of theirs are kept and \
         added to. Those of other clients are removed, for anybody could claim any address.",
    )
    .live(),
];

/// How objects are fetched for the cache.
const FILL: &[Setting] = &[
    Setting::new(
        "fill.window",
        Kind::Size(64 * K, 1 << 30),
        &["512K"],
        |c, v| c.fill.window = Take::take(v),
        "Bytes of a running fetch that are kept in memory for its readers.",
    )
    .live(),
    Setting::new(
        "fill.finish-percent",
        Kind::Int(0, 100),
        &["50"],
        |c, v| c.fill.finish_percent = Take::take(v),
        "A fetch whose last reader left goes on when at least this share of the body is there.",
    )
    .live(),
    Setting::new(
        "fill.finish-rest",
        Kind::Size(0, 1 << 50),
        &["1M"],
        |c, v| c.fill.finish_rest = Take::take(v),
        "It also goes on when at most this much is missing.",
    )
    .live(),
    Setting::new(
        "fill.follow-distance",
        Kind::Size(0, 1 << 40),
        &["1M"],
        |c, v| c.fill.follow_distance = Take::take(v),
        "A range of what is being fetched is waited for when it begins at most this far ahead of \
         what is there; one further away is asked of the origin.",
    )
    .live(),
    Setting::new(
        "fill.part-window",
        Kind::Size(64 * K, 64 << 20),
        &["1M"],
        |c, v| c.fill.part_window = Take::take(v),
        "Of an object that is stored in parts: the stretch of it that one part may cover.",
    )
    .live(),
    Setting::new(
        "fill.aligned-from",
        Kind::Size(0, 1 << 50),
        &["4M"],
        |c, v| c.fill.aligned_from = Take::take(v),
        "What is missing of an object in parts is fetched by whole windows when it is at least \
         this large.",
    )
    .live(),
    Setting::new(
        "fill.wait",
        TIMEOUT,
        &["20s"],
        |c, v| c.fill.wait = Take::take(v),
        "When clients wait for one fetch and there has been no head for so long, one of them asks \
         the origin once more, for all of them. They go on waiting, and take what comes first.",
    )
    .live(),
    Setting::new(
        "fill.unshareable-for",
        Kind::Time(ms(0), hours(24)),
        &["30s"],
        |c, v| c.fill.unshareable_for = Take::take(v),
        "How long a key whose answer could not be shared is fetched by every client on its own, \
         without waiting for each other, unless one comes meanwhile that can.",
    )
    .live(),
    Setting::new(
        "fill.unshareable-keys",
        Kind::Int(1, MANY),
        &["16384"],
        |c, v| c.fill.unshareable_keys = Take::take(v),
        "How many such keys are remembered.",
    )
    .live(),
];

/// The setting of this name.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

#[cfg(test)]
mod tests;
