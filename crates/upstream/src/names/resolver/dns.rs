//! Name lookups by DNS (`hickory-resolver`), which also returns the lifetime of records.
//!
//! The hosts file is consulted first, then the name servers and search domains of `resolv.conf`, or
//! the servers in the configuration. Other sources of `nsswitch.conf` are not used.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{TokioResolver, system_conf};

use crate::settings::lookup::{FoundAddresses, Lookup, LookupFuture};

/// DNS lookup. Each worker has its own connections to name servers.
pub struct DnsLookup {
    /// Number by which each thread detects whether its resolver was built from these settings.
    number: u64,
    servers: ResolverConfig,
    options: ResolverOpts,
}

thread_local! {
    /// Resolver of this thread, and the number of its settings.
    static RESOLVER: RefCell<Option<(u64, TokioResolver)>> = const { RefCell::new(None) };
}

/// Lifetime from which on a record counts as having none, because records from the hosts file are
/// reported with such a lifetime.
const WITHOUT_END: Duration = Duration::from_secs(23 * 3600);

impl DnsLookup {
    /// Creates a lookup that queries these servers, or if there are none those currently in the
    /// system's `resolv.conf`.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if `resolv.conf` exists and cannot be read.
    pub fn new(servers: &[SocketAddr]) -> Result<DnsLookup, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let (servers, mut options) = match servers {
            [] => system().map_err(|error| format!("/etc/resolv.conf cannot be used: {error}"))?,
            named => {
                let named = named.iter().map(|&address| server(address)).collect();
                (ResolverConfig::from_parts(None, Vec::new(), named), ResolverOpts::default())
            }
        };
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The caller caches results for their lifetime.
        options.cache_size = 0;
        Ok(DnsLookup { number: MADE.fetch_add(1, Relaxed), servers, options })
    }

    fn resolver(&self) -> io::Result<TokioResolver> {
        RESOLVER.with_borrow_mut(|ours| {
            if let Some((number, resolver)) = ours
                && *number == self.number
            {
                return Ok(resolver.clone());
            }
            let provider = TokioRuntimeProvider::default();
            let mut builder = TokioResolver::builder_with_config(self.servers.clone(), provider);
            *builder.options_mut() = self.options.clone();
            let resolver = builder.build().map_err(io::Error::other)?;
            *ours = Some((self.number, resolver.clone()));
            Ok(resolver)
        })
    }

    async fn find(&self, name: &str) -> io::Result<FoundAddresses> {
        let found = self.resolver()?.lookup_ip(name).await.map_err(error)?;
        #[allow(clippy::disallowed_methods)] // The library has counted from the system's clock.
        let holds = found.valid_until().saturating_duration_since(Instant::now());
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        // Servers rotate the addresses; keep their order within a family.
        addresses.sort_by_key(|&address| rank(address));
        Ok(FoundAddresses { addresses, ttl: (holds < WITHOUT_END).then_some(holds) })
    }
}

/// Reads `resolv.conf`.
fn system() -> Result<(ResolverConfig, ResolverOpts), NetError> {
    let text = match fs::read("/etc/resolv.conf") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    system_conf::parse_resolv_conf(with_a_server(text))
}

/// Adds this machine's name server to a `resolv.conf` that names none, as resolv.conf(5) says.
fn with_a_server(mut text: Vec<u8>) -> Vec<u8> {
    if !text.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"nameserver")) {
        text.extend(b"\nnameserver 127.0.0.1\n");
    }
    text
}

fn server(address: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections.iter_mut().for_each(|connection| connection.port = address.port());
    server
}

/// Converts an error. Only the answer that a name or its records do not exist becomes `NotFound`;
/// any other error may be temporary.
fn error(error: NetError) -> io::Error {
    let kind = match &error {
        _ if error.is_nx_domain() || error.is_no_records_found() => io::ErrorKind::NotFound,
        NetError::Timeout => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}

/// Returns the rank of an address: addresses with a route come first, and among these IPv6 before
/// IPv4 (RFC 6724, rules 1 and 6). No packet is sent for this.
fn rank(address: IpAddr) -> u8 {
    let any: SocketAddr = match address {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let way = UdpSocket::bind(any).and_then(|socket| socket.connect((address, 9)));
    match (way, address) {
        (Ok(()), IpAddr::V6(_)) => 0,
        (Ok(()), IpAddr::V4(_)) => 1,
        (Err(_), _) => 2,
    }
}

impl Lookup for DnsLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        Box::pin(self.find(name))
    }
}

impl fmt::Debug for DnsLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers.name_servers().iter().map(|server| server.ip).collect();
        f.debug_struct("DnsLookup").field("servers", &servers).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_server_this_machine_is_asked() {
        let cases = [("", "127.0.0.1"), ("search a", "127.0.0.1"), ("nameserver ::1\n", "::1")];
        for (text, expected) in cases {
            let (servers, _) = system_conf::parse_resolv_conf(with_a_server(text.into())).unwrap();
            let servers: Vec<_> = servers.name_servers().iter().map(|server| server.ip).collect();
            assert_eq!(servers, [expected.parse::<IpAddr>().unwrap()], "{text:?}");
        }
    }
}
