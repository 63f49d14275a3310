//! The configuration in the terms of the crates below: the options of the proxy and of the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderName, Method};
use proxy::client::http2_options::Http2Options;
use proxy::client::limits::{ClientLimits, TunnelLimits};
use proxy::message::forwarded::Forwarded;
use proxy::message::pseudonym::Pseudonym;
use proxy::net::address::Locals;
use proxy::net::certificate::Certificate;
use proxy::net::certificate_store::{CertificateStore, TlsOptions};
use proxy::observe::front_kind::FrontKind;
use proxy::options::Options;
use proxy::options::fill::FillOptions;
use proxy::rules::access::{self, Access};
use proxy::rules::aliases::Aliases;
use proxy::rules::purging::Purging;
use proxy::rules::request_rules::Rules;
use proxy::upstream::limits::UpstreamLimits;
use proxy::upstream::lookup::{Lookup, SystemLookup};
use proxy::upstream::resolver::DnsLookup;
use proxy::upstream::site::{Front, Site};
use semantics::forwarded::Field;
use semantics::{Lifetimes, Seconds, Settings, TagFields};

use crate::config::clients;
use crate::config::loaded::{Action, Config, DEFAULT_SITE, HostHeader, Resolver, Rule};
use crate::config::sizing;
use crate::config::upstreams::{Manner, group};

/// What the options of the proxy depend on besides the configuration.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Addresses of all our listeners, the admin's included, as they are bound.
    pub own: Vec<SocketAddr>,
    /// Files that the process may have open.
    pub descriptors: u64,
}

/// The proxy's options. The error is a sentence.
pub fn proxy_options(config: &Config, around: &Surroundings) -> Result<Options, String> {
    let mut ports: Vec<u16> = around.own.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    let front = front(config, &ports)?;
    let access = access(config, &front, around)?;
    let pseudonym = Pseudonym::new(&config.pseudonym)
        .ok_or_else(|| format!("pseudonym: {:?} cannot be used", config.pseudonym))?;
    let semantics = semantics(config)?;
    Ok(Options {
        pseudonym,
        rules: rules(config, &semantics)?,
        client: client(config, around.descriptors),
        http2: http2(config),
        tunnels: tunnels(config),
        keyring: keyring(config)?.map(Arc::new),
        upstream: upstream(config)?,
        fill: fill(config),
        semantics,
        forwarded: forwarded(config)?,
        purging: purging(config)?,
        ..Options::new(front, Arc::new(access))
    })
}

/// What is served on our own `ports`. Reads the files that TLS to origin servers needs. The error
/// is a sentence.
pub fn front(config: &Config, ports: &[u16]) -> Result<Front, String> {
    let general = Manner::default().over(&config.upstream.manner);
    let mut sites = Vec::new();
    for site in &config.sites {
        let name = site.called().unwrap_or_default().to_owned();
        let pass_host = site.host_header == HostHeader::Client;
        let host = site.hosts.first().filter(|_| pass_host).map(String::as_str);
        let upstream = group(&site.manner.over(&general), &name, &site.upstream, host)?;
        let aliases = Aliases::new(&site.hosts, site.is_one(), ports);
        sites.push(Site { name, hosts: site.hosts.clone(), upstream, pass_host, aliases });
    }
    if let Some(upstream) = &config.reverse {
        let name = DEFAULT_SITE.to_owned();
        let upstream = group(&general, &name, upstream, None)?;
        let pass_host = config.reverse_host == HostHeader::Client;
        // Whatever a client calls it is known to nobody: each name is for itself.
        let aliases = Aliases::new(&[], false, ports);
        sites.push(Site { name, hosts: Vec::new(), upstream, pass_host, aliases });
    }
    Ok(if sites.is_empty() { Front::Forward } else { Front::Reverse(sites) })
}

fn access(config: &Config, front: &Front, around: &Surroundings) -> Result<Access, String> {
    let locals = Locals::of_this_machine()
        .map_err(|error| format!("cannot list the addresses of this machine: {error}"))?;
    let front = match front {
        Front::Forward => FrontKind::Forward,
        Front::Reverse(_) => FrontKind::Reverse,
    };
    let rules: Result<_, String> = config.access.iter().map(rule).collect();
    Ok(Access::new(front, locals)
        .rules(rules?)
        .allow(config.allow.clone())
        .connect_ports(parse_all(&config.connect_ports)?)
        .own(around.own.clone()))
}

fn rule(rule: &Rule) -> Result<access::Rule, String> {
    let methods = rule.methods.iter().map(|name| Method::from_bytes(name.as_bytes()));
    let methods: Result<_, _> = methods.collect();
    let mut out = access::Rule::new(match rule.action {
        Action::Allow => access::Action::Allow,
        Action::Deny => access::Action::Deny,
    });
    out.clients = rule.clients.clone();
    out.methods = methods.map_err(|error| error.to_string())?;
    out.hosts = parse_all(&rule.hosts)?;
    out.destinations = rule.destinations.clone();
    out.ports = parse_all(&rule.ports)?;
    Ok(out)
}

