//! The servers that one site of a reverse proxy is fetched from.

use std::sync::Arc;

use super::origin::Origin;

/// The servers of one site.
#[derive(Debug)]
pub struct Group {
    servers: Vec<Server>,
}

/// One server of a site.
#[derive(Debug)]
pub struct Server {
    /// Where it is and how it is spoken to.
    pub origin: Arc<Origin>,
}

impl Group {
    /// A site that is fetched from one server.
    pub fn one(origin: Origin) -> Group {
        Group { servers: vec![Server { origin: Arc::new(origin) }] }
    }

    /// The servers, in the order of the configuration.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server that the site's requests are named after when they name no host.
    pub(crate) fn first(&self) -> &Arc<Origin> {
        &self.servers[0].origin
    }
}
