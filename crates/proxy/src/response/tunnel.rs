//! Tunnels that open after an answer.

use upstream::connection::tunnel::UpstreamTunnel;

use crate::client::limits::Lifetime;
use crate::client::tunnel_places::TunnelPermit;
use crate::response::transaction::Transaction;

/// A tunnel that opens after its answer was sent.
pub(crate) struct Tunnel {
    pub upstream: UpstreamTunnel,
    pub transaction: Transaction,
    pub lifetime: Lifetime,
    /// Its place among all that may be open.
    pub place: Option<TunnelPermit>,
}
