//! Where a node looks for the fleet: addresses, names with all their addresses in DNS, and services
//! (SRV, RFC 2782), as Consul and Kubernetes publish them.
//!
//! Seeds are looked up repeatedly: members come and go, and two halves of a fleet that forgot each
//! other find each other again through the seeds. A seed that does not resolve causes a warning.
//! Names are looked up as the system does. The hosts of a service are looked up by DNS at the
//! servers that named them, since only these know the hosts of Consul.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use fleet::member::Address;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::{TokioResolver, system_conf};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::gossip::wire::is_of_one;

/// Maximum time for looking up a seed.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Maximum number of hosts of a service that are looked up: those of the lowest priority value
/// first.
const HOSTS_MAX: usize = 64;

/// A place where members of the fleet may be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// An address.
    Address(SocketAddr),
    /// All addresses of a host.
    Host(Address),
    /// All hosts of a service, by its SRV records.
    Service(Box<str>),
}

/// Error of a text that is not a valid seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSeed(Box<str>);

impl fmt::Display for InvalidSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a valid seed of a fleet: write address:port, host:port, or srv:NAME for \
             the SRV records of a name",
            self.0
        )
    }
}

impl std::error::Error for InvalidSeed {}

impl FromStr for Seed {
    type Err = InvalidSeed;

    fn from_str(text: &str) -> Result<Seed, InvalidSeed> {
        let error = || InvalidSeed(text.into());
        let named = text.strip_prefix("srv:");
        if let Some(name) = named.or(text.starts_with('_').then_some(text)) {
            return if is_name(name) { Ok(Seed::Service(name.into())) } else { Err(error()) };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if is_of_one(address) => Ok(Seed::Address(address)),
            Ok(_) => Err(error()),
            Err(_) => text.parse().map(Seed::Host).map_err(|_| error()),
        }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seed::Address(address) => address.fmt(f),
            Seed::Host(address) => address.fmt(f),
            Seed::Service(name) => write!(f, "srv:{name}"),
        }
    }
}

/// Returns whether a text may be the name of a service.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    let fit = |label: &str| (1..=63).contains(&label.len());
    text.len() <= 253 && text.bytes().all(plain) && labels.into_iter().all(fit)
}

/// Result of looking up the seeds.
#[derive(Debug, Default)]
pub struct Found {
    /// The addresses found.
    pub addresses: BTreeSet<SocketAddr>,
    /// The seeds that did not resolve, with the reason.
    pub failed: Vec<(Seed, String)>,
}

/// Looks up all seeds in parallel. Services are looked up at `name_servers`, or at those of the
/// system's `resolv.conf` if there are none.
pub async fn find(seeds: &[Seed], name_servers: &[SocketAddr]) -> Found {
    let mut lookups = JoinSet::new();
    for seed in seeds.iter().cloned() {
        let name_servers = name_servers.to_vec();
        lookups.spawn(async move {
            let found = timeout(LOOKUP_MAX, addresses(&seed, &name_servers)).await;
            let found = found.unwrap_or_else(|_| Err("no response in time".to_owned()));
            (seed, found.and_then(usable))
        });
    }
    let mut found = Found::default();
    for (seed, result) in lookups.join_all().await {
        match result {
            Ok(addresses) => found.addresses.extend(addresses),
            Err(why) => found.failed.push((seed, why)),
        }
    }
    found
}

/// Drops addresses that do not belong to a single node.
fn usable(mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
    addresses.retain(|address| is_of_one(*address));
    match addresses.is_empty() {
        true => Err("it has no usable address".to_owned()),
        false => Ok(addresses),
    }
}

async fn addresses(seed: &Seed, servers: &[SocketAddr]) -> Result<Vec<SocketAddr>, String> {
    match seed {
        Seed::Address(address) => Ok(vec![*address]),
        Seed::Host(address) => {
            let found = tokio::net::lookup_host((address.host(), address.port())).await;
            found.map(Iterator::collect).map_err(|error| error.to_string())
        }
        Seed::Service(name) => service(name, servers).await,
    }
}

