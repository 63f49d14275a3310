//! Checks that every admin request passes before it reaches an endpoint.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderValue};
use http::uri::Authority;
use http::{Method, Request, StatusCode};
use subtle::ConstantTimeEq;

use crate::admin::interface::{Answer, closing, is_loopback, text};

/// Host names and token that an admin request must match. All clones share them, so that a reload
/// can replace them.
#[derive(Clone, Default)]
pub struct Guard(Arc<ArcSwap<Credentials>>);

#[derive(Default)]
struct Credentials {
    names: Vec<String>,
    token: Option<String>,
}

impl Guard {
    /// Creates a guard that admits requests whose Host is an IP literal, `localhost` or one of
    /// `names`. If `token` is given, requests must also carry it (`Authorization: Bearer TOKEN`, or
    /// as the password of `Basic` to read); an empty token admits no request.
    pub fn new(names: Vec<String>, token: Option<String>) -> Guard {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Guard(Arc::new(ArcSwap::from_pointee(Credentials { names, token })))
    }

    /// Takes the names and the token of another guard, for requests from now on.
    pub fn adopt(&self, other: &Guard) {
        self.0.store(other.0.load_full());
    }

    /// Warns if other machines can reach `address` and no token is set.
    pub fn warn_if_open(&self, address: SocketAddr) {
        if self.is_open(address) {
            log::warn!(
                "the admin interface listens on {address}, beyond this machine, without a token: \
                 any host that reaches it can read the metrics and purge the cache; set \
                 admin-token or admin-token-file, or listen on 127.0.0.1"
            );
        }
    }

    pub(crate) fn is_open(&self, address: SocketAddr) -> bool {
        !is_loopback(address) && self.0.load().token.is_none()
    }

    /// Returns the response to a request that is not admitted, `None` if it is admitted.
    pub(crate) fn refusal<T>(&self, request: &Request<T>) -> Option<Answer> {
        let refuse = |status, what: &str| Some(closing(text(status, what.to_owned())));
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok().and_then(|host| host.parse().ok()),
            _ => None,
        };
        let Some(host) = host else {
            return refuse(StatusCode::BAD_REQUEST, "A request needs one valid Host.\n");
        };
        let credentials = self.0.load();
        let Credentials { names, token } = &**credentials;
        if !knows(names, &host) || request.uri().authority().is_some_and(|a| !knows(names, a)) {
            return refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "The admin interface answers only to IP addresses, localhost and the names in \
                 its configuration (admin-names).\n",
            );
        }
        if let Some(token) = token
            && !carries(request, token)
        {
            let what = "This needs the token: Authorization: Bearer TOKEN.\n";
            let mut answer = closing(text(StatusCode::UNAUTHORIZED, what.to_owned()));
            for challenge in ["Bearer realm=\"larder\"", "Basic realm=\"larder\""] {
                let challenge = HeaderValue::from_static(challenge);
                answer.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
            return Some(answer);
        }
        if is_from_elsewhere(request) {
            return refuse(
                StatusCode::FORBIDDEN,
                "The admin interface answers no requests of web pages from elsewhere \
                 (Sec-Fetch-Site, Origin).\n",
            );
        }
        if changes(request) && request.headers().contains_key(header::ORIGIN) {
            return refuse(
                StatusCode::FORBIDDEN,
                "A request that changes something must not come from a web page (it carries \
                 Origin).\n",
            );
        }
        None
    }
}

/// Returns whether a request may name this host: an IP address, `localhost` or one of `names`.
fn knows(names: &[String], authority: &Authority) -> bool {
    let text = authority.as_str();
    if text.contains('@') {
        return false;
    }
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || names.contains(&name)
}

/// Returns whether a browser marks the request as caused by a page of another origin. Other clients
/// send neither field. `none` marks a request made by the user, such as a typed address.
fn is_from_elsewhere<T>(request: &Request<T>) -> bool {
    let headers = request.headers();
    let is_own = |site: &HeaderValue| site == "same-origin" || site == "none";
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_host = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let of_scheme = |scheme: &[u8]| origin.strip_prefix(scheme);
        let authority = of_scheme(b"http://").or_else(|| of_scheme(b"https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    };
    !headers.get_all("sec-fetch-site").iter().all(is_own)
        || !headers.get_all(header::ORIGIN).iter().all(is_host)
}

/// Returns whether the request carries the token: as `Bearer`, or as the password of `Basic`, which
/// browsers can send, if it changes nothing. The comparison takes the same time wherever the first
/// difference is.
fn carries<T>(request: &Request<T>, token: &str) -> bool {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let value = value.as_bytes();
    let after = |scheme: &[u8]| {
        let (begin, rest) = value.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
    };
    let given = match (after(b"bearer "), after(b"basic ")) {
        (Some(given), _) => given.to_vec(),
        (_, Some(pair)) if !changes(request) => password(pair).unwrap_or_default(),
        _ => return false,
    };
    !token.is_empty() && bool::from(given.ct_eq(token.as_bytes()))
}

/// Returns the password of a `Basic` pair.
fn password(pair: &[u8]) -> Option<Vec<u8>> {
    let pair = STANDARD.decode(pair).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn changes<T>(request: &Request<T>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}
