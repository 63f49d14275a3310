//! Settings of the proxy, each with its unit, default and reason. Plain data: the command line
//! fills it, the rest of the crate reads it, and a reload replaces it as a whole.

pub mod control;
pub mod fill;

use std::borrow::Cow;
use std::sync::Arc;

use crate::message::forwarded::Forwarded;
use crate::message::request_id::RequestIds;
use crate::message::trace_context::Tracing;
use compression::{Coding, Compress};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap};
use net::certificate_store::CertificateStore;
use semantics::compressed;
use upstream::message::pseudonym::Pseudonym;
use upstream::settings::limits::UpstreamLimits;

use crate::client::http2_options::Http2Options;
use crate::client::limits::{ClientLimits, TunnelLimits};
use crate::options::fill::FillOptions;
use crate::origin::site::{Front, Site};
use crate::rules::access::Access;
use crate::rules::client_edits::ClientEdits;
use crate::rules::purging::Purging;
use crate::rules::request_rules::{Rule, Rules};

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
    /// The responses of origins that are compressed.
    pub compress: Compress,
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
    /// What is done about traces.
    pub tracing: Tracing,
    /// The options of purging.
    pub purging: Purging,
    /// The limits of tunnels: CONNECT and upgraded connections.
    pub tunnels: TunnelLimits,
    /// Number of caches configured at start, including those that cannot be used.
    pub caches: usize,
}

impl Options {
    /// Takes over the state that a reload must not change: that of the servers of sites that
    /// existed before, the number of caches, and the counters of limits.
    pub(crate) fn adopt(&mut self, before: &Options) {
        self.front.adopt(&before.front);
        self.caches = before.caches;
        self.rules.adopt(&before.rules);
    }

    /// Returns the site whose origin gets the requests to `site` under a rule.
    pub(crate) fn origin_site<'a>(&'a self, site: &'a Site, rule: Option<&Rule>) -> &'a Site {
        let named = rule.and_then(|rule| rule.actions.as_ref()?.upstream.as_deref());
        named.and_then(|name| self.front.site_named(name)).unwrap_or(site)
    }

    /// Returns the limits of connections to origin servers for requests under this rule.
    pub(crate) fn limits(&self, rule: Option<&Rule>) -> Cow<'_, UpstreamLimits> {
        match rule.and_then(|rule| rule.actions.as_ref()) {
            Some(actions) => actions.timeouts.of(&self.upstream),
            None => Cow::Borrowed(&self.upstream),
        }
    }

    /// Returns the codings in which responses to requests under this rule are compressed.
    pub(crate) fn codings<'a>(&'a self, rule: Option<&'a Rule>) -> &'a [Coding] {
        let own = rule.and_then(|rule| rule.compress.as_deref());
        own.unwrap_or(&self.compress.codings)
    }

    /// Returns whether a response with this status and these fields may be compressed, whatever its
    /// length.
    pub(crate) fn may_compress(&self, status: StatusCode, fields: &HeaderMap) -> bool {
        let kind = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| self.compress.has_type(kind))
            && compressed::is_permitted(status, fields)
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
            compress: Compress::default(),
            semantics: semantics::Settings::default(),
            forwarded: Forwarded::default(),
            rules: Rules::default(),
            client_edits: None,
            request_id: RequestIds::default(),
            tracing: Tracing::default(),
            purging: Purging::default(),
            tunnels: TunnelLimits::default(),
            caches: 0,
        }
    }
}