/// Looks up the hosts of a service. A host that does not resolve is left out as long as another
/// does.
async fn service(name: &str, servers: &[SocketAddr]) -> Result<Vec<SocketAddr>, String> {
    let resolver = resolver(servers)?;
    let found = resolver.srv_lookup(name).await.map_err(|error| error.to_string())?;
    let mut hosts: Vec<&SRV> = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(host) if host.port != 0 && !host.target.is_root() => Some(host),
            _ => None,
        })
        .collect();
    hosts.sort_by_key(|host| host.priority);
    let mut lookups = JoinSet::new();
    for host in hosts.into_iter().take(HOSTS_MAX) {
        let (resolver, target, port) = (resolver.clone(), host.target.clone(), host.port);
        lookups.spawn(async move {
            let found = resolver.lookup_ip(target).await.map_err(|error| error.to_string())?;
            Ok(found.iter().map(|ip| SocketAddr::new(ip, port)).collect::<Vec<_>>())
        });
    }
    let results: Vec<Result<_, String>> = lookups.join_all().await;
    if !results.is_empty() && results.iter().all(Result::is_err) {
        return results.into_iter().collect::<Result<Vec<_>, _>>().map(|all| all.concat());
    }
    Ok(results.into_iter().flatten().flatten().collect())
}

/// Returns a new resolver for each lookup, since the system's settings may have changed.
fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let (config, mut options) = match servers {
        [] => system_conf::read_system_conf()
            .map_err(|error| format!("/etc/resolv.conf cannot be used: {error}"))?,
        named => {
            let named = named.iter().map(|&address| server(address)).collect();
            (ResolverConfig::from_parts(None, Vec::new(), named), ResolverOpts::default())
        }
    };
    options.cache_size = 0;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build().map_err(|error| error.to_string())
}

fn server(address: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections.iter_mut().for_each(|connection| connection.port = address.port());
    server
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use hickory_resolver::proto::op::{Message, ResponseCode};
    use hickory_resolver::proto::rr::rdata::A;
    use hickory_resolver::proto::rr::{Name, Record, RecordType};

    use super::*;

    #[test]
    fn seeds_are_written_as_they_are_read() {
        for text in ["10.0.0.1:7", "[::1]:7", "node.example:7", "srv:_fleet._udp.example", "srv:x"]
        {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        assert_eq!("_a._udp.b".parse::<Seed>(), "srv:_a._udp.b".parse());
        for wrong in [
            "",
            "node",
            "node:0",
            "10.0.0.1:0",
            "10.0.0.1",
            "srv:",
            "srv:a..b",
            "_a b",
            "0.0.0.0:7",
        ] {
            assert!(wrong.parse::<Seed>().is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_host_has_all_its_addresses_and_a_failure_is_told() {
        let seeds = ["localhost:7", "10.9.8.7:6", "none.invalid:7"].map(|s| s.parse().unwrap());
        let found = find(&seeds, &[]).await;
        let local: SocketAddr = ([127, 0, 0, 1], 7).into();
        assert!(found.addresses.contains(&local), "{found:?}");
        assert!(found.addresses.contains(&([10, 9, 8, 7], 6).into()));
        assert_eq!(found.failed.len(), 1);
        assert_eq!(found.failed[0].0, seeds[2]);
    }

    /// Responds like the name server of a service with two hosts and an unknown third.
    fn serve(socket: UdpSocket) {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let question = query.queries[0].clone();
            let mut answer = query.into_response();
            let name = question.name().clone();
            let data = match (name.to_string().as_str(), question.query_type()) {
                ("_fleet._udp.example.", RecordType::SRV) => {
                    let host = |port, host: &str| {
                        let target = Name::from_ascii(host).unwrap();
                        RData::SRV(SRV::new(1, 1, port, target))
                    };
                    vec![host(70, "a.example."), host(71, "b.example."), host(72, "c.example.")]
                }
                ("a.example.", RecordType::A) => vec![RData::A(A::new(10, 0, 0, 1))],
                ("b.example.", RecordType::A) => vec![RData::A(A::new(10, 0, 0, 2))],
                _ => vec![],
            };
            if data.is_empty() {
                answer.metadata.response_code = ResponseCode::NXDomain;
            }
            for data in data {
                answer.add_answer(Record::from_rdata(name.clone(), 5, data));
            }
            socket.send_to(&answer.to_vec().unwrap(), from).unwrap();
        }
    }

    #[tokio::test]
    async fn a_service_has_the_addresses_of_its_hosts() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        std::thread::spawn(move || serve(socket));
        let seeds = ["_fleet._udp.example".parse().unwrap(), "srv:other.example".parse().unwrap()];
        let found = find(&seeds, &[server]).await;
        let expected: [SocketAddr; 2] = [([10, 0, 0, 1], 70).into(), ([10, 0, 0, 2], 71).into()];
        assert_eq!(found.addresses, expected.into());
        assert_eq!(found.failed.len(), 1, "{:?}", found.failed);
        assert_eq!(found.failed[0].0, seeds[1]);
    }
}
