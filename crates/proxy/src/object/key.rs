//! The keys of stored objects and of their variants.

use semantics::cache_key::UrlPlace;
use semantics::{Fields, Url, VaryMarker, cache_key};
use store::{Key, Locality};
use upstream::send::origin::Group;

/// Returns the prefix of all keys of the reverse site with this name, or of the forward proxy
/// without a name.
pub fn key_prefix(site: Option<&str>) -> String {
    site.map_or_else(|| "forward".to_owned(), |site| format!("site {site}"))
}

/// Returns the key of the object with this URL under a [`key_prefix`]; `None` if it is too long. A
/// removal under this key reaches all variants of the object.
pub fn primary_key(prefix: &str, url: &Url) -> Option<Key> {
    Key::new(cache_key::primary(prefix, url), locality(url))
}

/// Returns the FNV-1a hashes of the URL's site and directory.
fn locality(url: &Url) -> Locality {
    let site = hashed(0xcbf2_9ce4_8422_2325, url.site());
    Locality { site, group: hashed(site, &url.group()[url.site().len()..]) }
}

/// Returns the locality of a key whose URL lies at `place`. It equals that of [`primary_key`].
pub(crate) fn locality_at(key: &[u8], place: UrlPlace) -> Locality {
    let UrlPlace { begin, site_end, group_end } = place;
    let site = hashed_bytes(0xcbf2_9ce4_8422_2325, &key[begin..site_end]);
    Locality { site, group: hashed_bytes(site, &key[site_end..group_end]) }
}

/// Returns the hash of a group that the origin named in its response for this key. It equals the
/// group of the URL's directory if the name is that directory's path.
pub(crate) fn named_group(key: &Key, group: &Group) -> u64 {
    hashed(key.locality().site, &group.0)
}

/// Continues the FNV-1a hash `before` with `text`.
fn hashed(before: u64, text: &str) -> u64 {
    hashed_bytes(before, text.as_bytes())
}

fn hashed_bytes(before: u64, text: &[u8]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.iter().copied().fold(before, step)
}

/// Returns the key of the variant that a request selects under a marker; `None` if it is too long.
pub(crate) fn variant_key(
    primary: &Key,
    marker: &VaryMarker,
    request: &impl Fields,
) -> Option<Key> {
    let bytes = cache_key::variant(primary.as_bytes(), marker, request);
    Key::new(bytes, primary.locality())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use semantics::scanned_path::ScannedPath;

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

    #[test]
    fn a_key_written_from_parts_has_the_locality_of_its_url() {
        let mut key = Vec::new();
        for (host, path) in [("A.example", "/"), ("a.example", "/d/e?f/g"), ("b", "/d/")] {
            let parts = cache_key::UrlParts {
                scheme: "http",
                host,
                port: Some(81),
                path: ScannedPath::new(path),
            };
            let place = cache_key::primary_of_parts(&mut key, "forward", parts).unwrap();
            let url = Url::new("http", &format!("{host}:81"), path).unwrap();
            assert_eq!(locality_at(&key, place), locality(&url), "{host}{path}");
        }
    }

    #[test]
    fn a_group_named_like_the_directory_is_the_urls_group() {
        let key = |url| primary_key("forward", &Url::parse(url).unwrap()).unwrap();
        for (url, directory) in [
            ("http://a.example/x", "/"),
            ("http://a.example/d%20e/f/x?q", "/d%20e/f/"),
            ("http://a.example:81/d/", "/d/"),
        ] {
            let (key, named) = (key(url), Group(directory.into()));
            assert_eq!(named_group(&key, &named), key.locality().group, "{url}");
        }
        let [a, b] = ["http://a.example/x", "http://b.example/x"].map(key);
        let named = Group("/elsewhere/".into());
        assert_ne!(named_group(&a, &named), named_group(&b, &named), "groups are of a site");
    }
}
