//! Names to addresses: what was found is remembered per worker for as long as it holds, so that a
//! burst of misses asks once. Failures are not remembered.
//!
//! A name that is in use is looked up again when its time is over, in the background: connections
//! that are kept open go on meanwhile, and those that lead to an address which the name has no
//! longer are not used again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::upstream::{At, Origin};

/// Names remembered at most; past that the cache is emptied.
const NAMES_MAX: usize = 4096;
/// What an answer says of its own lifetime is believed within these bounds: a name is not asked for
/// with every request, nor forgotten to be asked for.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(3600);

/// What a name led to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its addresses, the preferred one first.
    pub addresses: Vec<IpAddr>,
    /// How long they hold, where that is known.
    pub ttl: Option<Duration>,
}

/// A lookup under way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = io::Result<Found>> + 'a>>;

/// Where names are looked up. One for all workers.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// The addresses of a name that is no address itself.
    fn lookup<'a>(&'a self, name: &'a str) -> Looking<'a>;
}

/// The system's own resolver: everything that its `nsswitch.conf` knows, without lifetimes.
#[derive(Debug)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> Looking<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(Found { addresses: found.map(|address| address.ip()).collect(), ttl: None })
        })
    }
}

/// The resolver of one worker.
#[derive(Clone)]
pub(crate) struct Resolver(Rc<Inner>);

struct Inner {
    lookup: Arc<dyn Lookup>,
    known: RefCell<HashMap<Box<str>, Known>>,
}

struct Known {
    addresses: Rc<[IpAddr]>,
    until: Instant,
    /// It is being looked up again.
    renewing: bool,
}

impl Resolver {
    pub fn new(lookup: Arc<dyn Lookup>) -> Resolver {
        Resolver(Rc::new(Inner { lookup, known: RefCell::default() }))
    }

    /// The addresses of `host` (a name, or an IP literal without brackets), in the order in which
    /// to try them: families alternate (RFC 8305 section 4). Never empty. `ttl`: how long they
    /// hold where nothing else is known.
    pub async fn resolve(&self, host: &str, ttl: Duration) -> io::Result<Rc<[IpAddr]>> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(Rc::from([literal]));
        }
        if let Some(known) = self.0.known.borrow().get(host)
            && known.until > Instant::now()
        {
            return Ok(known.addresses.clone());
        }
        self.ask(host, ttl).await
    }

    /// The addresses of an origin's name as far as they are known: what a connection to it must
    /// lead to. Looks the name up again behind it when its time is over.
    pub fn current(&self, origin: &Origin, ttl: Duration) -> Option<Rc<[IpAddr]>> {
        let At::Tcp(host, _) = &origin.at else { return None };
        let mut all = self.0.known.borrow_mut();
        let known = all.get_mut(host.as_str())?;
        if known.until <= Instant::now() && !known.renewing {
            known.renewing = true;
            let (resolver, host) = (self.clone(), host.clone());
            spawn_local(async move {
                if let Err(error) = resolver.ask(&host, ttl).await {
                    log::debug!("the name {host} could not be resolved again: {error}");
                    if let Some(known) = resolver.0.known.borrow_mut().get_mut(host.as_str()) {
                        // What is connected stays so; the next request asks again.
                        known.renewing = false;
                    }
                }
            });
        }
        Some(known.addresses.clone())
    }

    async fn ask(&self, host: &str, ttl: Duration) -> io::Result<Rc<[IpAddr]>> {
        let found = self.0.lookup.lookup(host).await?;
        let addresses: Rc<[IpAddr]> = alternate(found.addresses.into_iter()).into();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        let mut known = self.0.known.borrow_mut();
        if known.len() >= NAMES_MAX && !known.contains_key(host) {
            known.clear();
        }
        let holds = found.ttl.map_or(ttl, |ttl| ttl.clamp(TTL_MIN, TTL_MAX));
        let until = Instant::now() + holds;
        let fresh = Known { addresses: addresses.clone(), until, renewing: false };
        known.insert(host.into(), fresh);
        Ok(addresses)
    }
}

/// Orders addresses so that the families alternate, beginning with the family that the system
/// put first; duplicates are left out.
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
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    use tokio::task::LocalSet;
    use tokio::time::advance;

    use super::*;

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

    /// Each lookup finds another address, which holds for 10 s; the third one fails.
    #[derive(Debug, Default)]
    struct Counting(AtomicU8);

    impl Lookup for Counting {
        fn lookup<'a>(&'a self, _: &'a str) -> Looking<'a> {
            let n = self.0.fetch_add(1, Relaxed) + 1;
            Box::pin(async move {
                if n == 3 {
                    return Err(io::Error::other("not now"));
                }
                let addresses = vec![IpAddr::from([192, 0, 2, n])];
                Ok(Found { addresses, ttl: Some(Duration::from_secs(10)) })
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_asked_for_again_when_its_time_is_over() {
        let day = Duration::from_secs(86_400);
        LocalSet::new()
            .run_until(async {
                let lookup = Arc::new(Counting::default());
                let resolver = Resolver::new(lookup.clone());
                let last = |addresses: &[IpAddr]| match addresses {
                    [IpAddr::V4(only)] => only.octets()[3],
                    other => panic!("{other:?}"),
                };
                let origin = Origin::plain("a.example", 80);
                let current = || resolver.current(&origin, day).map(|found| last(&found));
                assert_eq!(current(), None);
                assert_eq!(last(&resolver.resolve("a.example", day).await.unwrap()), 1);
                advance(Duration::from_secs(9)).await;
                // The answer's own lifetime counts, not ours.
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(1), 1));
                advance(Duration::from_secs(2)).await;
                assert_eq!((current(), current()), (Some(1), Some(1)));
                tokio::task::yield_now().await;
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(2), 2));
                // A lookup that fails leaves what is connected alone, and is repeated.
                advance(Duration::from_secs(11)).await;
                current();
                tokio::task::yield_now().await;
                assert_eq!(current(), Some(2));
                tokio::task::yield_now().await;
                assert_eq!((current(), lookup.0.load(Relaxed)), (Some(4), 4));
                // A new connection waits for the answer instead.
                advance(Duration::from_secs(11)).await;
                assert_eq!(last(&resolver.resolve("a.example", day).await.unwrap()), 5);
            })
            .await;
    }
}
