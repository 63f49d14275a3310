//! Options for describing a request's path to upstreams (RFC 7239), and for trusting the proxies in
//! front.

use std::net::IpAddr;

use net::address;
use net::networks::Networks;
use semantics::Fields;
use semantics::forwarded::X_FORWARDED_FOR;
use semantics::trusted::TrustedFields;

/// Options for what upstreams are told about a request's path to the proxy (RFC 7239).
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Fields to add. Default none; the command line has other defaults for a reverse proxy.
    pub add: Vec<semantics::forwarded::Field>,
    /// Networks of trusted proxies in front of a reverse proxy. Default none. A forward proxy keeps
    /// the fields of all clients.
    pub trust: Networks,
    /// The fields of trusted proxies to believe. All other forwarding fields, and those of other
    /// clients, are removed.
    pub trust_fields: TrustedFields,
    /// Sends `Via` to upstreams; if false, `CDN-Loop` instead. Default true.
    pub via: bool,
}

impl Default for Forwarded {
    fn default() -> Forwarded {
        let trust_fields = TrustedFields::default();
        Forwarded { add: Vec::new(), trust: Networks::default(), trust_fields, via: true }
    }
}

impl Forwarded {
    /// Returns whether a client is a trusted proxy.
    pub fn trusts(&self, client: IpAddr) -> bool {
        self.trust.contain(address::canonical(client))
    }

    /// Returns the address of the client of a request from `peer`: that of `peer`, unless it is a
    /// trusted proxy; then the last address in `X-Forwarded-For` that is not one.
    pub fn client(&self, peer: IpAddr, fields: &impl Fields) -> IpAddr {
        let mut client = address::canonical(peer);
        if !self.trust.contain(client) {
            return client;
        }
        let lines: Vec<&[u8]> = fields.lines(&X_FORWARDED_FOR).collect();
        let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
        for hop in hops {
            let hop = std::str::from_utf8(hop.trim_ascii()).ok().and_then(|hop| hop.parse().ok());
            // What comes before a hop that is no address is not known to be true.
            let Some(hop) = hop else { break };
            client = address::canonical(hop);
            if !self.trust.contain(client) {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use ipnet::IpNet;

    use super::*;

    #[test]
    fn the_client_is_the_last_hop_that_is_not_trusted() {
        let trust: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).into();
        let forwarded = Forwarded { trust: trust.into(), ..Forwarded::default() };
        for (peer, lines, expected) in [
            ("1.2.3.4", &["9.9.9.9"][..], "1.2.3.4"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
            ("10.0.0.1", &["9.9.9.9", "1.2.3.4,10.0.0.2"], "1.2.3.4"),
            ("::ffff:10.0.0.1", &["2001:db8::1, fd00::2"], "2001:db8::1"),
            ("10.0.0.1", &["9.9.9.9, unknown, 10.0.0.3"], "10.0.0.3"),
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
        ] {
            let mut fields = HeaderMap::new();
            for line in lines {
                fields.append(&X_FORWARDED_FOR, HeaderValue::from_static(line));
            }
            let client = forwarded.client(peer.parse().unwrap(), &fields);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }
}
