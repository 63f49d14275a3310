//! Every setting of the proxy, each with its unit, its default and the reason for it. Plain data:
//! the command line fills it, the rest of the crate reads it, and a reload replaces it whole.

use std::sync::Arc;
use std::time::Duration;

use crate::front::http2::Http2Options;
use crate::front::tunnel::Lifetime;
use crate::net::certificate_store::Keyring;
use crate::rules::access::Access;
use crate::rules::aliases::Aliases;
use crate::rules::request_rules::Rules;
use crate::upstream::client::{Group, Http2, Tls, TlsOptions};
use crate::upstream::resolver::{Lookup, SystemLookup};

/// All settings of the proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// What kind of proxy the listeners are.
    pub front: Front,
    /// Who may ask for what.
    pub access: Arc<Access>,
    /// What names this proxy in `Via` and `Cache-Status`.
    pub pseudonym: Pseudonym,
    /// Limits of the client side.
    pub client: ClientLimits,
    /// How HTTP/2 is spoken to clients.
    pub http2: Http2Options,
    /// Certificates for listeners that speak TLS; `None`: no listener does.
    pub keyring: Option<Arc<Keyring>>,
    /// Limits of the origin side.
    pub upstream: UpstreamLimits,
    /// How objects are fetched for the cache.
    pub fill: FillOptions,
    /// Where the rules of caching leave a choice.
    pub semantics: semantics::Settings,
    /// What upstreams are told of a request's way to us.
    pub forwarded: Forwarded,
    /// What is done otherwise for some requests.
    pub rules: Rules,
    /// Who may purge, and by what.
    pub purging: Purging,
    /// The tunnels of CONNECT, and of connections that change their protocol.
    pub tunnels: TunnelLimits,
}

/// Limits of tunnels.
#[derive(Clone, Debug)]
pub struct TunnelLimits {
    /// Tunnels of the whole process at a time, on HTTP/2 each on a stream; further requests for one
    /// are a 503. Default 4,096.
    pub max: usize,
    /// Time without a byte after which a tunnel is ended. Default 15 minutes: idle connections of
    /// browsers live for minutes, and ending one too early costs its user.
    pub idle: Duration,
    /// Time after which a tunnel is ended whatever moves; `None`, the default: it is not.
    pub longest: Option<Duration>,
}

impl TunnelLimits {
    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime { idle: self.idle, longest: self.longest }
    }
}

impl Default for TunnelLimits {
    fn default() -> Self {
        TunnelLimits { max: 4096, idle: Duration::from_secs(900), longest: None }
    }
}

impl Options {
    /// Takes over what is known of the servers of sites that were there before.
    pub(crate) fn adopt(&mut self, before: &Options) {
        let (Front::Reverse(sites), Front::Reverse(old)) = (&mut self.front, &before.front) else {
            return;
        };
        for site in sites {
            let same = old.iter().find(|old| old.name == site.name);
            // What has just been made is ours alone.
            if let (Some(group), Some(old)) = (Arc::get_mut(&mut site.upstream), same) {
                group.adopt(&old.upstream);
            }
        }
    }

    /// Options with their defaults.
    pub fn new(front: Front, access: Arc<Access>) -> Options {
        Options {
            front,
            access,
            pseudonym: Pseudonym::default(),
            client: ClientLimits::default(),
            http2: Http2Options::default(),
            keyring: None,
            upstream: UpstreamLimits::default(),
            fill: FillOptions::default(),
            semantics: semantics::Settings::default(),
            forwarded: Forwarded::default(),
            rules: Rules::default(),
            purging: Purging::default(),
            tunnels: TunnelLimits::default(),
        }
    }
}

/// The two kinds of proxy.
#[derive(Clone, Debug, Default)]
pub enum Front {
    /// Clients name the origin in an absolute-form request target, or ask for a tunnel.
    #[default]
    Forward,
    /// The origin follows from the configuration; the request's host picks the site.
    Reverse(Vec<Site>),
}

/// What upstreams are told of a request's way to us (RFC 7239).
#[derive(Clone, Debug, Default)]
pub struct Forwarded {
    /// Fields that are added. Default none; the command line has others for a reverse proxy.
    pub add: Vec<semantics::forwarded::Field>,
    /// Networks of proxies in front of a reverse proxy, whose own such fields are kept. Those of
    /// other clients are removed. Default none. A forward proxy keeps all.
    pub trust: Vec<ipnet::IpNet>,
}

