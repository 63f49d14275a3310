//! The keys of stored objects, and of their variants.

use http::HeaderMap;
use semantics::{Url, VaryMarker, cache_key};
use store::{Key, Locality};

/// Returns what the keys of all objects of a site begin with: of a reverse site by its name, `None`
/// for the forward proxy.
pub fn key_prefix(site: Option<&str>) -> String {
    site.map_or_else(|| "forward".to_owned(), |site| format!("site {site}"))
}

/// Returns the key of the object that `url` is on the site of a [`key_prefix`]. A removal under
/// this key reaches all its variants. `None` when it is too long.
pub fn primary_key(prefix: &str, url: &Url) -> Option<Key> {
    Key::new(cache_key::primary(prefix, url), locality(url))
}

/// Returns the FNV-1a hashes of the URL's site and of its directory.
fn locality(url: &Url) -> Locality {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let site = url.site().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    let group = url.group().as_bytes()[url.site().len()..].iter().fold(site, step);
    Locality { site, group }
}

/// Returns the key of a request's variant under a marker; `None` when it is too long.
pub(crate) fn variant_key(primary: &Key, marker: &VaryMarker, request: &HeaderMap) -> Option<Key> {
    let bytes = cache_key::variant(primary.as_bytes(), marker, request);
    Key::new(bytes, primary.locality())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fronts_and_sites_do_not_share_objects() {
        let url = Url::parse("http://a.example/x").unwrap();
        let keys =
            [None, Some("a"), Some("b")].map(|site| primary_key(&key_prefix(site), &url).unwrap());
        assert_ne!(keys[0], keys[1]);
        assert_ne!(keys[1], keys[2]);
    }

    #[test]
    fn neighbours_share_group_and_site() {
        let place = |text: &str| locality(&Url::parse(text).unwrap());
        let (a, b) = (place("http://a.example/d/x"), place("http://a.example/d/y?q=/z/"));
        assert_eq!(a, b);
        let c = place("http://a.example/e/x");
        assert!(a.site == c.site && a.group != c.group);
        assert_ne!(a.site, place("http://b.example/d/x").site);
    }
}