fn parse_all<T: std::str::FromStr<Err: ToString>>(texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| text.parse::<T>().map_err(|error| error.to_string())).collect()
}

/// The rules for some requests. The error is a sentence.
pub fn rules(config: &Config, base: &Settings) -> Result<Rules, String> {
    let numbered = config.rules.iter().enumerate();
    let rules = numbered.map(|(at, rule)| {
        rule.to_proxy(at + 1, base).map_err(|(key, why)| format!("rule.{key}: {why}"))
    });
    Ok(Rules::new(rules.collect::<Result<_, _>>()?))
}

fn semantics(config: &Config) -> Result<Settings, String> {
    let caching = &config.caching;
    let seconds = |time: Duration| Seconds::new(time.as_secs());
    Ok(Settings {
        heuristic_percent: caching.heuristic_percent,
        heuristic_max: seconds(caching.heuristic_max),
        heuristic_without_date: seconds(caching.heuristic_without_date),
        targets: targets(config)?,
        stale_while_revalidate: seconds(caching.stale_while_revalidate),
        stale_if_error: seconds(caching.stale_if_error),
        stale_when_unreachable: seconds(caching.stale_when_unreachable),
        stale_despite_s_maxage: caching.stale_despite_s_maxage,
        store_set_cookie: caching.store_set_cookie,
        reuse_for_authorized: caching.reuse_for_authorized,
        lifetimes: Lifetimes { errors: caching.error_ttl.map(seconds), ..Lifetimes::default() },
        keep: caching.keep.map(seconds),
        refresh_ahead_percent: caching.refresh_ahead,
        validate_neighbours: caching.validate_neighbours,
    })
}

/// The targeted fields: by default what a cache in front of origins obeys (RFC 9213, 3.1). A
/// forward proxy acts for its clients and obeys none.
fn targets(config: &Config) -> Result<Vec<HeaderName>, String> {
    match config.caching.targets.as_slice() {
        [auto] if auto == "auto" && is_reverse(config) => {
            Ok(vec![HeaderName::from_static("cdn-cache-control")])
        }
        [auto] if auto == "auto" => Ok(Vec::new()),
        names => parse_all(names),
    }
}

/// What upstreams are told of a request's way: by default the origins behind a reverse proxy get
/// what they could otherwise not know.
fn forwarded(config: &Config) -> Result<Forwarded, String> {
    let add = match config.forwarded.add.as_slice() {
        [auto] if auto == "auto" && is_reverse(config) => {
            vec![Field::For, Field::Proto, Field::Host]
        }
        [auto] if auto == "auto" => Vec::new(),
        names => parse_all(names)?,
    };
    Ok(Forwarded { add, trust: config.forwarded.trust.clone() })
}

/// Tags are between origin servers and the cache in front of them: its clients do not see them.
fn purging(config: &Config) -> Result<Purging, String> {
    let purge = &config.purge;
    let tags =
        TagFields { spaced: parse_all(&purge.tag_fields)?, listed: parse_all(&purge.tag_lists)? };
    let pass_tags = purge.pass_tags.unwrap_or(!is_reverse(config));
    Ok(Purging { from: purge.from.clone(), tags, pass_tags })
}

fn is_reverse(config: &Config) -> bool {
    config.reverse.is_some() || !config.sites.is_empty()
}

fn client(config: &Config, descriptors: u64) -> ClientLimits {
    let client = &config.client;
    ClientLimits {
        connections: sizing::connections(client.connections, descriptors),
        per_address: client.connections_per_address,
        head_bytes: client.head_size,
        headers: client.headers,
        field_names: client.field_names,
        head_timeout: client.head_timeout,
        idle_timeout: client.idle_timeout,
        park_after: ClientLimits::default().park_after,
        stall_timeout: client.stall_timeout,
        rate_min: client.rate_min,
        drain: config.drain,
    }
}

fn tunnels(config: &Config) -> TunnelLimits {
    let client = &config.client;
    TunnelLimits { max: client.tunnels, idle: client.tunnel_idle, longest: client.tunnel_time }
}

fn http2(config: &Config) -> Http2Options {
    let http2 = &config.http2;
    Http2Options {
        streams: http2.streams,
        stream_window: http2.stream_window,
        connection_window: http2.connection_window,
        send_buffer: http2.send_buffer,
        early_resets: http2.early_resets,
        error_resets: http2.error_resets,
        ping_interval: http2.ping_interval,
        ping_timeout: http2.ping_timeout,
    }
}

/// Reads the certificates, if any listener needs them.
pub fn keyring(config: &Config) -> Result<Option<CertificateStore>, String> {
    if !config.speaks_tls() {
        return Ok(None);
    }
    let load = |certificate: &clients::Certificate| {
        let clients::Certificate { chain, key, hosts } = certificate;
        Certificate::load(chain, key.as_ref().unwrap_or(chain), hosts)
            .map_err(|why| format!("certificate: {why}"))
    };
    let certificates = config.certificates.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let tls = &config.tls;
    let options = TlsOptions {
        tls12: tls.min_version == clients::TlsMin::Tls12,
        strict_sni: tls.strict_sni,
        http2: config.http2.enabled,
        handshake_timeout: tls.handshake_timeout,
    };
    CertificateStore::new(certificates, &options).map(Some)
}

