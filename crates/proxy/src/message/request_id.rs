//! Ids of requests, by which logs of several programs are joined.
//!
//! The id of a trusted proxy in front is kept. Ids of other clients are replaced, because they
//! could repeat those of other requests.

use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue};
use net::random::random;
use semantics::Fields;

use crate::message::forwarded::Forwarded;

/// The field of an id, unless the configuration names another one.
static DEFAULT_FIELD: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length in bytes of an id that is kept.
const LENGTH_MAX: usize = 128;

/// Options of request ids.
#[derive(Clone, Debug, Default)]
pub struct RequestIds {
    /// Field in which origin servers get the id.
    pub field: Option<HeaderName>,
    /// True if rules have values with the id.
    pub in_rules: bool,
}

impl RequestIds {
    /// Returns the id of a request: the one that a trusted proxy gave it, or a new one of 32 hex
    /// digits. Returns `None` if neither a setting nor the access log (`is_logged`) needs an id.
    pub(crate) fn id(
        &self,
        is_logged: bool,
        client: IpAddr,
        fields: &impl Fields,
        forwarded: &Forwarded,
    ) -> Option<HeaderValue> {
        if !(is_logged || self.in_rules || self.field.is_some()) {
            return None;
        }
        let name = self.field.as_ref().unwrap_or(&DEFAULT_FIELD);
        let given = fields.line(name).filter(|id| is_sane(id) && forwarded.trusts(client));
        match given {
            Some(id) => HeaderValue::from_bytes(id).ok(),
            None => HeaderValue::from_bytes(&new_id()).ok(),
        }
    }
}

/// Returns 128 random bits as hexadecimal digits.
fn new_id() -> [u8; 32] {
    let bits = u128::from(random()) << 64 | u128::from(random());
    std::array::from_fn(|at| b"0123456789abcdef"[(bits >> (4 * at)) as usize & 15])
}

/// Returns whether an id has only characters that need no escaping in fields and logs.
fn is_sane(id: &[u8]) -> bool {
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    (1..=LENGTH_MAX).contains(&id.len()) && id.iter().all(is_usual)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn ids_of_trusted_proxies_are_kept() {
        let forwarded =
            Forwarded { trust: vec!["10.0.0.0/8".parse().unwrap()].into(), ..Forwarded::default() };
        let id = |ids: &RequestIds, client: &str, given: &str| {
            let mut fields = HeaderMap::new();
            fields.insert("x-request-id", given.parse().unwrap());
            let id = ids.id(false, client.parse().unwrap(), &fields, &forwarded)?;
            Some(id.to_str().unwrap().to_owned())
        };
        let used = RequestIds { in_rules: true, ..RequestIds::default() };
        assert_eq!(id(&RequestIds::default(), "10.0.0.1", "a"), None);
        assert_eq!(id(&used, "10.0.0.1", "a-1").unwrap(), "a-1");
        let long = "x".repeat(129);
        for (client, given) in [("192.0.2.1", "a-1"), ("10.0.0.1", "a b"), ("10.0.0.1", &long)] {
            let made = id(&used, client, given).unwrap();
            assert!(made.len() == 32 && made != id(&used, client, given).unwrap(), "{made}");
        }
        let other = RequestIds { field: Some("x-trace".parse().unwrap()), in_rules: false };
        assert_eq!(id(&other, "10.0.0.1", "a-1").unwrap().len(), 32);
    }
}
