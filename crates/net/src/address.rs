//! Classification of IP addresses: this machine, a private network, or the public internet.
//!
//! The address that will be connected to is checked, never the name in the URL: names and decimal
//! or octal spellings all resolve to an address. An IPv6 address may embed an IPv4 address to which
//! a translator or tunnel forwards (IPv4-mapped, NAT64, 6to4, Teredo). Every address therefore has
//! one or more *faces*, each of which is checked.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the address as a kernel treats it: IPv4-mapped IPv6 (`::ffff:a.b.c.d`) becomes IPv4.
pub fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Returns the address in its canonical form, followed by the embedded IPv4 address, if any.
pub fn faces(ip: IpAddr) -> impl Iterator<Item = IpAddr> {
    let ip = canonical(ip);
    let inner = match ip {
        IpAddr::V6(v6) => embedded(v6).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    [Some(ip), inner].into_iter().flatten()
}

/// Returns the IPv4 address to which a translator or tunnel forwards `ip`.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        // `::` and `::1` are addresses in their own right; the rest of ::/96 is IPv4-compatible
        // (RFC 4291 section 2.5.5.1).
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0, a, b] => Some(v4(a, b)),
        // IPv4-translated (RFC 2765).
        [0, 0, 0, 0, 0xffff, 0, a, b] => Some(v4(a, b)),
        // NAT64: the well-known prefix (RFC 6052) and the local one (RFC 8215), assuming the
        // address at the end as in a /96.
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => Some(v4(a, b)),
        [0x64, 0xff9b, 1, _, _, _, a, b] => Some(v4(a, b)),
        // 6to4 (RFC 3056).
        [0x2002, a, b, ..] => Some(v4(a, b)),
        // Teredo (RFC 4380): the client's address with its bits inverted.
        [0x2001, 0, _, _, _, _, a, b] => Some(v4(!a, !b)),
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, a, b] => Some(v4(a, b)),
        _ => None,
    }
}

/// Returns whether an address is outside the public internet: unspecified, loopback, link-local,
/// private, shared (CGNAT), multicast or reserved. Checks only the address itself; call it for each
/// of its [`faces`].
pub fn is_special(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            a == 0
                || v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || (a == 100 && b & 0xc0 == 64)
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && b & 0xfe == 18)
                || a >= 224
        }
        IpAddr::V6(v6) => {
            let s = v6.segments();
            v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || s[0] & 0xfe00 == 0xfc00
                // Link-local and the former site-local.
                || s[0] & 0xff80 == 0xfe80
                // Discard only (RFC 6666).
                || s[..4] == [0x100, 0, 0, 0]
                // NAT64 with a locally assigned prefix: its target is unknown here.
                || s[..3] == [0x64, 0xff9b, 1]
        }
    }
}

/// The addresses of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locals {
    addresses: HashSet<IpAddr>,
}

impl Locals {
    /// Reads the addresses of the machine's interfaces. They can change while the process runs, so
    /// read them again from time to time.
    pub fn of_this_machine() -> io::Result<Locals> {
        Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
    }

    /// Returns the addresses of the interfaces in canonical form, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    /// Returns whether a connection to `ip` ends on this machine: an interface address, any
    /// loopback address, or the unspecified address, which connect treats as loopback.
    pub fn contains(&self, ip: IpAddr) -> bool {
        faces(ip).any(|face| {
            face.is_loopback() || face.is_unspecified() || self.addresses.contains(&face)
        })
    }
}

impl FromIterator<IpAddr> for Locals {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Locals {
        Locals { addresses: addresses.into_iter().map(canonical).collect() }
    }
}

/// Strips the brackets of an IPv6 literal.
pub fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn special(text: &str) -> bool {
        faces(text.parse().unwrap()).any(is_special)
    }

    #[test]
    fn special_addresses() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "ff02::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "::10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2002:c0a8:101::",
            // Teredo with the client address 10.0.0.1, inverted.
            "2001:0:808:808::f5ff:fffe",
            "::ffff:0:127.0.0.1",
            "2a00::5efe:10.0.0.1",
        ] {
            assert!(special(text), "{text} should be special");
        }
    }

    #[test]
    fn public_addresses() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "2606:4700::1111",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "fbff::1",
            "2001:4860:4860::8888",
        ] {
            assert!(!special(text), "{text} should be public");
        }
    }

    #[test]
    fn this_machine() {
        let locals: Locals =
            ["203.0.113.9", "2001:db8::9"].map(|a| a.parse().unwrap()).into_iter().collect();
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "::",
            "::1",
            "203.0.113.9",
            "2001:db8::9",
            "::ffff:203.0.113.9",
            "::ffff:0.0.0.0",
            "64:ff9b::203.0.113.9",
            "2002:cb00:7109::",
        ] {
            assert!(locals.contains(text.parse().unwrap()), "{text}");
        }
        for text in ["203.0.113.8", "2001:db8::8", "10.0.0.1", "::ffff:203.0.113.8"] {
            assert!(!locals.contains(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn interfaces_are_readable() {
        assert!(Locals::of_this_machine().unwrap().contains(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
