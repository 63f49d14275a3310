//! Options for describing a request's path to upstreams (RFC 7239), and for trusting the proxies in
//! front.

use std::net::IpAddr;

use net::address;
use net::networks::Networks;
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
}
