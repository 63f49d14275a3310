//! The scheme of a request's URL. It is part of the key under which a response is stored, and of
//! the information sent to upstreams.
//!
//! The client of a forward proxy names the scheme. A reverse proxy derives it from the connection,
//! or from a trusted proxy in front. `http://a/` and `https://a/` are two objects, because the
//! first is often only a redirect to the second.

use std::net::IpAddr;

use semantics::{Fields, forwarded};

use crate::message::forwarded::Forwarded;

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    #[default]
    Http,
    /// Within TLS.
    Https,
}

impl Scheme {
    /// Returns the scheme as it is written in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Returns the port of a URL that names none.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// Returns the scheme with this name, ignoring case.
    pub fn named(name: &str) -> Option<Scheme> {
        [Scheme::Http, Scheme::Https].into_iter().find(|s| s.name().eq_ignore_ascii_case(name))
    }

    /// Returns the scheme of a request to a reverse proxy: the one that the client used according
    /// to the proxy in front, if `client` is a trusted proxy, else that of the connection. Claims
    /// that are not trusted must already be removed from `fields`.
    pub fn of_request(
        connection: Scheme,
        client: IpAddr,
        fields: &impl Fields,
        options: &Forwarded,
    ) -> Scheme {
        if !options.trusts(client) {
            return connection;
        }
        let claimed = forwarded::claimed_proto(fields);
        claimed.and_then(|name| Scheme::named(&name)).unwrap_or(connection)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn only_a_trusted_proxy_says_what_its_client_used() {
        let trust = vec!["10.0.0.0/8".parse().unwrap()].into();
        let options = Forwarded { trust, ..Forwarded::default() };
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        let of = |connection, client: &str, headers: &HeaderMap| {
            Scheme::of_request(connection, client.parse().unwrap(), headers, &options)
        };
        assert_eq!(of(Scheme::Http, "10.1.2.3", &headers), Scheme::Https);
        assert_eq!(of(Scheme::Http, "::ffff:10.1.2.3", &headers), Scheme::Https);
        assert_eq!(of(Scheme::Http, "192.0.2.1", &headers), Scheme::Http);
        assert_eq!(of(Scheme::Https, "10.1.2.3", &HeaderMap::new()), Scheme::Https);
        headers.insert("x-forwarded-proto", "gopher".parse().unwrap());
        assert_eq!(of(Scheme::Https, "10.1.2.3", &headers), Scheme::Https);
    }
}
