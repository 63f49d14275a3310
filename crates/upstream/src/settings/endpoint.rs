//! Identity of upstream connections: connections with equal endpoints are interchangeable.

use std::fmt;
use std::path::PathBuf;

use crate::settings::tls::Tls;

/// A server, and how to speak to it. Endpoints that differ in any field share no connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address of the server.
    pub at: At,
    /// TLS settings, including how the server proves its identity; `None` for no TLS.
    pub tls: Option<Tls>,
    /// Use of HTTP/2.
    pub http2: Http2,
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// A TCP port of a host: a lower-case name, or an IP literal without brackets.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Use of HTTP/2 with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Http2 {
    /// Never: HTTP/1.1.
    Off,
    /// Negotiated in TLS (ALPN); without TLS, HTTP/1.1.
    #[default]
    Negotiated,
    /// Always, without negotiation (RFC 9113, 3.3).
    PriorKnowledge,
}

impl Endpoint {
    /// Creates a server that is reached over HTTP/1.1 without TLS.
    pub fn plain(host: &str, port: u16) -> Endpoint {
        let at = At::Tcp(host.to_ascii_lowercase(), port);
        Endpoint { at, tls: None, http2: Http2::Off }
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns host and port in the form of `Host`, without the scheme's default port. A Unix
    /// socket has no host name and gets `localhost`.
    pub fn authority(&self) -> Authority<'_> {
        Authority(Some(self))
    }

    /// Returns the same server, reached over HTTP/1.1.
    pub(crate) fn over_http1(&self) -> Endpoint {
        let tls = self.tls.as_ref().map(Tls::without_http2);
        Endpoint { at: self.at.clone(), tls, http2: Http2::Off }
    }

    /// Returns whether HTTP/2 may be used, so that requests may share one connection.
    pub fn may_be_http2(&self) -> bool {
        match self.http2 {
            Http2::Off => false,
            Http2::Negotiated => self.tls.is_some(),
            Http2::PriorKnowledge => true,
        }
    }
}

/// Host and port in the form of `Host`; without a server, those of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a>(pub(crate) Option<&'a Endpoint>);

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = |endpoint: &Endpoint| if endpoint.tls.is_some() { 443 } else { 80 };
        match self.0.map(|endpoint| (&endpoint.at, usual(endpoint))) {
            Some((At::Tcp(host, port), usual)) => {
                write_host(f, host)?;
                if *port == usual { Ok(()) } else { write!(f, ":{port}") }
            }
            Some((At::Unix(_), _)) | None => f.write_str("localhost"),
        }
    }
}

/// Writes a host; an IPv6 address is put in brackets.
fn write_host(f: &mut fmt::Formatter<'_>, host: &str) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]") } else { f.write_str(host) }
}

impl fmt::Display for Endpoint {
    /// Writes `host:port` or `unix:/path`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Tcp(host, port) => {
                write_host(f, host)?;
                write!(f, ":{port}")
            }
            At::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::tls::TlsOptions;

    #[test]
    fn authorities_omit_the_default_port() {
        let tls = Tls::new(TlsOptions::default(), Http2::Off);
        let of = |host: &str, port, tls: Option<&Tls>| {
            let tls = tls.cloned();
            Endpoint { tls, ..Endpoint::plain(host, port) }.authority().to_string()
        };
        assert_eq!(of("A.example", 80, None), "a.example");
        assert_eq!(of("a.example", 443, None), "a.example:443");
        assert_eq!(of("a.example", 443, Some(&tls)), "a.example");
        assert_eq!(of("a.example", 80, Some(&tls)), "a.example:80");
        assert_eq!(of("::1", 80, None), "[::1]");
        assert_eq!(of("::80", 8080, None), "[::80]:8080");
        let at = At::Unix(PathBuf::from("/run/app.sock"));
        let socket = Endpoint { at, tls: None, http2: Http2::Off };
        assert_eq!((socket.authority().to_string().as_str(), socket.to_string().as_str()), {
            ("localhost", "unix:/run/app.sock")
        });
    }

    #[test]
    fn only_equal_settings_share_connections() {
        let tls = || Tls::new(TlsOptions::default(), Http2::Off);
        let with = |tls: Tls| Endpoint { tls: Some(tls), ..Endpoint::plain("a.example", 443) };
        let one = tls();
        assert_eq!(with(one.clone()), with(one.clone()));
        assert_ne!(with(one), with(tls()));
    }
}
