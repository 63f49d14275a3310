//! The keys in the store: of a response, its variants, their marker, and parts.
//!
//! ```text
//! primary:  'P', class 'G', length of front (u16), front, URL;
//!           if the origin is sent another path and query: 0, path and query as sent
//! variant:  'V', length of primary (u32), primary, epoch (16 bytes),
//!           per field of the marker: 0 if absent | 1, length (u32), normalised value
//! part:     'W', length of the object's key (u32), that key (primary or variant),
//!           epoch (16 bytes), number of the window (u64)
//! form:     'C', length of primary (u32), primary, coding, 0, number of the body
//! ```
//!
//! Every component of variable length is preceded by its length, unless it ends the key, so
//! different inputs never yield the same bytes. A response fetched through one front is never found
//! through another. GET and HEAD share one class, since a stored GET answers both.

use std::io::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::fields::assumed_vary;
use crate::fields::vary;
use crate::fields::view::Fields;
use crate::request::scanned_path::{ScannedPath, is_usual_host};
use crate::request::url::Url;
use crate::stored::vary_marker::{EncodedSet, VaryMarker};

const PRIMARY: u8 = b'P';
const VARIANT: u8 = b'V';
const PART: u8 = b'W';
const FORM: u8 = b'C';
const CLASS_GET: u8 = b'G';
/// Separates the URL from the path and query as sent; no URL contains it.
const SPELLED: u8 = 0;

/// Returns the key of the object that `url` names behind `front` (the forward proxy, or the name of
/// a site). Fronts longer than 65,535 bytes are truncated; the configuration does not allow them.
pub fn primary(front: &str, url: &Url) -> Bytes {
    let length = u16::try_from(front.len()).unwrap_or(u16::MAX);
    let front = &front.as_bytes()[..usize::from(length)];
    let spelled = url.spelled().map_or(0, |spelled| 1 + spelled.len());
    let mut key = BytesMut::with_capacity(4 + front.len() + url.as_str().len() + spelled);
    key.put_u8(PRIMARY);
    key.put_u8(CLASS_GET);
    key.put_u16_le(length);
    key.put_slice(front);
    key.put_slice(url.as_str().as_bytes());
    if let Some(spelled) = url.spelled() {
        key.put_u8(SPELLED);
        key.put_slice(spelled.as_bytes());
    }
    key.freeze()
}

/// The parts of a URL, as a request names them.
#[derive(Clone, Copy, Debug)]
pub struct UrlParts<'a> {
    /// `http` or `https`, in lower case.
    pub scheme: &'a str,
    /// A name or an IPv4 address, in any case.
    pub host: &'a str,
    /// `None`: the default port of the scheme.
    pub port: Option<u16>,
    /// Path and query as sent.
    pub path: ScannedPath<'a>,
}

/// The positions of the URL, its site and its directory in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlPlace {
    /// Start of the URL.
    pub begin: usize,
    /// Position after scheme and authority.
    pub site_end: usize,
    /// Position after the last `/` of the path.
    pub group_end: usize,
}

/// Writes the key that [`primary`] returns for this URL to `key`, and returns the position of the
/// URL in it. Returns `None` if the host is not a name or IPv4 address, or the path is not known to
/// be in normal form: call [`primary`] then. Only growing `key` allocates.
pub fn primary_of_parts(key: &mut Vec<u8>, front: &str, url: UrlParts<'_>) -> Option<UrlPlace> {
    let length = u16::try_from(front.len()).ok()?;
    let directory = url.path.shape.normal_directory()?;
    if !is_usual_host(url.host) {
        return None;
    }
    key.clear();
    key.extend_from_slice(&[PRIMARY, CLASS_GET]);
    key.extend_from_slice(&length.to_le_bytes());
    key.extend_from_slice(front.as_bytes());
    let begin = key.len();
    key.extend_from_slice(url.scheme.as_bytes());
    key.extend_from_slice(b"://");
    let host_at = key.len();
    key.extend_from_slice(url.host.as_bytes());
    key[host_at..].make_ascii_lowercase();
    if let Some(port) = url.port {
        // Writing to memory cannot fail.
        let _ = write!(key, ":{port}");
    }
    let site_end = key.len();
    key.extend_from_slice(url.path.text.as_bytes());
    Some(UrlPlace { begin, site_end, group_end: site_end + directory })
}

