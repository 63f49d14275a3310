//! The client, scheme and host of a request before it came to a proxy: `Forwarded` (RFC 7239) and
//! the older `X-Forwarded-For`, `-Proto` and `-Host`.
//!
//! An origin behind a reverse proxy believes these fields, so those of an untrusted client must not
//! reach it: a client could claim any address, and `X-Forwarded-Host` has poisoned many caches.
//! Only the fields of a trusted proxy in front of us are kept, and ours is added behind them. A
//! forward proxy by default reveals nothing about its clients.

use std::net::IpAddr;
use std::str::FromStr;

use http::header::{Entry, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};

use crate::fields::field_names;
use crate::fields::field_names::as_variable;
use crate::fields::value;
use crate::fields::vary::Vary;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// All that is believed of a proxy in front: also what we never write ourselves. Some frameworks
/// answer for another host, scheme or path when one of these says so, which no key has in it;
/// others believe an address; `Proxy` sets an environment variable of CGI programs. Gathered from
/// what frameworks and delivery networks document and from the published lists of fields that have
/// poisoned caches. In the order of their bytes.
const CLAIMS: [&str; 101] = [
    "base-url",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-ipcountry",
    "cf-pseudo-ipv4",
    "cf-visitor",
    "client-address",
    "client-ip",
    "clientaddress",
    "clientip",
    "context-path",
    "fastly-client-ip",
    "fastly-host",
    "fastly-ssl",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "forwarded-for-ip",
    "forwarded-host",
    "forwarded-proto",
    "front-end-https",
    "host-name",
    "http-host",
    "http-url",
    "https",
    "https-from-lb",
    "incap-client-ip",
    "orig-path-info",
    "path-info",
    "path-translated",
    "pc-remote-addr",
    "proxy",
    "proxy-client-ip",
    "proxy-host",
    "proxy-port",
    "proxy-request-fulluri",
    "proxy-url",
    "real-ip",
    "remote-addr",
    "remote-host",
    "remote-host-wp",
    "remote-user",
    "request-uri",
    "script-name",
    "server-name",
    "server-port",
    "server-port-secure",
    "sp-host",
    "ssl-https",
    "ssl-offloaded",
    "true-client-ip",
    "unencoded-url",
    "wl-proxy-client-ip",
    "wl-proxy-ssl",
    "x-azc-remote-addr",
    "x-base-url",
    "x-cf-url",
    "x-cisco-bbsm-clientip",
    "x-client-host",
    "x-client-ip",
    "x-clientip",
    "x-cluster-client-ip",
    "x-coming-from",
    "x-custom-ip-authorization",
    "x-fb-user-remote-addr",
    "x-forward-for",
    "x-forward-host",
    "x-forward-proto",
    "x-forwarder-for",
    "x-gateway-host",
    "x-host",
    "x-http-destinationurl",
    "x-http-host-override",
    "x-http-path-override",
    "x-https",
    "x-ip",
    "x-kaltura-remote-addr",
    "x-nfsn-https",
    "x-ning-request-uri",
    "x-nokia-ipaddress",
    "x-orchestra-scheme",
    "x-orig-client",
    "x-originating-ip",
    "x-proxy-url",
    "x-proxyuser-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-remote-protocol",
    "x-replaced-path",
    "x-request-uri",
    "x-sakura-forwarded-for",
    "x-scheme",
    "x-script-name",
    "x-server-name",
    "x-server-port",
    "x-sina-proxyuser",
    "x-ssl",
    "x-true-ip",
    "x-url-scheme",
    "x-wap-network-client-ip",
    "xxx-real-ip",
];

/// Prefixes of the names of further claims: whole families, whose members cannot all be listed.
/// `X-Accel-` and `X-Sendfile` are fields by which an application instructs the server in front of
/// it: some applications repeat there what a request said.
const FAMILIES: [&str; 13] = [
    "cloudfront-",
    "x-accel-",
    "x-amzn-remapped-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-backend-",
    "x-envoy-",
    "x-forwarded",
    "x-original",
    "x-real-",
    "x-rewrite-",
    "x-sendfile",
];

