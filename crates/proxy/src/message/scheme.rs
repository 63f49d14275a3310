//! The scheme of a request's URL. It is part of the key under which a response is stored, and of
//! the information sent to upstreams.
//!
//! The client of a forward proxy names the scheme. A reverse proxy derives it from the connection,
//! or from a trusted proxy in front. `http://a/` and `https://a/` are two objects, because the
//! first is often only a redirect to the second.

use semantics::{Fields, forwarded};

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

    /// Returns the scheme that the client used according to a trusted proxy in front; `None` if it
    /// states none. Claims that are not trusted must already be removed from `fields`.
    pub fn claimed(fields: &impl Fields) -> Option<Scheme> {
        Scheme::named(&forwarded::claimed_proto(fields)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn a_proxy_claims_a_known_scheme_or_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(Scheme::claimed(&headers), None);
        for (claim, scheme) in
            [("HTTPS, http", Some(Scheme::Https)), (" http ", Some(Scheme::Http)), ("gopher", None)]
        {
            headers.insert("x-forwarded-proto", claim.parse().unwrap());
            assert_eq!(Scheme::claimed(&headers), scheme, "{claim}");
        }
    }
}