/// Returns whether host and path are in the normal form of a URL, ignoring the case of the host.
/// May return false for a normal form if [`primary_of_parts`] returns `None`.
pub fn is_normal(host: &str, path: ScannedPath<'_>) -> bool {
    is_usual_host(host) && path.shape.normal_directory().is_some()
}

/// Returns the key of the variant that a request with these fields selects. A new epoch in the
/// marker makes all variants of the old epoch unreachable.
pub fn variant(primary: &[u8], marker: &VaryMarker, request: &impl Fields) -> Bytes {
    let mut key = Vec::with_capacity(primary.len() + 64);
    let names = marker.names().iter().map(HeaderName::as_str);
    write_variant(&mut key, primary, &marker.epoch().to_le_bytes(), names, request);
    key.into()
}

/// Writes the key that [`variant`] returns for a marker with only this set to `key`. Only growing
/// `key` allocates, unless a field has several lines.
pub fn variant_of_set(
    key: &mut Vec<u8>,
    primary: &[u8],
    set: EncodedSet<'_>,
    request: &impl Fields,
) {
    write_variant(key, primary, set.epoch(), set.names(), request);
}

fn write_variant<'a>(
    key: &mut Vec<u8>,
    primary: &[u8],
    epoch: &[u8; 16],
    names: impl Iterator<Item = &'a str>,
    request: &impl Fields,
) {
    key.clear();
    key.push(VARIANT);
    key.extend_from_slice(&length_of(primary).to_le_bytes());
    key.extend_from_slice(primary);
    key.extend_from_slice(epoch);
    for name in names {
        let begin = key.len();
        key.extend_from_slice(&[1, 0, 0, 0, 0]);
        if !vary::write_normalised(request, name, key) {
            key.truncate(begin);
            key.push(0);
            continue;
        }
        let length = length_of(&key[begin + 5..]).to_le_bytes();
        key[begin + 1..begin + 5].copy_from_slice(&length);
    }
}

/// Returns the primary key in a variant key; `None` if `variant` is not a variant key.
pub fn primary_of(variant: &[u8]) -> Option<&[u8]> {
    split_variant(variant).map(|(primary, _)| primary)
}

/// Returns the fields that select the variant with this key, normalised as in the key. A request
/// with these and no other fields of the marker selects it, from a device of its class. `None` if
/// it is not a variant under `marker`.
pub fn selecting(key: &[u8], marker: &VaryMarker) -> Option<HeaderMap> {
    let (_, rest) = split_variant(key)?;
    let mut rest = rest.strip_prefix(&marker.epoch().to_le_bytes()[..])?;
    let mut fields = HeaderMap::new();
    for name in marker.names() {
        let (is_there, further) = rest.split_first()?;
        rest = further;
        match is_there {
            0 => {}
            1 => {
                let (length, further) = rest.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                let (value, further) = further.split_at_checked(length)?;
                // The class of the device is no field.
                if name != assumed_vary::DEVICE {
                    fields.insert(name, HeaderValue::from_bytes(value).ok()?);
                }
                rest = further;
            }
            _ => return None,
        }
    }
    rest.is_empty().then_some(fields)
}

/// Returns the primary key in a variant key, and the bytes after it.
fn split_variant(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = key.strip_prefix(&[VARIANT])?.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

/// Returns the key of the part in window `number` of the object with key `object`. A new epoch of
/// the object makes all parts of the old epoch unreachable.
pub fn part(object: &[u8], epoch: u128, number: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(object.len() + 29);
    key.put_u8(PART);
    key.put_u32_le(length_of(object));
    key.put_slice(object);
    key.put_u128_le(epoch);
    key.put_u64_le(number);
    key.freeze()
}

/// Writes the key of the compressed form of a response under the primary key `primary`, or one of
/// its variants, to `key`. `body` is the number of its body, which no other body has.
pub fn write_form(key: &mut Vec<u8>, primary: &[u8], coding: &str, body: &[u8]) {
    key.clear();
    key.push(FORM);
    key.extend_from_slice(&length_of(primary).to_le_bytes());
    key.extend_from_slice(primary);
    key.extend_from_slice(coding.as_bytes());
    key.push(0);
    key.extend_from_slice(body);
}

/// Returns a length as encoded in a key. Keys are far smaller than 4 GiB, since the size of heads
/// is limited.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The content of a key, for tools that inspect a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'a> {
    /// The front of the object.
    pub front: &'a str,
    /// The URL in normal form.
    pub url: &'a str,
    /// Path and query as sent to the origin, if they differ from the URL.
    pub spelled: Option<&'a str>,
    /// True if the object is one of several variants.
    pub is_variant: bool,
}