/// What is amiss with certificates without being wrong.
pub fn keyring_warnings(keyring: &CertificateStore) -> Vec<String> {
    let now = SystemTime::now();
    keyring.certificates().iter().filter_map(|certificate| certificate.warning(now)).collect()
}

fn upstream(config: &Config) -> Result<UpstreamLimits, String> {
    let upstream = &config.upstream;
    let general = Manner::default().over(&upstream.manner);
    let lookup: Arc<dyn Lookup> = match upstream.resolver {
        Resolver::System => Arc::new(SystemLookup),
        Resolver::Dns => {
            let servers = upstream.dns_servers.as_deref().unwrap_or_default();
            Arc::new(DnsLookup::new(servers).map_err(|why| format!("upstream.resolver: {why}"))?)
        }
    };
    Ok(UpstreamLimits {
        connect_timeout: upstream.connect_timeout,
        stagger: upstream.stagger,
        head_timeout: upstream.head_timeout,
        body_timeout: upstream.body_timeout,
        head_bytes: upstream.head_size,
        idle_per_origin: upstream.idle_per_origin,
        idle_total: upstream.idle_total,
        idle_timeout: upstream.idle_timeout,
        dns_ttl: upstream.dns_ttl,
        dns_ttl_min: upstream.dns_ttl_min,
        dns_ttl_max: upstream.dns_ttl_max,
        lookup,
        tls: general.tls(),
        http2: general.http2(),
    })
}

fn fill(config: &Config) -> FillOptions {
    let fill = &config.fill;
    FillOptions {
        window: fill.window,
        finish_percent: fill.finish_percent,
        finish_rest: fill.finish_rest,
        follow_distance: fill.follow_distance,
        part_window: fill.part_window,
        aligned_from: fill.aligned_from,
        unshareable_for: fill.unshareable_for,
        unshareable_keys: fill.unshareable_keys,
        neighbour_rate: config.caching.neighbour_rate,
        wait: fill.wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::loaded::{File, Layer, Loaded};

    fn options(text: &str) -> Options {
        let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let loaded = Loaded::build(&file, &Layer::new());
        let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
        let own = vec!["127.0.0.1:3128".parse().unwrap()];
        proxy_options(&config, &Surroundings { own, descriptors: 1024 }).unwrap()
    }

    #[test]
    fn the_defaults_are_those_of_the_proxy() {
        let ours = options("");
        let theirs = Options::new(Front::Forward, ours.access.clone());
        assert_eq!(format!("{:?}", ours.upstream), format!("{:?}", theirs.upstream));
        assert_eq!(ours.http2, theirs.http2);
        assert!(ours.keyring.is_none());
        assert_eq!(format!("{:?}", ours.fill), format!("{:?}", theirs.fill));
        let client = ClientLimits { connections: 448, ..theirs.client };
        assert_eq!(format!("{:?}", ours.client), format!("{client:?}"));
        assert_eq!(ours.semantics, theirs.semantics);
        assert_eq!(ours.pseudonym, theirs.pseudonym);
        assert!(matches!(ours.front, Front::Forward));
    }

    #[test]
    fn sites_come_first_and_the_rest_goes_to_reverse() {
        let text = "
            reverse = 'http://[::1]:8080'
            reverse-host = 'upstream'
            [[site]]
            hosts = ['example.com']
            upstream = 'http://10.0.0.1'
        ";
        let Front::Reverse(sites) = options(text).front else { panic!("not a reverse proxy") };
        let told: Vec<_> = sites
            .iter()
            .map(|s| (s.name.as_str(), s.upstream.servers()[0].origin.to_string(), s.pass_host))
            .collect();
        let expected = [("example.com", "10.0.0.1:80", true), ("default", "[::1]:8080", false)];
        assert_eq!(told, expected.map(|(name, server, pass)| (name, server.to_owned(), pass)));
        assert_eq!(sites[0].hosts, ["example.com"]);
        assert!(sites[1].hosts.is_empty());
    }

    #[test]
    fn a_reverse_proxy_obeys_cdn_cache_control_and_tells_of_its_clients() {
        let of = |text: &str| {
            let options = options(text);
            (options.semantics.targets.len(), options.forwarded.add.len())
        };
        assert_eq!(of(""), (0, 0));
        assert_eq!(of("reverse = 'http://a'"), (1, 3));
        let site = "[[site]]\nhosts = ['a']\nupstream = 'http://a'";
        assert_eq!(of(site), (1, 3));
        let none = "reverse = 'http://a'\n[caching]\ntargets = []\n[forwarded]\nadd = []";
        assert_eq!(of(none), (0, 0));
        let both = "[caching]\ntargets = ['a', 'b']\n[forwarded]\nadd = 'forwarded'";
        assert_eq!(of(both), (2, 1));
    }
}
