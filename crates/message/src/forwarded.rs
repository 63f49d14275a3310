//! The description of a request's way for upstreams (RFC 7239).

/// The settings of what upstreams are told of a request's way to the proxy (RFC 7239).
#[derive(Clone, Debug, Default)]
pub struct Forwarded {
    /// Fields that are added. Default none; the command line has others for a reverse proxy.
    pub add: Vec<semantics::forwarded::Field>,
    /// Networks of proxies in front of a reverse proxy, whose own such fields are kept. Those of
    /// other clients are removed. Default none. A forward proxy keeps all.
    pub trust: Vec<ipnet::IpNet>,
}
