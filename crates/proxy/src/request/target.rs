//! Target of a request, read from its head and checked. Nothing is allocated here, because this
//! code runs before every cache hit.
//!
//! Guarantees: a [`Target`] has at most one host. In HTTP/2 `:authority` and `Host` agree on it; in
//! HTTP/1 an absolute URL takes precedence over `Host`. No field contains a URL's user information.
//! In a reverse proxy only the configuration determines the site.

use std::net::{IpAddr, Ipv6Addr};

use crate::message::framing;
use crate::message::scheme::Scheme;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Version, header};
use http1::{RequestHead, percent_encoded};
use net::address::bare;
use semantics::forwarded::X_FORWARDED_PROTO;
use semantics::scanned_path::{PathShape, ScannedPath};
use semantics::{EditFields, Fields, UsualName, UsualNames, claims, value};
use upstream::message::via::has_member;
use upstream::send::origin::VERSION;

use crate::observe::outcome::Invalid;
use crate::options::Options;
use crate::origin::site::{Front, Site};
use crate::origin::target::Target;
use crate::peers::question::{FLEET, PURGES};

/// Refusal of a request, answered with an error of the proxy's own without further checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub status: StatusCode,
    pub why: Invalid,
    pub text: &'static str,
}

impl Refused {
    fn bad(why: Invalid, text: &'static str) -> Refused {
        Refused { status: StatusCode::BAD_REQUEST, why, text }
    }
}

const NO_HOST: &str = "The Host field is not a host name.";

const ORIGIN_FORM: &str = "This is a forward proxy: a request names the whole URL. Set \
    http_proxy=http://ADDRESS:PORT/ for a program, or use curl -x http://ADDRESS:PORT URL.";

/// Removes fields that this client is not trusted to send. Runs before any other code reads the
/// request, so that the key, comparisons and the upstream request see the same fields. Returns the
/// scheme of the request's URL if its target names none; `connection` is the scheme of the
/// connection.
pub(crate) fn distrust(
    fields: &mut impl EditFields,
    client: IpAddr,
    connection: Scheme,
    options: &Options,
) -> Scheme {
    options.client.field_names.enforce(fields);
    // These fields have a meaning only between nodes.
    fields.remove_in(UsualNames::NONE, |name| {
        [FLEET, PURGES, VERSION].iter().any(|own| name.eq_ignore_ascii_case(own.as_str()))
    });
    if let Some(secret) = &options.purging.secret {
        fields.remove_lines(secret.field());
    }
    if !options.front.stands_for_origins() {
        return connection;
    }
    if !options.forwarded.trusts(client) {
        claims::remove_claims(fields, UsualNames::NONE, |_| false);
        return connection;
    }
    options.forwarded.trust_fields.settle(fields);
    let scheme = Scheme::claimed(fields).unwrap_or(connection);
    // The origin server must be told the scheme that is in the key.
    if fields.has_any(HAS_PROTO) && !fields.lines_of(PROTO).eq([scheme.name().as_bytes()]) {
        let told = HeaderValue::from_static(scheme.name());
        fields.set_line(&X_FORWARDED_PROTO, &told);
    }
    scheme
}

/// Checks a request other than CONNECT and returns its target. `scheme` is the one that
/// [`distrust`] returned.
pub(crate) fn target<'a>(
    head: &'a RequestHead,
    front: &'a Front,
    scheme: Scheme,
) -> Result<Target<'a>, Refused> {
    check_fields(head)?;
    let host = single_host(&head.fields)?;
    let path = path(head, front)?;
    let scheme = check_scheme(head, front, scheme)?;
    let default_port = scheme.default_port();
    let authority = match head.target.authority() {
        Some(authority) => {
            let named = without_user_info(authority);
            if head.version == Version::HTTP_2 && named.len() < authority.len() {
                let text = "A request's authority must not contain user information.";
                return Err(Refused::bad(Invalid::Target, text));
            }
            let (name, port) = split(named)
                .ok_or(Refused::bad(Invalid::Target, "The URL's host or port is not valid."))?;
            if host.is_some_and(|host| !host.is_empty() && split(host).is_none()) {
                return Err(Refused::bad(Invalid::Host, NO_HOST));
            }
            // In HTTP/1 the URL takes precedence over `Host` (RFC 9112, 3.2.2).
            if let Some(host) = host.filter(|_| head.version == Version::HTTP_2) {
                let agrees = split(host).is_some_and(|(h, p)| {
                    h.eq_ignore_ascii_case(name)
                        && p.unwrap_or(default_port) == port.unwrap_or(default_port)
                });
                if !agrees {
                    return Err(Refused::bad(
                        Invalid::Host,
                        "The Host field and the URL of the request name different hosts.",
                    ));
                }
            }
            Some((name, port))
        }
        None if front.takes_whole_urls() => {
            return Err(Refused::bad(Invalid::Target, ORIGIN_FORM));
        }
        None => match host {
            Some(host) => Some(split(host).ok_or(Refused::bad(Invalid::Host, NO_HOST))?),
            None => None,
        },
    };
    // HTTP/2 names the host in `:authority`.
    let named = head.version == Version::HTTP_2 && authority.is_some();
    if host.is_none() && head.version != Version::HTTP_10 && !named {
        return Err(Refused::bad(Invalid::Host, "An HTTP/1.1 request needs a Host field."));
    }
    let (host, port) = authority.unwrap_or(("", None));
    let site = front.site_of(host, path.text).ok_or_else(|| unclaimed(front, host))?;
    let port = port.unwrap_or(default_port);
    let aliases = Some(site.aliases()).filter(|of| of.are_one() && !host.is_empty());
    Ok(Target { site, scheme, host, port, aliases, path })
}

