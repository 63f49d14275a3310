//! Tunnels that open after a response.

use upstream::connection::tunnel::UpstreamTunnel;

use crate::client::limits::Lifetime;
use crate::client::tunnel_places::TunnelPermit;
use crate::response::transaction::Transaction;

/// A tunnel that opens once its response head has been sent.
pub(crate) struct Tunnel {
    pub upstream: UpstreamTunnel,
    pub transaction: Transaction,
    pub lifetime: Lifetime,
    /// Its permit among all open tunnels.
    pub place: Option<TunnelPermit>,
}
