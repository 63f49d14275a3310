//! Every setting of the proxy, each with its unit, its default and the reason for it. Plain data:
//! the command line fills it, the rest of the crate reads it, and a reload replaces it whole.

pub mod control;
pub mod fill;

use std::sync::Arc;

use message::forwarded::Forwarded;
use message::pseudonym::Pseudonym;
use net::certificate_store::CertificateStore;
use upstream::settings::limits::UpstreamLimits;

use crate::client::http2_options::Http2Options;
use crate::client::limits::{ClientLimits, TunnelLimits};
use crate::options::fill::FillOptions;
use crate::origin::site::Front;
use crate::rules::access::Access;
use crate::rules::purging::Purging;
use crate::rules::request_rules::Rules;

/// All settings of the proxy.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of proxy that the listeners are, and its sites.
    pub front: Front,
    /// The access rules.
    pub access: Arc<Access>,
    /// The name of this proxy in `Via` and `Cache-Status`.
    pub pseudonym: Pseudonym,
    /// Limits of the client side.
    pub client: ClientLimits,
    /// The options of HTTP/2 towards clients.
    pub http2: Http2Options,
    /// Certificates for listeners that speak TLS; `None`: no listener does.
    pub keyring: Option<Arc<CertificateStore>>,
    /// Limits of the origin side.
    pub upstream: UpstreamLimits,
    /// The options of fetches for the cache.
    pub fill: FillOptions,
    /// The settings of caching, where its rules leave a choice.
    pub semantics: semantics::Settings,
    /// What upstreams are told of a request's way to the proxy.
    pub forwarded: Forwarded,
    /// The rules by which some requests are treated differently.
    pub rules: Rules,
    /// The options of purging.
    pub purging: Purging,
    /// The limits of tunnels, of CONNECT and of connections that change their protocol.
    pub tunnels: TunnelLimits,
    /// How many caches were configured at the start, with those that cannot be used.
    pub caches: usize,
}

impl Options {
    /// Takes over what a reload does not change: the state of the servers of sites that were there
    /// before, and the number of caches.
    pub(crate) fn adopt(&mut self, before: &Options) {
        self.front.adopt(&before.front);
        self.caches = before.caches;
    }

    /// Makes options with their defaults.
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
            purging: Purging::default(),
            tunnels: TunnelLimits::default(),
            caches: 0,
        }
    }
}
