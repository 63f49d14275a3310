//! Target of a request: its site, and the URL requested there.

use std::fmt::Write as _;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::message::scheme::Scheme;
use net::address::bare;
use semantics::scanned_path::ScannedPath;
use semantics::{Url, cache_key};
use upstream::send::origin::Origin;
use upstream::settings::limits::UpstreamLimits;

use crate::origin::site::Site;
use crate::rules::aliases::Aliases;

/// Target of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub site: &'a Site,
    /// Scheme of the URL that the request names.
    pub scheme: Scheme,
    /// Host as the client wrote it: any case; an IPv6 literal with its brackets.
    pub host: &'a str,
    /// Port; the scheme's default port if none was given.
    pub port: u16,
    /// The site's aliases, if they count as one name.
    pub aliases: Option<&'a Aliases>,
    /// Path and query as sent: begins with `/` or `?`, or is `*` or empty.
    pub path: ScannedPath<'a>,
}

impl<'a> Target<'a> {
    /// Returns the effective host and port, used in the key and sent to upstreams.
    pub fn place(&self) -> (&'a str, u16) {
        let one = |of: &'a Aliases| of.canonical(self.port, self.scheme.default_port());
        self.aliases.and_then(one).unwrap_or((self.host, self.port))
    }

    /// Returns whether the effective host and port are those that the client named.
    pub fn is_as_named(&self) -> bool {
        let (host, port) = self.place();
        host.eq_ignore_ascii_case(self.host) && port == self.port
    }

    /// Returns [`Target::place`] as `host[:port]` in the canonical form that the key has and that
    /// origins get in `Host`.
    pub fn authority(&self) -> String {
        let (host, port) = self.place();
        let mut text = String::with_capacity(host.len() + "[]:65535".len());
        match bare(host).parse::<Ipv6Addr>() {
            Ok(address) => {
                let _ = write!(text, "[{address}]");
            }
            Err(_) => {
                text.push_str(host);
                text.make_ascii_lowercase();
            }
        }
        if port != self.scheme.default_port() {
            let _ = write!(text, ":{port}");
        }
        text
    }

    /// Returns the URL of the target in its site's spelling; `None` when path or host is not valid.
    pub fn url(&self, limits: &UpstreamLimits) -> Option<Url> {
        let Target { scheme, host, path, .. } = self;
        let authority = match host.is_empty() {
            true => self.origin(limits).name(),
            false => self.authority(),
        };
        Some(self.site.canonical(Url::new(scheme.name(), &authority, path.text).ok()?))
    }

    /// Returns the host and the path with query of [`Target::url`], the host in any case. `None` if
    /// they may differ from those of the request.
    pub fn normal_place(&self) -> Option<(&'a str, ScannedPath<'a>)> {
        let (host, _) = self.place();
        let is_normal =
            cache_key::is_normal(host, self.path) && self.site.is_canonical(self.path.text);
        is_normal.then_some((host, self.path))
    }

    pub fn origin(&self, limits: &UpstreamLimits) -> Arc<dyn Origin> {
        self.site.origin(self, limits)
    }
}
