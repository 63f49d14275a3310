//! Chooses the address at which other nodes reach this one, and its name, if they are not
//! configured.
//!
//! A node that listens on all addresses of a machine is reached at the private address if there is
//! exactly one, else at the public address if there is exactly one, as Consul and other HashiCorp
//! programs choose. Among several none is chosen, because a wrong one would show up as nodes that
//! do not find each other.

use std::net::{IpAddr, SocketAddr};

use fleet::MemberId;
use fleet::member::Address;

/// Returns the address at which a node that listens on `listen` is reached, on a machine with these
/// addresses. The error is a sentence.
pub fn advertised(listen: SocketAddr, of_machine: &[IpAddr]) -> Result<Address, String> {
    let ip = if listen.ip().is_unspecified() {
        only(listen.ip(), of_machine)?
    } else {
        listen.ip().to_canonical()
    };
    SocketAddr::new(ip, listen.port()).to_string().parse().map_err(|_| {
        format!(
            "expected fleet.advertise, host:port, because {listen} is not the address of a \
                 single node"
        )
    })
}

/// Chooses one of a machine's addresses.
fn only(any: IpAddr, of_machine: &[IpAddr]) -> Result<IpAddr, String> {
    let mut known: Vec<IpAddr> =
        of_machine.iter().copied().filter(|ip| any.is_ipv6() || ip.is_ipv4()).collect();
    known.sort_unstable();
    known.dedup();
    for reach in [Reach::Private4, Reach::Private6, Reach::Public] {
        let found: Vec<IpAddr> =
            known.iter().copied().filter(|ip| reach_of(*ip) == reach).collect();
        match &found[..] {
            [] => {}
            [one] => return Ok(*one),
            several => {
                let several = several.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "{any} means all addresses of this machine, which has several: {several}; set \
                     fleet.advertise to the one by which other nodes reach it"
                ));
            }
        }
    }
    Err(format!(
        "{any} means all addresses of this machine, which has none that other machines can reach: \
         set fleet.advertise, or listen on 127.0.0.1 for nodes on this machine"
    ))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// From private networks (RFC 1918), or a provider's (RFC 6598).
    Private4,
    /// From private networks in IPv6 (RFC 4193).
    Private6,
    Public,
    /// From this machine or link only, or not at all.
    Near,
}

fn reach_of(ip: IpAddr) -> Reach {
    match ip {
        IpAddr::V4(ip) if ip.is_private() || matches!(ip.octets(), [100, 64..=127, ..]) => {
            Reach::Private4
        }
        IpAddr::V6(ip) if ip.is_unique_local() => Reach::Private6,
        IpAddr::V4(ip) if ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() => {
            Reach::Near
        }
        IpAddr::V6(ip) if ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified() => {
            Reach::Near
        }
        ip if ip.is_multicast() => Reach::Near,
        _ => Reach::Public,
    }
}

/// Returns whether the host name always denotes this machine, so that no other machine can be
/// meant.
pub fn is_this_machine(host: &str) -> bool {
    let ip = host.parse::<IpAddr>().map(|ip| ip.to_canonical());
    ip.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

/// Builds the name of the node that listens at this address of a machine. The machine's name alone
/// would be shared by all nodes on it. The error is a sentence.
pub fn node_name(machine: &str, listen: SocketAddr) -> Result<MemberId, String> {
    let machine = machine.to_ascii_lowercase();
    if is_this_machine(&machine) || machine.starts_with("localhost.") {
        return Err(format!(
            "this machine is called {machine:?}, which is not unique: set fleet.node to a name \
             that no other node has"
        ));
    }
    let port = listen.port();
    let name = match listen.ip() {
        ip if ip.is_unspecified() => format!("{machine}-{port}"),
        // Several nodes may have one machine, each an address of it.
        ip => format!("{machine}-{}-{port}", ip.to_string().replace(':', ".")),
    };
    name.parse().map_err(|why| {
        format!("cannot derive a node name from this machine's name; set fleet.node: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(listen: &str, of_machine: &[&str]) -> Result<String, String> {
        let all: Vec<IpAddr> = of_machine.iter().map(|ip| ip.parse().unwrap()).collect();
        advertised(listen.parse().unwrap(), &all).map(|address| address.to_string())
    }

    #[test]
    fn the_only_private_address_is_advertised_else_the_only_public_one() {
        let near = ["127.0.0.1", "::1", "fe80::1", "169.254.3.4"];
        let with = |others: &[&str]| {
            let all = [&near[..], others].concat();
            (chosen("0.0.0.0:3130", &all), chosen("[::]:3130", &all))
        };
        let both = |text: &str| (Ok(text.to_owned()), Ok(text.to_owned()));
        assert_eq!(with(&["10.0.0.7"]), both("10.0.0.7:3130"));
        assert_eq!(with(&["100.64.0.7", "203.0.113.9"]), both("100.64.0.7:3130"));
        assert_eq!(with(&["203.0.113.9", "203.0.113.9"]), both("203.0.113.9:3130"));
        let (four, six) = with(&["fd00::7", "2001:db8::7"]);
        assert!(four.unwrap_err().contains("has none that other machines can reach"));
        assert_eq!(six.unwrap(), "[fd00::7]:3130");
        let (several, _) = with(&["172.17.0.1", "10.0.0.7"]);
        let several = several.unwrap_err();
        assert!(several.contains("has several: 10.0.0.7, 172.17.0.1; set"), "{several}");
    }

    #[test]
    fn an_address_that_was_given_is_advertised() {
        assert_eq!(chosen("127.0.0.1:3130", &["10.0.0.7"]).unwrap(), "127.0.0.1:3130");
        assert_eq!(chosen("[2001:db8::7]:3130", &[]).unwrap(), "[2001:db8::7]:3130");
        assert_eq!(chosen("[::ffff:10.0.0.7]:3130", &[]).unwrap(), "10.0.0.7:3130");
        assert!(chosen("10.0.0.7:0", &[]).unwrap_err().contains("fleet.advertise"));
    }

    #[test]
    fn a_node_is_called_like_its_machine_and_where_it_listens() {
        let at = |machine, listen: &str| {
            node_name(machine, listen.parse().unwrap()).map(|id| id.to_string())
        };
        assert_eq!(at("web-1", "10.0.0.7:3130").unwrap(), "web-1-10.0.0.7-3130");
        assert_eq!(at("web-1", "[2001:db8::7]:3130").unwrap(), "web-1-2001.db8..7-3130");
        let named = |machine| at(machine, "[::]:3130");
        assert_eq!(named("Larder-0").unwrap(), "larder-0-3130");
        assert_eq!(named("web1.example.com").unwrap(), "web1.example.com-3130");
        for (machine, why) in [
            ("localhost", "which is not unique"),
            ("localhost.localdomain", "which is not unique"),
            ("a b", "set fleet.node"),
            (&"x".repeat(60), "set fleet.node"),
        ] {
            let said = named(machine).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_very_name() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["0.0.0.0", "10.0.0.1", "localhost.example", "127.0.0.1.example", "::"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