/// Fields that make an application take a request for one of another method.
const METHODS: [&str; 7] = [
    "real-method",
    "request-method",
    "x-ajax-real-method",
    "x-http-method",
    "x-http-method-override",
    "x-method",
    "x-method-override",
];

/// A field that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `Forwarded: for=192.0.2.1;host=a.example;proto=http`
    Forwarded,
    /// `X-Forwarded-For: 192.0.2.1`
    For,
    /// `X-Forwarded-Proto: http`
    Proto,
    /// `X-Forwarded-Host: a.example`
    Host,
}

impl Field {
    /// Every field with its name in lower case.
    pub const NAMES: [(&'static str, Field); 4] = [
        ("forwarded", Field::Forwarded),
        ("x-forwarded-for", Field::For),
        ("x-forwarded-proto", Field::Proto),
        ("x-forwarded-host", Field::Host),
    ];
}

impl FromStr for Field {
    type Err = String;

    fn from_str(name: &str) -> Result<Field, String> {
        let found = Self::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, field)| *field).ok_or_else(|| format!("{name:?} tells nothing of a client"))
    }
}

/// This hop's knowledge of the request.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The peer.
    pub client: IpAddr,
    /// `host[:port]` as the client named it; empty when it named none.
    pub host: &'a str,
    /// The scheme that the client used.
    pub proto: &'static str,
}

/// Returns whether an answer depends on what these fields say about the client itself: such an
/// answer is for that client alone, and no other request can show that it would get the same.
pub fn tells_clients_apart(fields: &[Field], vary: &Vary) -> bool {
    fields.iter().any(|field| match field {
        Field::For => vary.names().contains(&X_FORWARDED_FOR),
        Field::Forwarded => vary.names().contains(&FORWARDED),
        // Of a reverse proxy's requests these are in the key.
        Field::Proto | Field::Host => false,
    })
}

/// Takes every claim out of a request, however its name is spelled ([`field_names`]).
pub fn remove_claims(request: &mut HeaderMap) {
    field_names::remove_where(request, |name| {
        (CLAIM_SHAPES.fit(name) && is_one_of(&CLAIMS, name))
            || (name.starts_with(['c', 'x'])
                && FAMILIES.iter().any(|begin| begins_with(name, begin)))
    });
}

/// Removes the fields of a GET or HEAD that ask for another method: its answer is stored, and given
/// to requests that did mean GET.
pub fn remove_other_methods(request: &mut HeaderMap) {
    field_names::remove_where(request, |name| METHOD_SHAPES.fit(name) && is_one_of(&METHODS, name));
}

/// The lengths of names by their first letters: most fields are told from them by it at once.
struct Shapes([u64; 26]);

const CLAIM_SHAPES: Shapes = Shapes::of(&CLAIMS);
const METHOD_SHAPES: Shapes = Shapes::of(&METHODS);

impl Shapes {
    /// Makes the shapes of names in lower case, which begin with a letter.
    const fn of(names: &[&str]) -> Shapes {
        let mut shapes = [0; 26];
        let mut number = 0;
        while number < names.len() {
            let name = names[number].as_bytes();
            shapes[(name[0] - b'a') as usize] |= 1 << name.len();
            number += 1;
        }
        Shapes(shapes)
    }

    /// Returns whether a name may be one of them.
    fn fit(&self, name: &str) -> bool {
        let letter = name.bytes().next().unwrap_or_default().wrapping_sub(b'a');
        let lengths = self.0.get(usize::from(letter)).copied().unwrap_or_default();
        name.len() < 64 && lengths & (1 << name.len()) != 0
    }
}

