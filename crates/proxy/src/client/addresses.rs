//! Counts open connections per client address.
//!
//! `client.connections-per-address` keeps one client from using up the connection limit. It is off
//! by default, as in other proxies: many users, or a load balancer, may share one address. An IPv6
//! client usually controls a /64 network, so each /64 counts as one address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use net::address;

#[derive(Default)]
pub(crate) struct Addresses {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One counted connection of an address, uncounted on drop.
pub(crate) struct AddressSlot {
    addresses: Arc<Addresses>,
    of: IpAddr,
}

/// Returns the address under which connections are counted: the address itself for IPv4, its /64
/// network for IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address::canonical(address) {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into(),
    }
}

impl Addresses {
    /// Counts one more connection of `client`. Returns `None` if it already has `most`.
    pub fn enter(self: &Arc<Self>, client: IpAddr, most: usize) -> Option<AddressSlot> {
        let of = network(client);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(of).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(AddressSlot { addresses: self.clone(), of })
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.of) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_limit() {
        let addresses = Arc::new(Addresses::default());
        let enter = |client: &str| addresses.enter(client.parse().unwrap(), 2);
        let held = [enter("192.0.2.1"), enter("::ffff:192.0.2.1"), enter("192.0.2.2")];
        assert!(held.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none());
        let six = [enter("2001:db8::1"), enter("2001:db8::ffff:0:0:1")];
        assert!(six.iter().all(Option::is_some));
        assert!(enter("2001:db8:0:0:1234::").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        drop((held, six));
        assert!(addresses.open.lock().unwrap().is_empty());
    }
}