/// Who may purge with the method `PURGE`, and the fields that carry tags.
#[derive(Clone, Debug)]
pub struct Purging {
    /// Networks of clients that may. Default none: then it is passed on as any other method.
    pub from: Vec<ipnet::IpNet>,
    /// The fields of answers, and of `PURGE`, that carry tags. Those that the store was opened with
    /// count for what is stored.
    pub tags: semantics::TagFields,
    /// Whether clients see those fields of answers. Default true; the command line hides them
    /// behind a reverse proxy.
    pub pass_tags: bool,
}

impl Default for Purging {
    fn default() -> Self {
        Purging { from: Vec::new(), tags: semantics::TagFields::default(), pass_tags: true }
    }
}

/// One site of a reverse proxy.
#[derive(Clone, Debug)]
pub struct Site {
    /// A name that is unique among the sites; part of every cache key of this site.
    pub name: String,
    /// Hosts (lower case, without port) that belong to this site. Empty: every host that no other
    /// site claims.
    pub hosts: Vec<String>,
    /// The servers that it is fetched from.
    pub upstream: Arc<Group>,
    /// The `Host` the upstream gets: the client's (`true`, the default of the command line) or the
    /// upstream's own authority.
    pub pass_host: bool,
    /// Which of its names are one.
    pub aliases: Aliases,
}

/// A token that names this proxy (RFC 9110 section 7.6.3, RFC 9211 section 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pseudonym(String);

impl Pseudonym {
    /// A pseudonym; `None` unless it is a non-empty token of at most 64 bytes that begins with a
    /// letter (what `Via` and a structured-field token both allow).
    pub fn new(name: &str) -> Option<Pseudonym> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let fine = (1..=64).contains(&name.len())
            && name.as_bytes()[0].is_ascii_alphabetic()
            && name.bytes().all(token);
        fine.then(|| Pseudonym(name.to_owned()))
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Pseudonym {
    fn default() -> Self {
        Pseudonym("larder".to_owned())
    }
}

/// Limits towards clients.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Open client connections of the whole process; for a further one an idle one is closed, and
    /// where there is none it waits in the accept queue. Default 16,384.
    pub connections: usize,
    /// Open connections of one client address, a network of 64 bits in IPv6; further ones are
    /// closed. Default no limit.
    pub per_address: Option<usize>,
    /// Bytes of a request head, at least 8,192; a longer one is a 431. Default 32 KiB.
    pub head_bytes: usize,
    /// Header lines of a request; more are a 431. Default 100 (another value costs an allocation
    /// for each request).
    pub headers: usize,
    /// Names of request fields that are let through. Default: those that no other field has at an
    /// origin behind CGI.
    pub field_names: semantics::FieldNames,
    /// Time from the first byte of a head to its last; then a 408. Default 30 s.
    pub head_timeout: Duration,
    /// Time a connection may wait for its next request. Default 75 s.
    pub idle_timeout: Duration,
    /// After this time of it a connection is parked: nothing is kept for it but its socket.
    /// HTTP/1 only. Default 1 s.
    pub park_after: Duration,
    /// While we wait for a client to take or send body bytes, it must move at least
    /// [`ClientLimits::rate_min`] × this time, else it is cut. Default 60 s.
    pub stall_timeout: Duration,
    /// Bytes per second a client must take or send while we wait for it; 0 asks for one byte in
    /// each [`ClientLimits::stall_timeout`]. Default 16.
    pub rate_min: u64,
    /// Time for running answers to end after a shutdown began. Default 30 s.
    pub drain: Duration,
}

impl ClientLimits {
    /// Bytes that must move in [`ClientLimits::stall_timeout`].
    pub(crate) fn least_in_stall_timeout(&self) -> u64 {
        self.rate_min.saturating_mul(self.stall_timeout.as_secs()).max(1)
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits {
            connections: 16_384,
            per_address: None,
            head_bytes: 32 * 1024,
            headers: 100,
            field_names: semantics::FieldNames::default(),
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            park_after: Duration::from_secs(1),
            stall_timeout: Duration::from_secs(60),
            rate_min: 16,
            drain: Duration::from_secs(30),
        }
    }
}