/// Bytes that are common in paths and queries and need no percent-encoding.
static USUAL: [bool; 256] = letters_digits_and(b"/?=&%._-~+,:;@!$*()'");

/// Bytes of the names of hosts.
static OF_HOST: [bool; 256] = letters_digits_and(b"-._~!$&'()*+,;=");

/// Returns a table of bytes that is true for ASCII letters, digits, and `others`.
const fn letters_digits_and(others: &[u8]) -> [bool; 256] {
    let (mut table, mut at) = ([false; 256], 0);
    while at < 256 {
        table[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

/// Maximum length of path and query in bytes, percent-encoded: a `PathAndQuery` must hold them and
/// a slash.
const LONGEST_PATH: usize = 65_000;

/// Returns the path and query that a request names.
fn path<'a>(head: &'a RequestHead, front: &Front) -> Result<ScannedPath<'a>, Refused> {
    let path = head.target.path_and_query();
    let scanned = ScannedPath::new(path);
    // Upper bound on the encoded length: each unusual byte may become three.
    let unusual = match scanned.shape.is_usual() {
        true => 0,
        false => path.bytes().filter(|byte| !USUAL[usize::from(*byte)]).count(),
    };
    if path.len() + 2 * unusual > LONGEST_PATH {
        return Err(Refused {
            status: StatusCode::URI_TOO_LONG,
            why: Invalid::TargetSize,
            text: "The URL's path and query are longer than 65,000 bytes, percent-encoded.",
        });
    }
    if unusual > 0 && !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = "A URL has control characters percent-encoded (RFC 3986, 2.1).";
        return Err(Refused::bad(Invalid::Target, text));
    }
    let has_form = path.starts_with('/') || path == "*" || head.target.authority().is_some();
    if !has_form {
        let text = match front.takes_whole_urls() {
            true => ORIGIN_FORM,
            false => "The target of a request is a path that begins with a slash.",
        };
        return Err(Refused::bad(Invalid::Target, text));
    }
    Ok(scanned)
}

/// Returns whether every byte of a path that a URI must percent-encode is encoded.
pub(crate) fn is_encoded(path: ScannedPath<'_>) -> bool {
    path.shape.is_usual() || PathAndQuery::try_from(path.text).is_ok()
}

/// Percent-encodes the unusual bytes of a path.
pub(crate) fn encoded(path: &str) -> String {
    percent_encoded(path.as_bytes(), |byte| USUAL[usize::from(byte)])
}

/// Target without the texts borrowed from its head. The head records the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetPlace {
    site: usize,
    pub scheme: Scheme,
    port: u16,
    /// True if the aliases of its site count as one name.
    are_one: bool,
    path: PathShape,
}

impl TargetPlace {
    /// Returns a target without its texts.
    pub fn of(target: &Target<'_>) -> TargetPlace {
        let Target { site, scheme, port, aliases, path, .. } = *target;
        let (site, are_one, path) = (site.number(), aliases.is_some(), path.shape);
        TargetPlace { site, scheme, port, are_one, path }
    }

