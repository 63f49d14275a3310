//! The target of a request, read from what the client sent and checked. Nothing is allocated here,
//! for this runs before every cache hit.
//!
//! It promises: a [`Target`] has exactly one host, which the request line and `Host` agree on; user
//! information of a URL is in none of its fields; in a reverse proxy the site follows from the
//! configuration alone.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri, Version, header};
use message::framing;
use message::scheme::Scheme;
use message::via::has_member;
use net::address::bare;
use semantics::forwarded::X_FORWARDED_PROTO;
use semantics::{claims, trusted};
use upstream::send::origin::VERSION;

use crate::observe::outcome::Invalid;
use crate::options::Options;
use crate::origin::site::Front;
use crate::origin::target::Target;
use crate::peers::question::{FLEET, PURGES};

/// The refusal of a request, which is answered with an error of the proxy's own without looking
/// further.
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

const ORIGIN_FORM: &str = "This is a forward proxy: a request names the whole URL. Set \
    http_proxy=http://ADDRESS:PORT/ for a program, or use curl -x http://ADDRESS:PORT URL.";

/// Removes from a request what is not believed of its client, before anything looks at it: what is
/// keyed, compared and passed on is then the same. Returns the scheme of the request's URL, where
/// its target names none; `connection` is that of the connection.
pub(crate) fn distrust(
    fields: &mut HeaderMap,
    client: IpAddr,
    connection: Scheme,
    options: &Options,
) -> Scheme {
    options.client.field_names.enforce(fields);
    // They mean something between nodes alone.
    fields.remove(FLEET);
    fields.remove(PURGES);
    fields.remove(VERSION);
    if let Some(secret) = &options.purging.secret {
        fields.remove(secret.field());
    }
    if !options.front.stands_for_origins() {
        return connection;
    }
    if !options.forwarded.trusts(client) {
        claims::remove_claims(fields, |_| false);
        return connection;
    }
    trusted::settle(fields, &options.forwarded.trust_fields);
    let scheme = Scheme::of_request(connection, client, fields, &options.forwarded);
    // The origin server is told the scheme that the key has, and no other.
    if fields.contains_key(X_FORWARDED_PROTO) {
        fields.insert(X_FORWARDED_PROTO, HeaderValue::from_static(scheme.name()));
    }
    scheme
}

/// Encodes the bytes beyond ASCII in path and query of a request's URL, as clients should have done
/// (RFC 3986, 2.1).
pub(crate) fn encode_path(uri: &mut Uri) {
    let Some(path) = uri.path_and_query().map(PathAndQuery::as_str) else { return };
    if path.is_ascii() {
        return;
    }
    let mut encoded = String::with_capacity(3 * path.len());
    for byte in path.bytes() {
        match byte.is_ascii() {
            true => encoded.push(char::from(byte)),
            // Writing to memory does not fail.
            false => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = PathAndQuery::try_from(encoded).ok();
    // Scheme, authority and path are there as before.
    *uri = Uri::from_parts(parts).unwrap_or_default();
}

/// Checks a request that is not a CONNECT and returns its target. `scheme` is the one that
/// [`distrust`] returned.
pub(crate) fn target<'a>(
    parts: &'a Parts,
    front: &'a Front,
    scheme: Scheme,
) -> Result<Target<'a>, Refused> {
    check_fields(parts)?;
    let host = single_host(&parts.headers)?;
    let path = parts.uri.path_and_query().map_or("", |p| p.as_str());
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = "A URL has control characters percent-encoded (RFC 3986, 2.1).";
        return Err(Refused::bad(Invalid::Target, text));
    }
    let scheme = check_scheme(parts, front, scheme)?;
    let default_port = scheme.default_port();
    let authority = match parts.uri.authority() {
        Some(authority) => {
            let named = without_user_info(authority.as_str());
            if parts.version == Version::HTTP_2 && named.len() < authority.as_str().len() {
                let text = "A request's authority must not contain user information.";
                return Err(Refused::bad(Invalid::Target, text));
            }
            let (name, port) = split(named)
                .ok_or(Refused::bad(Invalid::Target, "The URL's host or port is not valid."))?;
            if let Some(host) = host {
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
            Some(host) => Some(
                split(host)
                    .ok_or(Refused::bad(Invalid::Host, "The Host field is not a host name."))?,
            ),
            None => None,
        },
    };
    // HTTP/2 names it in `:authority`.
    let named = parts.version == Version::HTTP_2 && authority.is_some();
    if host.is_none() && parts.version != Version::HTTP_10 && !named {
        return Err(Refused::bad(Invalid::Host, "An HTTP/1.1 request needs a Host field."));
    }
    let (host, port) = authority.unwrap_or(("", None));
    let site = front.site_of(host, path).ok_or_else(|| unclaimed(front, host))?;
    let port = port.unwrap_or(default_port);
    let aliases = Some(site.aliases()).filter(|of| of.are_one() && !host.is_empty());
    Ok(Target { site, scheme, host, port, aliases, path })
}

