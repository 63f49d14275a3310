//! Settings of the proxy, each with its unit, default and reason. Plain data: the command line
//! fills it, the rest of the crate reads it, and a reload replaces it as a whole.

pub mod control;
pub mod fill;

use std::sync::Arc;

use crate::message::forwarded::Forwarded;
use crate::message::request_id::RequestIds;
use net::certificate_store::CertificateStore;
use upstream::message::pseudonym::Pseudonym;
use upstream::settings::limits::UpstreamLimits;

use crate::client::http2_options::Http2Options;
use crate::client::limits::{ClientLimits, TunnelLimits};
use crate::options::fill::FillOptions;
use crate::origin::site::Front;
use crate::rules::access::Access;
use crate::rules::client_edits::ClientEdits;
use crate::rules::purging::Purging;
use crate::rules::request_rules::Rules;

/// All settings of the proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of proxy that the listeners form, and its sites.
    pub front: Front,
    /// The access rules.
    pub access: Arc<Access>,
    /// The name of this proxy in `Via` and `Cache-Status`.
    pub pseudonym: Pseudonym,
    /// Limits of the client side.
    pub client: ClientLimits,
    /// The options of HTTP/2 with clients.
    pub http2: Http2Options,
    /// Certificates for listeners that use TLS; `None` if no listener does.
    pub keyring: Option<Arc<CertificateStore>>,
    /// Limits of the origin side.
    pub upstream: UpstreamLimits,
    /// The options of fetches for the cache.
    pub fill: FillOptions,
    /// The caching settings, where HTTP's rules leave a choice.
    pub semantics: semantics::Settings,
    /// Information about a request's path to the proxy that upstreams are given.
    pub forwarded: Forwarded,
    /// The rules that treat some requests differently.
    pub rules: Rules,
    /// Edits of the responses to clients that no rule edits.
    pub client_edits: Option<Arc<ClientEdits>>,
    /// The options of request ids.
    pub request_id: RequestIds,
    /// The options of purging.
    pub purging: Purging,
    /// The limits of tunnels: CONNECT and upgraded connections.
    pub tunnels: TunnelLimits,
    /// Number of caches configured at start, including those that cannot be used.
    pub caches: usize,
}

impl Options {
    /// Takes over the state that a reload must not change: that of the servers of sites that
    /// existed before, and the number of caches.
    pub(crate) fn adopt(&mut self, before: &Options) {
        self.front.adopt(&before.front);
        self.caches = before.caches;
    }

    /// Creates options with their defaults.
    pub fn new(front: Front, access: Arc<Access>) -> Options {
        Options {
            front,
            access,
            pseudonym: Pseudonym::default(),
            client: ClientLimits::default(),
            http2: Http2Options::default(),
            keyring: None,
            upstream: UpstreamLimits::default(),
            fill: FillOptions::default(),
            semantics: semantics::Settings::default(),
            forwarded: Forwarded::default(),
            rules: Rules::default(),
            client_edits: None,
            request_id: RequestIds::default(),
            purging: Purging::default(),
            tunnels: TunnelLimits::default(),
            caches: 0,
        }
    }
}
