//! Names to addresses, through the system's resolver, with a small cache per worker so that a
//! burst of misses asks once. Failures are not remembered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Names remembered at most; past that the cache is emptied.
const NAMES_MAX: usize = 4096;

/// The resolver of one worker.
#[derive(Default)]
pub(crate) struct Resolver {
    known: RefCell<HashMap<Box<str>, Known>>,
}

struct Known {
    addresses: Rc<[IpAddr]>,
    until: Instant,
}

impl Resolver {
    /// The addresses of `host` (a name, or an IP literal without brackets), in the order in which
    /// to try them: families alternate (RFC 8305 section 4). Never empty.
    pub async fn resolve(&self, host: &str, ttl: Duration) -> io::Result<Rc<[IpAddr]>> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(Rc::from([literal]));
        }
        if let Some(known) = self.known.borrow().get(host)
            && known.until > Instant::now()
        {
            return Ok(known.addresses.clone());
        }
        let found = tokio::net::lookup_host((host, 0)).await?;
        let addresses: Rc<[IpAddr]> = alternate(found.map(|address| address.ip())).into();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        let until = Instant::now() + ttl;
        known.insert(host.into(), Known { addresses: addresses.clone(), until });
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
}