/// Decodes a key; `None` if it is not a key of this format.
pub fn describe(key: &[u8]) -> Option<Described<'_>> {
    let key = match key.split_first()? {
        (&PART, rest) => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?
        }
        _ => key,
    };
    let (primary, is_variant) = match key.split_first()? {
        (&VARIANT | &FORM, rest) => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?, true)
        }
        _ => (key, false),
    };
    let rest = primary.strip_prefix(&[PRIMARY, CLASS_GET])?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (front, url) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (front, url) = (std::str::from_utf8(front).ok()?, std::str::from_utf8(url).ok()?);
    let (url, spelled) = match url.split_once(char::from(SPELLED)) {
        Some((url, spelled)) => (url, Some(spelled)),
        None => (url, None),
    };
    Some(Described { front, url, spelled, is_variant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn fronts_and_urls_are_kept_apart() {
        let keys = [
            primary("forward", &url("http://a/")),
            primary("forward", &url("http://a/b")),
            primary("site", &url("http://a/")),
            primary("sit", &url("http://a/")),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
        }
        assert_eq!(primary("forward", &url("HTTP://A:80")), keys[0]);
    }

    #[test]
    fn a_key_written_from_parts_equals_that_of_the_url() {
        let hosts =
            ["a.example", "A.Example", "a_b", "127.0.0.1", "a!$&'()*+,;=~", "%41", "", "a b"];
        let paths = [
            "/",
            "/a",
            "/a/",
            "/a/b?c/d",
            "/?/",
            "//a//",
            "/a/../b",
            "/%20",
            "/%2F%C3%BC",
            "/%2f",
            "/%41",
            "/%7E",
            "/%2E",
            "/%zz",
            "/%",
            "/a%4",
            "/a#b",
            "/a b",
            "",
            "?q",
            "*",
            "/{a}",
            "/a|b",
            "/\u{fc}",
            "/-_.~!$&'()*+,;=:@",
            "/?%5B%5D",
            "/?[]",
        ];
        let (mut key, mut taken) = (Vec::new(), 0);
        for host in hosts {
            for path in paths {
                for (scheme, port) in [("http", None), ("https", None), ("http", Some(8080))] {
                    let path_of_parts = ScannedPath::new(path);
                    let parts = UrlParts { scheme, host, port, path: path_of_parts };
                    let Some(place) = primary_of_parts(&mut key, "site a", parts) else { continue };
                    let port = port.map_or(String::new(), |port| format!(":{port}"));
                    let url = Url::new(scheme, &format!("{host}{port}"), path).unwrap();
                    assert_eq!(key, primary("site a", &url), "{host} {path}");
                    let UrlPlace { begin, site_end, group_end } = place;
                    assert_eq!(&key[begin..site_end], url.site().as_bytes());
                    assert_eq!(&key[begin..group_end], url.group().as_bytes());
                    taken += 1;
                }
            }
        }
        // Five of the hosts, and all paths except those of another form.
        assert_eq!(taken, 5 * 12 * 3);
    }

    #[test]
    fn forms_are_told_apart_by_object_coding_and_body() {
        let [one, other] = ["http://a/", "http://b/"].map(|text| primary("forward", &url(text)));
        let form = |primary: &[u8], coding, body| {
            let mut key = b"old".to_vec();
            write_form(&mut key, primary, coding, body);
            key
        };
        let keys = [
            form(&one, "br", b"1"),
            form(&one, "br", b"2"),
            form(&one, "gzip", b"1"),
            form(&other, "br", b"1"),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
            assert!(describe(key).unwrap().is_variant);
        }
        assert_eq!(describe(&keys[3]).unwrap().url, "http://b/");
    }

    #[test]
    fn spellings_are_kept_apart_and_have_one_url() {
        let keys = ["http://a/a", "http://a/%61", "http://a/a?", "http://a/%61?"]
            .map(|text| primary("forward", &url(text)));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
        }
        let told = describe(&keys[1]).map(|told| (told.url, told.spelled));
        assert_eq!(told, Some(("http://a/a", Some("/%61"))));
    }

    #[test]
    fn variants_differ_by_epoch_and_by_each_field() {
        let names = ["accept".parse().unwrap(), "x-b".parse().unwrap()];
        let marker = VaryMarker::new(7, &names);
        let primary = primary("forward", &url("http://a/"));
        let key = |marker: &VaryMarker, lines: &[&str]| variant(&primary, marker, &headers(lines));
        let keys = [
            key(&marker, &[]),
            key(&marker, &["Accept:"]),
            key(&marker, &["Accept: x"]),
            key(&marker, &["X-B: x"]),
            key(&marker, &["Accept: x", "X-B: x"]),
            key(&VaryMarker::new(8, &names), &[]),
            primary.clone(),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key), "{at}");
        }
        assert_eq!(key(&marker, &["Accept: x", "X-Other: 1"]), keys[2]);
    }

    #[test]
    fn the_key_of_a_variant_is_written_as_it_is_made() {
        let names = ["accept", "accept-encoding", "cookie", "x-b"].map(|n| n.parse().unwrap());
        let marker = VaryMarker::new(7, &names);
        let primary = primary("forward", &url("http://a/"));
        let encoded = marker.encode();
        let set = EncodedSet::read(&encoded).unwrap();
        let many: String = (0..40).map(|n| format!("b{}, ", n % 30)).collect();
        let many = format!("Accept-Encoding: {many}");
        for lines in [
            &[][..],
            &["Accept: text/html, a/b;V=X;q=1.0;Q=0.9, a/b;v=\"x; y\", */*;q=0.8"],
            &["Accept-Encoding: GZip ; q=1, br,,gzip, zstd;q=1.00", "Cookie: b, a;  c"],
            &["Accept-Encoding:", "X-B: c , a,, b", "Cookie:"],
            &["Accept-Encoding: q=1, q=10;q=1.01;q=1, ;q=1"],
            &[&many],
            &["X-B: c", "Cookie: a", "X-B: b", "Cookie: b"],
        ] {
            let fields = headers(lines);
            let mut key = vec![1; 9];
            variant_of_set(&mut key, &primary, set, &fields);
            assert_eq!(key, variant(&primary, &marker, &fields), "{lines:?}");
        }
    }

    #[test]
    fn a_variant_s_key_says_what_selects_it() {
        let names = ["accept-encoding", "accept-language", "x-b"].map(|name| name.parse().unwrap());
        let marker = VaryMarker::new(7, &names);
        let primary = primary("forward", &url("http://a/"));
        for lines in [
            &[][..],
            &["X-B:"],
            &["Accept-Encoding: GZip;q=1, br", "X-B: c, a", "X-B: b"],
            &["Accept-Language: de-DE, en;q=0.5"],
        ] {
            let key = variant(&primary, &marker, &headers(lines));
            let fields = selecting(&key, &marker).unwrap();
            assert_eq!(variant(&primary, &marker, &fields), key, "{lines:?}");
            assert_eq!(primary_of(&key), Some(&primary[..]));
            assert_eq!(selecting(&key, &VaryMarker::new(8, &names)), None, "another epoch");
            assert_eq!(selecting(&key, &VaryMarker::new(7, &names[..2])), None, "other names");
            for cut in 0..key.len() {
                assert_eq!(selecting(&key[..cut], &marker), None, "{lines:?} {cut}");
            }
        }
        assert_eq!((primary_of(&primary), selecting(&primary, &marker)), (None, None));
        assert_eq!(primary_of(&part(&primary, 9, 3)), None);
    }

    #[test]
    fn keys_describe_themselves() {
        let primary = primary("forward", &url("http://a/b?c"));
        let marker = VaryMarker::new(7, &["accept".parse().unwrap()]);
        let variant = variant(&primary, &marker, &headers(&["Accept: x"]));
        for (key, is_variant) in [(&primary, false), (&variant, true)] {
            let expected =
                Described { front: "forward", url: "http://a/b?c", spelled: None, is_variant };
            assert_eq!(describe(key), Some(expected));
        }
        for whole in [&primary, &variant] {
            assert_eq!(describe(&part(whole, 9, 3)), describe(whole));
            assert_ne!(part(whole, 9, 3), part(whole, 9, 4));
            assert_ne!(part(whole, 9, 3), part(whole, 8, 3));
        }
        for cut in 0..11 {
            assert_eq!(describe(&primary[..cut]), None, "{cut}");
        }
        assert_eq!(describe(b"XG"), None);
    }
}
