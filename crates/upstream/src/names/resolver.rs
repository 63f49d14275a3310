//! Resolver of host names. Each worker caches addresses for their lifetime, so that a burst of
//! misses causes one lookup. Failures are not cached.
//!
//! A name in use is looked up again in the background when its lifetime is over. Open connections
//! remain in use meanwhile; those to an address that the name no longer has are not reused. If a
//! lookup fails, the last addresses are used for a while (RFC 8767), except for new connections
//! after the answer that the name does not exist.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::settings::endpoint::{At, Endpoint};
use crate::settings::limits::UpstreamLimits;
use net::clock::TokioClock;

mod dns;

pub use dns::DnsLookup;

/// Maximum number of cached names; beyond that the cache is cleared.
const NAMES_MAX: usize = 4096;
/// Time for which addresses are used beyond their lifetime while lookups of the name fail.
const STALE_MAX: Duration = Duration::from_secs(3600);
/// Maximum wait for a lookup if there are stale addresses (RFC 8767, 5).
const STALE_WAIT: Duration = Duration::from_millis(1800);
/// Time after which a failed lookup is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Resolver of one worker.
#[derive(Clone)]
pub(crate) struct Resolver(Rc<Inner>);

struct Inner {
    clock: TokioClock,
    known: RefCell<HashMap<Box<str>, Known>>,
}

struct Known {
    addresses: Rc<[IpAddr]>,
    /// End of the addresses' lifetime.
    until: Instant,
    /// When to look the name up again.
    ask_at: Instant,
    /// Set while a background lookup is in progress.
    renewing: bool,
}

impl Resolver {
    /// Creates a resolver with an empty cache.
    pub fn new(clock: TokioClock) -> Resolver {
        Resolver(Rc::new(Inner { clock, known: RefCell::default() }))
    }

    /// Returns the addresses of `host` (a name, or an IP literal without brackets) in the order in
    /// which to try them: address families alternate (RFC 8305, 4). Never empty.
    pub async fn resolve(&self, host: &str, limits: &UpstreamLimits) -> io::Result<Rc<[IpAddr]>> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(Rc::from([literal]));
        }
        let now = self.0.clock.instant();
        let stale = match self.0.known.borrow().get(host) {
            Some(known) if known.ask_at > now => return Ok(known.addresses.clone()),
            Some(known) if known.until + STALE_MAX > now => Some(known.addresses.clone()),
            _ => None,
        };
        let Some(stale) = stale else { return self.ask(host, limits).await };
        let why = match timeout(STALE_WAIT, self.ask(host, limits)).await {
            Ok(Ok(addresses)) => return Ok(addresses),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no response in time".to_owned(),
        };
        log::warn!("the name {host} cannot be resolved, using its last addresses: {why}");
        self.failed(host);
        Ok(stale)
    }

    /// Keeps the cached addresses of a name after a failed lookup, to be repeated after [`RETRY`].
    fn failed(&self, host: &str) {
        if let Some(known) = self.0.known.borrow_mut().get_mut(host) {
            known.renewing = false;
            known.ask_at = self.0.clock.instant() + RETRY;
        }
    }

    /// Returns the cached addresses of an origin's name, to check open connections against. Starts
    /// a lookup in the background if their lifetime is over.
    pub fn current(&self, endpoint: &Endpoint, limits: &UpstreamLimits) -> Option<Rc<[IpAddr]>> {
        let At::Tcp(host, _) = &endpoint.at else { return None };
        let mut all = self.0.known.borrow_mut();
        let known = all.get_mut(host.as_str())?;
        if known.ask_at <= self.0.clock.instant() && !known.renewing {
            known.renewing = true;
            let (resolver, host, limits) = (self.clone(), host.clone(), limits.clone());
            spawn_local(async move {
                if let Err(error) = resolver.ask(&host, &limits).await {
                    log::debug!("the name {host} could not be refreshed: {error}");
                    // Open connections are kept.
                    resolver.failed(&host);
                }
            });
        }
        Some(known.addresses.clone())
    }

    async fn ask(&self, host: &str, limits: &UpstreamLimits) -> io::Result<Rc<[IpAddr]>> {
        let found = limits.lookup.lookup(host).await?;
        let addresses: Rc<[IpAddr]> = alternate(found.addresses.into_iter()).into();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        let mut known = self.0.known.borrow_mut();
        if known.len() >= NAMES_MAX && !known.contains_key(host) {
            known.clear();
        }
        let (least, most) = (limits.dns_ttl_min, limits.dns_ttl_max);
        let holds = found.ttl.map_or(limits.dns_ttl, |ttl| ttl.min(most).max(least));
        let until = self.0.clock.instant() + holds;
        let fresh = Known { addresses: addresses.clone(), until, ask_at: until, renewing: false };
        known.insert(host.into(), fresh);
        Ok(addresses)
    }
}

