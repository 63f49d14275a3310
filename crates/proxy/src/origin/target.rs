//! The target of a request: the site, and what it asks there for.

use std::fmt::Write as _;
use std::net::Ipv6Addr;
use std::sync::Arc;

use message::scheme::Scheme;
use net::address::bare;
use semantics::{Url, cache_key};
use upstream::send::origin::Origin;
use upstream::settings::limits::UpstreamLimits;

use crate::origin::site::Site;
use crate::rules::aliases::Aliases;

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The site that it is for.
    pub site: &'a Site,
    /// Scheme of the URL that the request names.
    pub scheme: Scheme,
    /// Host as the client wrote it: any case; an IPv6 literal with its brackets.
    pub host: &'a str,
    /// Port, the scheme's own when none was given.
    pub port: u16,
    /// The aliases of its site, when they are treated as one name.
    pub aliases: Option<&'a Aliases>,
    /// Path and query as sent: begins with `/` or `?`, or is `*` or empty.
    pub path: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the host and port that it is for: those of the key, and those that upstreams get.
    pub fn place(&self) -> (&'a str, u16) {
        let one = |of: &'a Aliases| of.canonical(self.port, self.scheme.default_port());
        self.aliases.and_then(one).unwrap_or((self.host, self.port))
    }

    /// Returns whether it is for the same host and port that the client named.
    pub fn is_as_named(&self) -> bool {
        let (host, port) = self.place();
        host.eq_ignore_ascii_case(self.host) && port == self.port
    }

    /// Returns [`Target::place`] as `host[:port]` in the one form that the key has, which is also
    /// that of `Host` for origins.
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

    /// Returns the URL that it names, as its site spells it; `None` when its path or host is not
    /// valid.
    pub fn url(&self, limits: &UpstreamLimits) -> Option<Url> {
        let Target { scheme, host, path, .. } = self;
        let authority = match host.is_empty() {
            true => self.origin(limits).name(),
            false => self.authority(),
        };
        Some(self.site.canonical(Url::new(scheme.name(), &authority, path).ok()?))
    }

    /// Returns the host and the path with query of [`Target::url`], the host in any case. `None`:
    /// they are not those of the request, or may not be.
    pub fn normal_place(&self) -> Option<(&'a str, &'a str)> {
        let (host, _) = self.place();
        let is_normal = cache_key::is_normal(host, self.path) && self.site.is_canonical(self.path);
        is_normal.then_some((host, self.path))
    }

    /// Returns its origin.
    pub fn origin(&self, limits: &UpstreamLimits) -> Arc<dyn Origin> {
        self.site.origin(self, limits)
    }
}