/// Returns the refusal of a host and path that no site is for.
fn unclaimed(front: &Front, host: &str) -> Refused {
    let (status, text) = match front.is_claimed(host) {
        true => (StatusCode::NOT_FOUND, "No site with this host is for this path."),
        false => (StatusCode::MISDIRECTED_REQUEST, "No site with this host is served here."),
    };
    Refused { status, why: Invalid::Misdirected, text }
}

/// Returns the host (brackets of an IPv6 literal left out) and port that a CONNECT asks for.
pub(crate) fn tunnel_target(parts: &Parts) -> Result<(&str, u16), Refused> {
    check_fields(parts)?;
    single_host(&parts.headers)?;
    let bad = || Refused::bad(Invalid::Target, "CONNECT needs a target of the form host:port.");
    let authority = parts.uri.authority().ok_or_else(bad)?;
    if authority.as_str().contains('@') {
        return Err(bad());
    }
    let (host, port) = split(authority.as_str()).ok_or_else(bad)?;
    Ok((bare(host), port.ok_or_else(bad)?))
}

/// Checks what every request must fulfil.
fn check_fields(parts: &Parts) -> Result<(), Refused> {
    if parts.version == Version::HTTP_09 || parts.version > Version::HTTP_2 {
        return Err(Refused {
            status: StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            why: Invalid::Syntax,
            text: "This proxy speaks HTTP/1.0, HTTP/1.1 and HTTP/2.",
        });
    }
    if parts.headers.contains_key(header::EXPECT)
        && !has_member(&parts.headers, &header::EXPECT, "100-continue")
    {
        return Err(Refused {
            status: StatusCode::EXPECTATION_FAILED,
            why: Invalid::Expectation,
            text: "The only expectation this proxy knows is 100-continue.",
        });
    }
    if !framing::is_plain(&parts.headers) {
        return Err(Refused {
            status: StatusCode::NOT_IMPLEMENTED,
            why: Invalid::Body,
            text: "The only transfer coding this proxy knows is chunked.",
        });
    }
    if matches!(parts.method, Method::TRACE | Method::CONNECT)
        && framing::announces_body(&parts.headers)
    {
        return Err(Refused::bad(Invalid::Body, "TRACE and CONNECT must not have a body."));
    }
    Ok(())
}