/// Orders addresses so that the families alternate, beginning with the family of the first address.
/// Removes duplicates.
fn alternate(found: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut unique: Vec<IpAddr> = Vec::new();
    for address in found {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    let first_is_v6 = unique.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        unique.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut ordered = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            return ordered;
        }
        ordered.extend(a.into_iter().chain(b));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    use tokio::task::LocalSet;
    use tokio::time::advance;

    use super::*;
    use crate::settings::lookup::{FoundAddresses, Lookup, LookupFuture};

    #[test]
    fn families_alternate() {
        let list = ["::1", "::2", "::3", "127.0.0.1", "::1", "127.0.0.2"];
        let ordered = alternate(list.iter().map(|a| a.parse().unwrap()));
        let expected: Vec<IpAddr> = ["::1", "127.0.0.1", "::2", "127.0.0.2", "::3"]
            .iter()
            .map(|a| a.parse().unwrap())
            .collect();
        assert_eq!(ordered, expected);
    }

    /// A lookup that returns a different address each time, with a lifetime of 10 s; the third one
    /// fails.
    #[derive(Debug, Default)]
    struct Counting(AtomicU8);

    impl Lookup for Counting {
        fn lookup<'a>(&'a self, _: &'a str) -> LookupFuture<'a> {
            let n = self.0.fetch_add(1, Relaxed) + 1;
            Box::pin(async move {
                if n == 3 {
                    return Err(io::Error::other("not now"));
                }
                let addresses = vec![IpAddr::from([192, 0, 2, n])];
                Ok(FoundAddresses { addresses, ttl: Some(Duration::from_secs(10)) })
            })
        }
    }

    fn limits(lookup: Arc<dyn Lookup>) -> UpstreamLimits {
        let day = Duration::from_secs(86_400);
        UpstreamLimits { dns_ttl: day, dns_ttl_max: day, lookup, ..UpstreamLimits::default() }
    }

    fn last(addresses: &[IpAddr]) -> u8 {
        match addresses {
            [IpAddr::V4(only)] => only.octets()[3],
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_looked_up_again_after_its_lifetime() {
        LocalSet::new()
            .run_until(async {
                let lookup = Arc::new(Counting::default());
                let (resolver, limits) =
                    (Resolver::new(TokioClock::system()), limits(lookup.clone()));
                let endpoint = Endpoint::plain("a.example", 80);
                let current = || resolver.current(&endpoint, &limits).map(|found| last(&found));
                assert_eq!(current(), None);
                assert_eq!(last(&resolver.resolve("a.example", &limits).await.unwrap()), 1);
                advance(Duration::from_secs(9)).await;
                // The lifetime in the answer counts, not the default.
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(1), 1));
                advance(Duration::from_secs(2)).await;
                assert_eq!((current(), current()), (Some(1), Some(1)));
                tokio::task::yield_now().await;
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(2), 2));
                // A failed lookup does not affect open connections, and is repeated.
                advance(Duration::from_secs(11)).await;
                current();
                tokio::task::yield_now().await;
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(2), 3));
                advance(RETRY).await;
                current();
                tokio::task::yield_now().await;
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(4), 4));
                // A new connection waits for the lookup.
                advance(Duration::from_secs(11)).await;
                assert_eq!(last(&resolver.resolve("a.example", &limits).await.unwrap()), 5);
            })
            .await;
    }

    /// A lookup that succeeds once, with a lifetime; then it fails with `then`, or never completes
    /// if that is `None`.
    #[derive(Debug)]
    struct Then {
        ttl: Duration,
        asked: AtomicU8,
        then: Option<io::ErrorKind>,
    }

    impl Lookup for Then {
        fn lookup<'a>(&'a self, _: &'a str) -> LookupFuture<'a> {
            let first = self.asked.fetch_add(1, Relaxed) == 0;
            Box::pin(async move {
                let addresses = vec![IpAddr::from([192, 0, 2, 1])];
                match self.then {
                    _ if first => Ok(FoundAddresses { addresses, ttl: Some(self.ttl) }),
                    Some(kind) => Err(kind.into()),
                    None => std::future::pending().await,
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stale_addresses_serve_while_lookups_fail() {
        let silent = [None, Some(io::ErrorKind::TimedOut), Some(io::ErrorKind::NotFound)];
        for then in silent {
            let ttl = Duration::from_secs(10);
            let lookup = Arc::new(Then { ttl, asked: AtomicU8::new(0), then });
            let (resolver, limits) = (Resolver::new(TokioClock::system()), limits(lookup.clone()));
            let resolve = || resolver.resolve("a.example", &limits);
            assert_eq!(last(&resolve().await.unwrap()), 1);
            advance(Duration::from_secs(11)).await;
            if then == Some(io::ErrorKind::NotFound) {
                assert_eq!(resolve().await.unwrap_err().kind(), io::ErrorKind::NotFound);
                continue;
            }
            assert_eq!(last(&resolve().await.unwrap()), 1);
            // Later requests do not wait for the lookup again.
            assert_eq!(last(&resolve().await.unwrap()), 1);
            assert_eq!(lookup.asked.load(Relaxed), 2);
            advance(STALE_MAX).await;
            let late = timeout(Duration::from_secs(60), resolve()).await;
            assert!(!matches!(late, Ok(Ok(_))), "{late:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lifetimes_are_clamped() {
        for (said, held) in [(0, 5), (30, 30), (86_400, 60)] {
            let ttl = Duration::from_secs(said);
            let lookup = Arc::new(Then { ttl, asked: AtomicU8::new(0), then: None });
            let limits = UpstreamLimits {
                dns_ttl_min: Duration::from_secs(5),
                dns_ttl_max: Duration::from_secs(60),
                lookup: lookup.clone(),
                ..UpstreamLimits::default()
            };
            let resolver = Resolver::new(TokioClock::system());
            for (later, asked) in [(0, 1), (held - 1, 1), (2, 2)] {
                advance(Duration::from_secs(later)).await;
                resolver.resolve("a.example", &limits).await.unwrap();
                assert_eq!(lookup.asked.load(Relaxed), asked, "{said} s");
            }
        }
    }
}
