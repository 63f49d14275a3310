//! Maps and sets of IP networks, looked up by address.
//!
//! They are prefix trees: a lookup follows the bits of the address, so its cost does not grow with
//! networks that do not contain it. A lookup allocates nothing.

use std::net::IpAddr;

use ipnet::IpNet;
use prefix_trie::joint::{JointPrefixMap, JointPrefixSet};

/// A map from networks to values.
#[derive(Clone, Debug)]
pub struct NetworkMap<T>(JointPrefixMap<IpNet, T>);

impl<T> NetworkMap<T> {
    /// Calls `found` with the value of each network that contains `ip`.
    pub fn each(&self, ip: IpAddr, found: impl FnMut(&T)) {
        self.0.cover_values(&IpNet::from(ip)).for_each(found);
    }

    /// Returns the longest network that contains `ip`, and its value.
    pub fn longest(&self, ip: IpAddr) -> Option<(IpNet, &T)> {
        self.0.get_lpm(&IpNet::from(ip))
    }
}

impl<T> FromIterator<(IpNet, T)> for NetworkMap<T> {
    /// Creates a map. If a network occurs several times, its last value is kept.
    fn from_iter<I: IntoIterator<Item = (IpNet, T)>>(networks: I) -> NetworkMap<T> {
        NetworkMap(networks.into_iter().collect())
    }
}

/// A set of networks.
#[derive(Clone, Debug, Default)]
pub struct Networks(JointPrefixSet<IpNet>);

impl Networks {
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a network in the set contains `ip`.
    pub fn contain(&self, ip: IpAddr) -> bool {
        self.0.get_lpm(&IpNet::from(ip)).is_some()
    }
}

impl From<Vec<IpNet>> for Networks {
    fn from(networks: Vec<IpNet>) -> Networks {
        Networks(networks.into_iter().collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn all_networks_that_contain_an_address_are_found() {
        let texts = [
            "10.1.2.3/8",
            "10.1.0.0/16",
            "10.1.0.0/17",
            "10.1.0.1/32",
            "0.0.0.0/0",
            "11.0.0.0/8",
            "2001:db8::/32",
            "2001:db8::1/128",
            "::ffff:10.0.0.0/104",
        ];
        let networks: Vec<IpNet> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let map: NetworkMap<usize> =
            networks.iter().enumerate().map(|(number, network)| (*network, number)).collect();
        for ip in
            ["10.1.0.1", "10.1.200.1", "10.2.0.1", "1.1.1.1", "2001:db8::1", "::1", "::ffff:a00:1"]
        {
            let ip: IpAddr = ip.parse().unwrap();
            let contains =
                |(number, network): (usize, &IpNet)| network.contains(&ip).then_some(number);
            let mut expected: Vec<usize> =
                networks.iter().enumerate().filter_map(contains).collect();
            let mut found = Vec::new();
            map.each(ip, |number| found.push(*number));
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{ip}");
            let longest = expected.iter().max_by_key(|number| networks[**number].prefix_len());
            assert_eq!(map.longest(ip).map(|(_, number)| number), longest, "{ip}");
            let of_v4: Networks = vec![networks[0], networks[6]].into();
            assert_eq!(of_v4.contain(ip), expected.contains(&0) || expected.contains(&6), "{ip}");
        }
        assert!(Networks::default().is_empty() && !Networks::default().contain([1; 4].into()));
    }
}