/// Returns whether a program may take the field for one of these names, which are sorted.
fn is_one_of(names: &[&str], name: &str) -> bool {
    names.binary_search_by(|known| known.bytes().cmp(as_variable(name))).is_ok()
}

fn begins_with(name: &str, begin: &str) -> bool {
    name.len() >= begin.len() && as_variable(&name[..begin.len()]).eq(begin.bytes())
}

/// Adds `fields` to a request. Addresses go behind those that are there; of scheme and host the one
/// that is there stays: the first proxy knows what the client used.
pub fn add(request: &mut HeaderMap, hop: &Hop<'_>, fields: &[Field]) {
    for field in fields {
        match field {
            Field::For => append(request, X_FORWARDED_FOR, value::of_address(hop.client)),
            Field::Forwarded => append(request, FORWARDED, value::of(element(hop))),
            Field::Proto => {
                let proto = HeaderValue::from_static(hop.proto);
                request.entry(X_FORWARDED_PROTO).or_insert(proto);
            }
            Field::Host if hop.host.is_empty() => {}
            Field::Host => insert_host(request, hop.host),
        }
    }
}

/// Returns the scheme that the client used at the first proxy, as a request claims it: the `proto`
/// of the first element of `Forwarded`, else the first `X-Forwarded-Proto`. Only for requests that
/// a trusted proxy sent.
pub fn claimed_proto(request: &HeaderMap) -> Option<&str> {
    let first = |name| request.get(name)?.to_str().ok()?.split(',').next();
    let proto = first(FORWARDED).and_then(|element: &str| {
        let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
            .find(|(name, _)| name.eq_ignore_ascii_case("proto"))
    });
    proto.map(|(_, value)| value).or_else(|| first(X_FORWARDED_PROTO).map(str::trim))
}

/// Returns a forwarded-element (RFC 7239, 4). An IPv6 address and a host with a port need quotes
/// (6).
fn element(hop: &Hop<'_>) -> String {
    let mut text = match hop.client.to_canonical() {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    };
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if hop.host.bytes().all(is_token) && !hop.host.is_empty() {
        text.push_str(&format!(";host={}", hop.host));
    } else if !hop.host.is_empty() && !hop.host.contains(['"', '\\']) {
        text.push_str(&format!(";host=\"{}\"", hop.host));
    }
    text.push_str(";proto=");
    text.push_str(hop.proto);
    text
}