    /// Returns the target, with texts from the head that it was read from.
    pub fn target<'a>(&self, head: &'a RequestHead, front: &'a Front) -> Target<'a> {
        let TargetPlace { scheme, port, are_one, path: shape, .. } = *self;
        let path = ScannedPath { text: head.target.path_and_query(), shape };
        let site = self.site(front);
        let (host, aliases) = (head.target.noted_host(), are_one.then(|| site.aliases()));
        Target { site, scheme, host, port, aliases, path }
    }

    pub fn site<'a>(&self, front: &'a Front) -> &'a Site {
        &front.sites()[self.site]
    }
}

/// Returns the refusal for a host and path that belong to no site.
fn unclaimed(front: &Front, host: &str) -> Refused {
    let (status, text) = match front.is_claimed(host) {
        true => (StatusCode::NOT_FOUND, "No site with this host is for this path."),
        false => (StatusCode::MISDIRECTED_REQUEST, "No site with this host is served here."),
    };
    Refused { status, why: Invalid::Misdirected, text }
}

/// Returns the host and port that a CONNECT names; IPv6 literals lose their brackets.
pub(crate) fn tunnel_target(head: &RequestHead) -> Result<(&str, u16), Refused> {
    check_fields(head)?;
    single_host(&head.fields)?;
    let bad = || Refused::bad(Invalid::Target, "CONNECT needs a target of the form host:port.");
    let authority = head.target.authority().ok_or_else(bad)?;
    if authority.contains('@') {
        return Err(bad());
    }
    let (host, port) = split(authority).ok_or_else(bad)?;
    Ok((bare(host), port.ok_or_else(bad)?))
}

const HOST: UsualName = UsualName::known("host");
const PROTO: UsualName = UsualName::known("x-forwarded-proto");
const HAS_EXPECTATION: UsualNames = UsualNames::of(&["expect"]);
const HAS_PROTO: UsualNames = UsualNames::of(&["x-forwarded-proto"]);

fn check_fields(head: &RequestHead) -> Result<(), Refused> {
    let fields = &head.fields;
    if head.version == Version::HTTP_09 || head.version > Version::HTTP_2 {
        return Err(Refused {
            status: StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            why: Invalid::Syntax,
            text: "This proxy speaks HTTP/1.0, HTTP/1.1 and HTTP/2.",
        });
    }
    if fields.has_any(HAS_EXPECTATION) && !has_member(fields, &header::EXPECT, "100-continue") {
        return Err(Refused {
            status: StatusCode::EXPECTATION_FAILED,
            why: Invalid::Expectation,
            text: "The only expectation this proxy knows is 100-continue.",
        });
    }
    if !framing::is_plain(fields) {
        return Err(Refused {
            status: StatusCode::NOT_IMPLEMENTED,
            why: Invalid::Body,
            text: "The only transfer coding this proxy knows is chunked.",
        });
    }
    if matches!(head.method, Method::TRACE | Method::CONNECT) && framing::announces_body(fields) {
        return Err(Refused::bad(Invalid::Body, "TRACE and CONNECT must not have a body."));
    }
    Ok(())
}

/// Returns the scheme of the request's URL. A reverse proxy answers an absolute URL only on a
/// connection of its scheme (RFC 9110, 7.4): responses for `https` URLs require a secured
/// connection.
fn check_scheme(
    head: &RequestHead,
    front: &Front,
    connection_scheme: Scheme,
) -> Result<Scheme, Refused> {
    let Some(name) = head.target.scheme() else {
        let needed = head.target.authority().is_some();
        return if needed {
            Err(Refused::bad(Invalid::Target, ORIGIN_FORM))
        } else {
            Ok(connection_scheme)
        };
    };
    match Scheme::named(name) {
        Some(scheme) if front.takes_whole_urls() || scheme == connection_scheme => Ok(scheme),
        Some(_) => Err(Refused {
            status: StatusCode::MISDIRECTED_REQUEST,
            why: Invalid::Misdirected,
            text: "The URL's scheme is not the one that this connection serves.",
        }),
        None => Err(Refused {
            status: StatusCode::NOT_IMPLEMENTED,
            why: Invalid::Scheme,
            text: "The schemes that this proxy fetches are http and https.",
        }),
    }
}

/// Returns the single Host field. Several of them, even equal ones, are an attack or a mistake (RFC
/// 9112, 3.2).
fn single_host(fields: &impl Fields) -> Result<Option<&str>, Refused> {
    let mut hosts = fields.lines_of(HOST);
    let Some(host) = hosts.next() else { return Ok(None) };
    if hosts.next().is_some() {
        return Err(Refused::bad(Invalid::Host, "The request has more than one Host field."));
    }
    let text = value::text(host);
    let text = text.ok_or(Refused::bad(Invalid::Host, NO_HOST))?;
    Ok(Some(text))
}