/// Limits towards origins.
#[derive(Clone, Debug)]
pub struct UpstreamLimits {
    /// Time to resolve a name and connect to one of its addresses; then a 504. Default 10 s.
    pub connect_timeout: Duration,
    /// Head start of each address before the next one is tried as well. Default 250 ms
    /// (RFC 8305 section 5).
    pub stagger: Duration,
    /// Time from the request to the head of the answer; then a 504. Default 60 s.
    pub head_timeout: Duration,
    /// Longest silence within a body; then the transfer is cut. Default 60 s.
    pub body_timeout: Duration,
    /// Bytes of an answer's head, at least 8,192; a longer one is a 502. Default 64 KiB.
    pub head_bytes: usize,
    /// Idle connections kept per origin and worker. Default 32.
    pub idle_per_origin: usize,
    /// Idle connections kept per worker. Default 512.
    pub idle_total: usize,
    /// Time an idle connection is kept. Default 30 s: less than the usual 60 s or more of servers,
    /// so that we seldom write into a connection that is being closed.
    pub idle_timeout: Duration,
    /// Time the addresses of a name are remembered where their own lifetime is not known. Default
    /// 30 s.
    pub dns_ttl: Duration,
    /// The least and the longest time for which lifetimes of their own are believed. Default 1 s
    /// and 1 h.
    pub dns_ttl_min: Duration,
    /// See `dns_ttl_min`.
    pub dns_ttl_max: Duration,
    /// Where names are looked up. Default: the system's resolver.
    pub lookup: Arc<dyn Lookup>,
    /// How servers that a forward proxy's clients name by `https` URLs prove who they are. Default:
    /// by the system's authorities.
    pub tls: Tls,
    /// Whether those servers are spoken to in HTTP/2. Default: where both sides choose it.
    pub http2: Http2,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        UpstreamLimits {
            connect_timeout: Duration::from_secs(10),
            stagger: Duration::from_millis(250),
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            head_bytes: 64 * 1024,
            idle_per_origin: 32,
            idle_total: 512,
            idle_timeout: Duration::from_secs(30),
            dns_ttl: Duration::from_secs(30),
            dns_ttl_min: Duration::from_secs(1),
            dns_ttl_max: Duration::from_secs(3600),
            lookup: Arc::new(SystemLookup),
            tls: Tls::new(TlsOptions::default(), Http2::default()),
            http2: Http2::default(),
        }
    }
}

/// How objects are fetched for the cache.
#[derive(Clone, Debug)]
pub struct FillOptions {
    /// Bytes of a running fetch kept in memory for its readers. Default 512 KiB.
    pub window: usize,
    /// A stored fetch whose last reader left goes on when at least this share of its body, in
    /// percent, is there. Default 50.
    pub finish_percent: u8,
    /// … or when at most this many bytes are missing. Default 1 MiB.
    pub finish_rest: u64,
    /// Time for which a key whose answer could not be shared is fetched by every client on its
    /// own, without waiting, unless one comes that can be. Default 30 s.
    pub unshareable_for: Duration,
    /// Keys remembered as not shareable; the oldest are forgotten first. Default 16,384.
    pub unshareable_keys: usize,
    /// A client that asks for a range of what is being fetched waits for it when it begins at most
    /// this many bytes ahead of what is there; for one further away the origin is asked. Default
    /// 1 MiB.
    pub follow_distance: u64,
    /// Bytes of a window of an object that is stored in parts. Each has at most one piece, which is
    /// always contiguous. Default 1 MiB: at 100 MB/s 10 ms.
    pub part_window: u32,
    /// Objects of at least this many bytes are fetched by whole windows from the second range on.
    /// Default 4 MiB.
    pub aligned_from: u64,
    /// A fetch that others wait for and that has no head after this time is begun once more, by
    /// one of them for all. Default 20 s.
    pub wait: Duration,
    /// How many neighbours of what is validated may be validated behind it, a second and site
    /// ([`semantics::Settings::validate_neighbours`] says how many at a time). Default 20.
    pub neighbour_rate: u32,
}

impl Default for FillOptions {
    fn default() -> Self {
        FillOptions {
            window: 512 * 1024,
            finish_percent: 50,
            finish_rest: 1 << 20,
            follow_distance: 1 << 20,
            part_window: 1 << 20,
            aligned_from: 4 << 20,
            unshareable_for: Duration::from_secs(30),
            unshareable_keys: 16_384,
            wait: Duration::from_secs(20),
            neighbour_rate: 20,
        }
    }
}
