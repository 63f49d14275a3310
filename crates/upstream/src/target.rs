//! Where a request goes, and who may go there.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::group::Group;
use crate::origin::Origin;

/// Says whether an address may be connected to for the request at hand. It is asked for each
/// address, also of a connection that is there.
pub type Check<'a> = &'a dyn Fn(SocketAddr) -> bool;

/// Where a request goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// To this server.
    One(Arc<Origin>),
    /// To one of a site's servers.
    Group(Arc<Group>),
}

impl Destination {
    /// The server that stands for all.
    pub fn first(&self) -> &Arc<Origin> {
        match self {
            Destination::One(origin) => origin,
            Destination::Group(group) => group.first(),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::One(origin) => origin.fmt(f),
            Destination::Group(group) => group.fmt(f),
        }
    }
}