/// Returns the scheme of the request's URL. A reverse proxy answers a URL with a scheme only when
/// it came that way (RFC 9110, 7.4): what it says of an `https` URL must have come over a secured
/// connection.
fn check_scheme(parts: &Parts, front: &Front, came: Scheme) -> Result<Scheme, Refused> {
    let Some(name) = parts.uri.scheme_str() else {
        let needed = parts.uri.authority().is_some();
        return if needed { Err(Refused::bad(Invalid::Target, ORIGIN_FORM)) } else { Ok(came) };
    };
    match Scheme::named(name) {
        Some(scheme) if front.takes_whole_urls() || scheme == came => Ok(scheme),
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

/// Returns the one Host field; several, even equal ones, are an attack or a mistake (RFC 9112,
/// 3.2).
fn single_host(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else { return Ok(None) };
    if hosts.next().is_some() {
        return Err(Refused::bad(Invalid::Host, "The request has more than one Host field."));
    }
    let text = host
        .to_str()
        .map_err(|_| Refused::bad(Invalid::Host, "The Host field is not a host name."))?;
    Ok(Some(text))
}

fn without_user_info(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Splits `host[:port]`; `None` when it has another form. An empty port counts as none.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']')?;
        authority[1..end].parse::<Ipv6Addr>().ok()?;
        let rest = &authority[end + 1..];
        (&authority[..=end], if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&b);
        if host.is_empty() || host.len() > 255 || !host.bytes().all(fine) {
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
    use http::Request;

    use super::*;
    use crate::origin::site::Site;
    use upstream::servers::group::Group;
    use upstream::settings::endpoint::Endpoint;

    fn parts(method: &str, uri: &str, hosts: &[&str]) -> Parts {
        let mut builder = Request::builder().method(method).uri(uri);
        for host in hosts {
            builder = builder.header("host", *host);
        }
        builder.body(()).unwrap().into_parts().0
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
    fn split_takes_hosts_and_ports() {
        assert_eq!(split("a.example"), Some(("a.example", None)));
        assert_eq!(split("a.example:"), Some(("a.example", None)));
        assert_eq!(split("a.example:8080"), Some(("a.example", Some(8080))));
        assert_eq!(split("[::1]:81"), Some(("[::1]", Some(81))));
        for bad in [
            "", ":80", "a:0", "a:65536", "a:+1", "a:b", "[::1", "[x]", "[::1]80", "a b", "a/b",
            "u@h", "a:1:2",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_beyond_ascii_are_encoded() {
        for (uri, expected) in [
            ("/ü?é=\u{1f980}%fc", "/%C3%BC?%C3%A9=%F0%9F%A6%80%fc"),
            ("http://a.example:81/ü", "http://a.example:81/%C3%BC"),
            ("/a%fc|", "/a%fc|"),
            ("a.example:443", "a.example:443"),
            ("*", "*"),
        ] {
            let mut encoded = uri.parse().unwrap();
            encode_path(&mut encoded);
            assert_eq!(encoded.to_string(), expected, "{uri}");
        }
    }

    #[test]
    fn forward_takes_absolute_form_only() {
        let front = Front::forward();
        let p = parts("GET", "http://user:secret@A.example:81/x?y", &["a.example:81"]);
        let t = target(&p, &front, Scheme::Http).unwrap();
        let Target { site, scheme, host, port, aliases, path } = t;
        assert_eq!((site.name(), scheme, host, port), (None, Scheme::Http, "A.example", 81));
        assert_eq!((aliases, path), (None, "/x?y"));
        let refused = target(&parts("GET", "/x", &["a.example"]), &Front::forward(), Scheme::Http)
            .unwrap_err();
        assert_eq!(refused.status, 400);
        assert!(refused.text.contains("http_proxy") && refused.text.contains("curl -x"));
        let p = parts("GET", "https://a.example/", &["a.example:443"]);
        let t = target(&p, &front, Scheme::Http).unwrap();
        assert_eq!((t.scheme, t.port, t.authority()), (Scheme::Https, 443, "a.example".to_owned()));
        let p = parts("GET", "https://a.example/", &["a.example:80"]);
        assert_eq!(target(&p, &Front::forward(), Scheme::Http).unwrap_err().why, Invalid::Host);
        let p = parts("GET", "ftp://a.example/", &["a.example"]);
        assert_eq!(target(&p, &Front::forward(), Scheme::Http).unwrap_err().status, 501);
    }

    #[test]
    fn one_host_that_agrees() {
        let front = Front::forward();
        let refused = |hosts: &[&str]| {
            target(&parts("GET", "http://a.example/", hosts), &front, Scheme::Http).unwrap_err().why
        };
        assert_eq!(refused(&["a.example", "a.example"]), Invalid::Host);
        assert_eq!(refused(&["b.example"]), Invalid::Host);
        assert_eq!(refused(&["a.example:81"]), Invalid::Host);
        assert_eq!(refused(&[]), Invalid::Host);
        assert!(
            target(&parts("GET", "http://a.example/", &["A.EXAMPLE:80"]), &front, Scheme::Http)
                .is_ok()
        );
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
    fn a_path_that_no_site_of_the_host_is_for_is_missing() {
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
    fn a_secured_connection_serves_https_urls() {
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
        p.headers.insert("expect", "200-maybe".parse().unwrap());
        assert_eq!(target(&p, &Front::forward(), Scheme::Http).unwrap_err().status, 417);
    }
}