fn without_user_info(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Splits `host[:port]`; `None` for any other form. A percent-encoded host (RFC 3986, 3.2.2) names
/// no server, and HTTP/2 libraries refuse it. An empty port counts as absent.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']')?;
        authority[1..end].parse::<Ipv6Addr>().ok()?;
        let rest = &authority[end + 1..];
        (&authority[..=end], if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        let unusual = authority.bytes().position(|byte| !OF_HOST[usize::from(byte)]);
        let (host, port) = match unusual.map(|at| authority.split_at(at)) {
            Some((host, rest)) => (host, Some(rest.strip_prefix(':')?)),
            None => (authority, None),
        };
        // A fully qualified name with its final dot is the same name (RFC 3986, 3.2.2).
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.ends_with('.') {
            return None;
        }
        if host.is_empty() || host.len() > 255 {
            return None;
        }
        (host, port)
    };
    let port = match port {
        None | Some("") => None,
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            Some(port.parse::<u16>().ok().filter(|&port| port != 0)?)
        }
        Some(_) => return None,
    };
    Some((host, port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::origin::site::Site;
    use upstream::servers::group::Group;
    use upstream::settings::endpoint::Endpoint;

    fn parts(method: &str, target: &str, hosts: &[&str]) -> RequestHead {
        let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        let text = format!("{method} {target} HTTP/1.1\r\n{hosts}\r\n");
        let mut head = RequestHead::default();
        head.read(text.as_bytes(), 8192).unwrap().unwrap();
        head
    }

    fn sites() -> Front {
        let site = |name: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|h| (*h).to_owned()).collect();
            let servers = Group::one(Endpoint::plain("127.0.0.1", 8080));
            Site::new(name, servers).with_hosts(hosts).with_pass_host(true)
        };
        Front::reverse(vec![site("a", &["a.example"]), site("b", &["b.example"])])
    }

    #[test]
    fn split_separates_host_and_port() {
        assert_eq!(split("a.example"), Some(("a.example", None)));
        assert_eq!(split("a.example:"), Some(("a.example", None)));
        assert_eq!(split("a.example."), Some(("a.example", None)));
        assert_eq!(split("a.example.:81"), Some(("a.example", Some(81))));
        assert_eq!(split("a.example:8080"), Some(("a.example", Some(8080))));
        assert_eq!(split("[::1]:81"), Some(("[::1]", Some(81))));
        for bad in [
            "", ":80", "a:0", "a:65536", "a:+1", "a:b", "[::1", "[x]", "[::1]80", "a b", "a/b",
            "u@h", "a:1:2", ".", ".:80",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_forward_proxy_accepts_only_absolute_form() {
        let front = Front::forward();
        let p = parts("GET", "http://user:secret@A.example:81/x?y", &["a.example:81"]);
        let t = target(&p, &front, Scheme::Http).unwrap();
        let Target { site, scheme, host, port, aliases, path } = t;
        assert_eq!((site.name(), scheme, host, port), (None, Scheme::Http, "A.example", 81));
        assert_eq!((aliases, path.text), (None, "/x?y"));
        let refused = target(&parts("GET", "/x", &["a.example"]), &Front::forward(), Scheme::Http)
            .unwrap_err();
        assert_eq!(refused.status, 400);
        assert!(refused.text.contains("http_proxy") && refused.text.contains("curl -x"));
        let p = parts("GET", "https://a.example/", &["a.example:443"]);
        let t = target(&p, &front, Scheme::Http).unwrap();
        assert_eq!((t.scheme, t.port, t.authority()), (Scheme::Https, 443, "a.example".to_owned()));
        let p = parts("GET", "ftp://a.example/", &["a.example"]);
        assert_eq!(target(&p, &Front::forward(), Scheme::Http).unwrap_err().status, 501);
    }

    #[test]
    fn a_path_fits_into_an_origin_request() {
        let front = sites();
        let mut head = parts("GET", "/", &["a.example"]);
        for (length, status) in [(LONGEST_PATH, None), (LONGEST_PATH + 1, Some(414))] {
            head.target.read("/".repeat(length), false);
            let refused = target(&head, &front, Scheme::Http).err();
            assert_eq!(refused.map(|refused| refused.status.as_u16()), status);
        }
    }

    #[test]
    fn an_absolute_url_overrides_the_single_host_field() {
        let front = Front::forward();
        let refused = |hosts: &[&str]| {
            target(&parts("GET", "http://a.example/", hosts), &front, Scheme::Http).unwrap_err().why
        };
        assert_eq!(refused(&["a.example", "a.example"]), Invalid::Host);
        assert_eq!(refused(&[]), Invalid::Host);
        assert_eq!(refused(&["a b"]), Invalid::Host);
        for host in ["A.EXAMPLE:80", "b.example", "a.example:81", ""] {
            let head = parts("GET", "http://a.example/", &[host]);
            let found = target(&head, &front, Scheme::Http).unwrap();
            assert_eq!((found.host, found.port), ("a.example", 80), "{host}");
        }
    }

    #[test]
    fn in_http2_authority_and_host_agree() {
        let refused = |host: &str| {
            let mut head = parts("GET", "http://a.example/", &[host]);
            head.version = Version::HTTP_2;
            target(&head, &Front::forward(), Scheme::Http).map(drop).map_err(|refused| refused.why)
        };
        assert_eq!(refused("A.EXAMPLE:80"), Ok(()));
        assert_eq!(refused("b.example"), Err(Invalid::Host));
        assert_eq!(refused("a.example:81"), Err(Invalid::Host));
    }

    #[test]
    fn reverse_site_follows_from_configuration() {
        let p = parts("GET", "/x", &["B.example:99"]);
        assert_eq!(target(&p, &sites(), Scheme::Http).unwrap().site.name(), Some("b"));
        let p = parts("GET", "http://a.example/x", &["a.example"]);
        assert_eq!(target(&p, &sites(), Scheme::Http).unwrap().site.name(), Some("a"));
        let p = parts("GET", "/x", &["c.example"]);
        assert_eq!(target(&p, &sites(), Scheme::Http).unwrap_err().status, 421);
    }

    #[test]
    fn a_path_without_a_site_is_not_found() {
        let server = || Group::one(Endpoint::plain("127.0.0.1", 8080));
        let site = Site::new("a", server()).with_hosts(vec!["a.example".to_owned()]);
        let front = Front::reverse(vec![site.with_paths(vec!["/x/".parse().unwrap()])]);
        let status = |uri: &str, host: &str| {
            let parts = parts("GET", uri, &[host]);
            target(&parts, &front, Scheme::Http).map(drop).map_err(|why| why.status.as_u16())
        };
        assert_eq!(status("/x/y", "a.example"), Ok(()));
        assert_eq!(status("/%78/y?z", "a.example"), Ok(()));
        assert_eq!(status("/y?/x/", "a.example"), Err(404));
        assert_eq!(status("/x/y", "b.example"), Err(421));
    }

    #[test]
    fn only_a_tls_connection_serves_https_urls() {
        let front = sites();
        let p = parts("GET", "/x", &["a.example"]);
        let t = target(&p, &front, Scheme::Https).unwrap();
        assert_eq!((t.scheme, t.port, t.authority()), (Scheme::Https, 443, "a.example".to_owned()));
        let p = parts("GET", "https://a.example/x", &["a.example:443"]);
        assert_eq!(target(&p, &front, Scheme::Https).unwrap().port, 443);
        assert_eq!(target(&p, &front, Scheme::Http).unwrap_err().status, 421);
        let p = parts("GET", "http://a.example/x", &["a.example"]);
        assert_eq!(target(&p, &front, Scheme::Https).unwrap_err().status, 421);
        let p = parts("GET", "/x", &["a.example:80"]);
        assert_eq!(target(&p, &front, Scheme::Https).unwrap().authority(), "a.example:80");
    }

    #[test]
    fn connect_needs_host_and_port() {
        let p = parts("CONNECT", "a.example:443", &["a.example:443"]);
        assert_eq!(tunnel_target(&p).unwrap(), ("a.example", 443));
        let p = parts("CONNECT", "[::1]:443", &["[::1]:443"]);
        assert_eq!(tunnel_target(&p).unwrap(), ("::1", 443));
        let p = parts("CONNECT", "a.example", &["a.example"]);
        assert_eq!(tunnel_target(&p).unwrap_err().status, 400);
    }

    #[test]
    fn other_expectations_are_refused() {
        let mut p = parts("OPTIONS", "http://a.example/", &["a.example"]);
        p.fields.push("Expect", b"200-maybe");
        assert_eq!(target(&p, &Front::forward(), Scheme::Http).unwrap_err().status, 417);
    }
}