/// Joins what is there and `value` to one line: many origins read but one.
fn append(request: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    let Some(value) = value else { return };
    if !request.contains_key(&name) {
        request.insert(name, value);
        return;
    }
    let mut all: Vec<u8> = Vec::with_capacity(value.len());
    for line in request.get_all(&name) {
        all.extend_from_slice(line.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(value.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&all) {
        request.insert(name, value);
    }
}

fn insert_host(request: &mut HeaderMap, host: &str) {
    // Most of the time it is what the request says, which needs no copy.
    let said = request.get(HOST).filter(|said| *said == host).cloned();
    if let Entry::Vacant(place) = request.entry(X_FORWARDED_HOST)
        && let Some(value) = said.or_else(|| HeaderValue::try_from(host).ok())
    {
        place.insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::headers;

    const ALL: [Field; 4] = [Field::Forwarded, Field::For, Field::Proto, Field::Host];

    fn told(before: &[&str], client: &str, host: &str) -> HeaderMap {
        let mut request = headers(before);
        let client = client.parse().unwrap();
        add(&mut request, &Hop { client, host, proto: "http" }, &ALL);
        request
    }

    #[test]
    fn an_answer_that_varies_with_the_address_is_for_one_client() {
        let varies = |line: &str| tells_clients_apart(&ALL[..2], &Vary::of(&headers(&[line])));
        assert!(varies("Vary: Accept, X-Forwarded-For") && varies("Vary: Forwarded"));
        assert!(!varies("Vary: X-Forwarded-Proto") && !varies("Vary: Accept"));
        let vary = Vary::of(&headers(&["Vary: X-Forwarded-For"]));
        assert!(!tells_clients_apart(&[Field::Proto], &vary));
    }

    #[test]
    fn a_hop_is_told_in_every_field() {
        let expected = headers(&[
            "Forwarded: for=192.0.2.1;host=a.example;proto=http",
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Host: a.example",
        ]);
        assert_eq!(told(&[], "192.0.2.1", "a.example"), expected);
        assert_eq!(told(&[], "::ffff:192.0.2.1", "a.example"), expected);
        let six = told(&[], "2001:db8::1", "a.example:81");
        assert_eq!(six["forwarded"], "for=\"[2001:db8::1]\";host=\"a.example:81\";proto=http");
        assert_eq!(six["x-forwarded-for"], "2001:db8::1");
        assert!(!told(&[], "192.0.2.1", "").contains_key("x-forwarded-host"));
    }

    #[test]
    fn ours_goes_behind_what_a_trusted_proxy_wrote() {
        let before = [
            "Forwarded: for=198.51.100.7",
            "X-Forwarded-For: 198.51.100.7",
            "X-Forwarded-For: 198.51.100.8",
            "X-Forwarded-Proto: https",
        ];
        let after = told(&before, "192.0.2.1", "a.example");
        let (chain, list) = (&after["forwarded"], &after["x-forwarded-for"]);
        assert_eq!(chain, "for=198.51.100.7, for=192.0.2.1;host=a.example;proto=http");
        assert_eq!(list, "198.51.100.7, 198.51.100.8, 192.0.2.1");
        assert_eq!(after["x-forwarded-proto"], "https");
        assert_eq!(after.get_all("x-forwarded-for").iter().count(), 1);
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(CLAIMS.is_sorted() && METHODS.is_sorted());
    }

    #[test]
    fn claims_of_others_go() {
        let mut request =
            headers(&["X-Real-IP: 1", "Forwarded: for=x", "X-Rewrite-URL: /x", "A: b"]);
        remove_claims(&mut request);
        assert_eq!(request, headers(&["A: b"]));
        let claims = CLAIMS.iter().map(|name| (*name).to_owned());
        let families = FAMILIES.iter().map(|begin| format!("{begin}-thing"));
        let named = ["x-forwarded-host", "x-forwarded-path", "x-forwarded", "x-real-ip"];
        for name in claims.chain(families).chain(named.map(str::to_owned)) {
            for name in [name.to_ascii_uppercase(), name.replace('-', "_"), name.replace('-', ".")]
            {
                let mut request = headers(&[&format!("{name}: 1"), "A: b"]);
                remove_claims(&mut request);
                assert_eq!(request, headers(&["A: b"]), "{name}");
            }
        }
        let mut fine = headers(&["Host: a", "X-Request-ID: 1", "Origin: b", "User-Agent: c"]);
        remove_claims(&mut fine);
        assert_eq!(fine.len(), 4);
        let mut request = headers(&["X-HTTP-Method-Override: DELETE", "x_http_method: x", "A: b"]);
        remove_other_methods(&mut request);
        assert_eq!(request, headers(&["A: b"]));
    }

    #[test]
    fn the_first_proxy_says_which_scheme_was_used() {
        let claimed = |lines: &[&str]| claimed_proto(&headers(lines)).map(str::to_owned);
        assert_eq!(claimed(&["x-forwarded-proto: https"]).as_deref(), Some("https"));
        assert_eq!(claimed(&["x-forwarded-proto: https, http"]).as_deref(), Some("https"));
        let both = ["x-forwarded-proto: http", "forwarded: for=a;Proto=\"https\", proto=http"];
        assert_eq!(claimed(&both).as_deref(), Some("https"));
        let other = ["forwarded: for=192.0.2.1", "x-forwarded-proto: https"];
        assert_eq!(claimed(&other).as_deref(), Some("https"));
        assert_eq!(claimed(&[]), None);
    }
}
