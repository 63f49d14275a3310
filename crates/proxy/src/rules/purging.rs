//! Options of purging.

use std::fmt;
use std::net::IpAddr;

use http::{HeaderName, HeaderValue};
use net::address;
use semantics::Fields;
use subtle::ConstantTimeEq;

use crate::rules::purge_dialect::PurgeDialect;

/// Clients that may use the method `PURGE`, and fields that carry tags.
#[derive(Clone, Debug)]
pub struct Purging {
    /// Networks of clients that may purge. Default none.
    pub from: Vec<ipnet::IpNet>,
    /// Secret that admits other clients. Default none. With neither networks nor a secret, `PURGE`
    /// is forwarded like any other method.
    pub secret: Option<PurgeSecret>,
    /// The fields of responses, and of `PURGE`, that carry tags. For stored objects, the fields
    /// that the store was opened with apply.
    pub tags: semantics::TagFields,
    /// The methods and the other fields of purges.
    pub dialect: PurgeDialect,
    /// True if clients see those fields of responses. Default true; the command line hides them in
    /// a reverse proxy.
    pub pass_tags: bool,
}

impl Default for Purging {
    fn default() -> Self {
        Purging {
            from: Vec::new(),
            secret: None,
            tags: semantics::TagFields::default(),
            dialect: PurgeDialect::default(),
            pass_tags: true,
        }
    }
}

/// Result of comparing the secret in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenSecret {
    /// The request has none, or none is expected.
    None,
    Right,
    Wrong,
}

impl Purging {
    /// Returns whether any client may purge by a request to the proxy.
    pub(crate) fn is_open(&self) -> bool {
        !self.from.is_empty() || self.secret.is_some()
    }

    /// Returns whether a client that sent this secret may purge.
    pub(crate) fn admits(&self, client: IpAddr, secret: GivenSecret) -> bool {
        let client = address::canonical(client);
        secret == GivenSecret::Right || self.from.iter().any(|network| network.contains(&client))
    }

    /// Compares the secret in a request's fields.
    pub(crate) fn secret_in(&self, fields: &impl Fields) -> GivenSecret {
        self.secret.as_ref().map_or(GivenSecret::None, |secret| secret.compare(fields))
    }
}

/// Secret that requests carry in a field of its own. Formatting does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct PurgeSecret {
    field: HeaderName,
    value: HeaderValue,
}

impl PurgeSecret {
    /// Creates the secret from its field and value.
    ///
    /// # Errors
    ///
    /// The value is not valid in a field. The text says what is expected, without repeating the
    /// value.
    pub fn new(field: HeaderName, value: &str) -> Result<PurgeSecret, &'static str> {
        let is_visible = value.bytes().all(|byte| byte.is_ascii_graphic());
        let parsed = HeaderValue::from_str(value).ok().filter(|_| is_visible && !value.is_empty());
        let mut value = parsed.ok_or("expected visible ASCII characters without white space")?;
        value.set_sensitive(true);
        Ok(PurgeSecret { field, value })
    }

    pub(crate) fn field(&self) -> &HeaderName {
        &self.field
    }

    /// Compares the secret in a request's fields, in time that does not depend on where they
    /// differ.
    fn compare(&self, fields: &impl Fields) -> GivenSecret {
        let mut values = fields.lines(&self.field);
        match (values.next(), values.next()) {
            (None, _) => GivenSecret::None,
            (Some(given), None) if bool::from(given.ct_eq(self.value.as_bytes())) => {
                GivenSecret::Right
            }
            _ => GivenSecret::Wrong,
        }
    }
}

impl fmt::Debug for PurgeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PurgeSecret({})", self.field)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn purging(from: &[&str], secret: Option<&str>) -> Purging {
        let field = HeaderName::from_static("x-purge-secret");
        Purging {
            from: from.iter().map(|network| network.parse().unwrap()).collect(),
            secret: secret.map(|secret| PurgeSecret::new(field, secret).unwrap()),
            ..Purging::default()
        }
    }

    #[test]
    fn a_network_or_the_secret_admits_a_client() {
        let (home, away) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        let given = |purging: &Purging, values: &[&str]| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append("x-purge-secret", value.parse().unwrap());
            }
            purging.secret_in(&fields)
        };
        let none = purging(&[], None);
        assert!(!none.is_open() && !none.admits(home, given(&none, &["s3cret"])));
        let both = purging(&["127.0.0.0/8"], Some("s3cret"));
        assert!(both.admits(home, given(&both, &[])) && both.admits(home, given(&both, &["x"])));
        assert!(both.admits(away, given(&both, &["s3cret"])));
        assert!(both.admits("::ffff:127.0.0.1".parse().unwrap(), GivenSecret::None));
        for wrong in [&[][..], &[""], &["s3cre"], &["s3crets"], &["S3CRET"], &["s3cret", "s3cret"]]
        {
            assert!(!both.admits(away, given(&both, wrong)), "{wrong:?}");
        }
        let secret = purging(&[], Some("s3cret"));
        assert!(secret.is_open() && !secret.admits(home, GivenSecret::None));
    }

    #[test]
    fn a_secret_is_hidden_and_valid_in_a_field() {
        let secret = purging(&[], Some("s3cret"));
        assert!(!format!("{secret:?}").contains("s3cret"));
        for wrong in ["", "a b", "a\n", "ä"] {
            let field = HeaderName::from_static("x-purge-secret");
            assert!(PurgeSecret::new(field, wrong).is_err(), "{wrong:?}");
        }
    }
}
