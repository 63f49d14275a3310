//! What a proxy stands in front of: every origin server, or sites with servers of their own.

use std::sync::Arc;

use crate::rules::aliases::Aliases;
use crate::upstream::group::Group;

/// The two kinds of proxy.
#[derive(Clone, Debug, Default)]
pub enum Front {
    /// Clients name the origin in an absolute-form request target, or ask for a tunnel.
    #[default]
    Forward,
    /// The origin follows from the configuration; the request's host picks the site.
    Reverse(Vec<Site>),
}

/// One site of a reverse proxy.
#[derive(Clone, Debug)]
pub struct Site {
    /// A name that is unique among the sites; part of every cache key of this site.
    pub name: String,
    /// Hosts (lower case, without port) that belong to this site. Empty: every host that no other
    /// site claims.
    pub hosts: Vec<String>,
    /// The servers that it is fetched from.
    pub upstream: Arc<Group>,
    /// The `Host` the upstream gets: the client's (`true`, the default of the command line) or the
    /// upstream's own authority.
    pub pass_host: bool,
    /// Which of its names are one.
    pub aliases: Aliases,
}
