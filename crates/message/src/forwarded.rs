//! The description of a request's way for upstreams (RFC 7239), and the proxies in front that are
//! believed about it.

use std::net::IpAddr;

use net::address;
use net::networks::Networks;
use semantics::trusted::TrustedFields;

/// The settings of what upstreams are told of a request's way to the proxy (RFC 7239).
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Fields that are added. Default none; the command line has others for a reverse proxy.
    pub add: Vec<semantics::forwarded::Field>,
    /// Networks of proxies in front of a reverse proxy. Default none. A forward proxy keeps the
    /// fields of all clients.
    pub trust: Networks,
    /// The fields of theirs that are believed. All others, and those of other clients, are removed.
    pub trust_fields: TrustedFields,
    /// Upstreams are sent `Via`; else `CDN-Loop` in its place. Default true.
    pub via: bool,
}

impl Default for Forwarded {
    fn default() -> Forwarded {
        let trust_fields = TrustedFields::default();
        Forwarded { add: Vec::new(), trust: Networks::default(), trust_fields, via: true }
    }
}

impl Forwarded {
    /// Returns whether a client is a proxy that is trusted.
    pub fn trusts(&self, client: IpAddr) -> bool {
        self.trust.contain(address::canonical(client))
    }
}
