//! Tunnels that open after a response.

use upstream::connection::tunnel::UpstreamTunnel;

use crate::client::limits::Lifetime;
use crate::request::held::Held;
use crate::response::transaction::Transaction;

pub(crate) struct Tunnel {
    pub upstream: UpstreamTunnel,
    pub transaction: Transaction,
    pub lifetime: Lifetime,
    pub held: Option<Box<Held>>,
}
