//! Requests to change the protocol of a connection (RFC 9110, 7.8), as in the WebSocket handshake
//! (RFC 6455), and their HTTP/2 form, the extended CONNECT (RFC 8441).
//!
//! Inside the proxy such a request has the HTTP/1.1 form, whatever version the client and the
//! server use: `Upgrade` with the requested protocols, and a 101 response that names the chosen
//! one. An extended CONNECT is converted to that form here ([`from_stream`]), and its response back
//! ([`to_stream`]).
//!
//! Guarantees:
//!
//! * No requested protocol carries HTTP itself (`h2c`, `HTTP/…`, `TLS/…`), because unchecked
//!   requests would follow.
//! * A request with a body requests no upgrade, so the meaning of the bytes after its head is never
//!   in doubt.
//! * A response changes the protocol only to one that was requested.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode, Version};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use semantics::{EditFields, Fields, UsualNames};

use crate::message::via::{has_member, list};
use net::random::random;

const WEBSOCKET: &str = "websocket";
const KEY: HeaderName = header::SEC_WEBSOCKET_KEY;
const ACCEPT: HeaderName = header::SEC_WEBSOCKET_ACCEPT;

/// The constant in the server's half of a WebSocket handshake (RFC 6455, 1.3).
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The protocols that a request asks to upgrade to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The protocols in the client's order.
    protocols: Vec<String>,
    /// True if an extended CONNECT can make this request: it is a GET for a single protocol, and
    /// contains everything needed for an HTTP/1.1 response.
    fits_stream: bool,
    /// True if the request arrived as an extended CONNECT.
    of_stream: bool,
}

/// Returns the upgrade that a request with this method, version and fields asks for, if it may be
/// forwarded. `of_stream`: the request arrived as an extended CONNECT. `Upgrade` is ignored in
/// HTTP/1.0, and where `Connection` does not name it (RFC 9110, 7.8).
pub fn asked_by(
    (method, version): (&Method, Version),
    of_stream: bool,
    fields: &impl Fields,
    has_body: bool,
) -> Option<Upgrade> {
    let may_ask = version == Version::HTTP_11 || of_stream;
    if has_body || !may_ask || method == Method::CONNECT {
        return None;
    }
    let protocols = protocols(fields)?;
    let fits_stream = method == Method::GET && fits_stream(&protocols, fields);
    Some(Upgrade { protocols, fits_stream, of_stream })
}

fn fits_stream(protocols: &[String], fields: &impl Fields) -> bool {
    let [only] = protocols else { return false };
    let lacks_key = only.eq_ignore_ascii_case(WEBSOCKET) && !fields.has(&KEY);
    !lacks_key && !only.contains('/')
}

const HAS_UPGRADE: UsualNames = UsualNames::of(&["upgrade"]);

/// Returns the requested protocols that may be forwarded; `None` if no protocol is requested.
pub fn protocols(fields: &impl Fields) -> Option<Vec<String>> {
    if !fields.has_any(HAS_UPGRADE) {
        return None;
    }
    let mut asked = list(fields, &header::UPGRADE).filter(|name| may_pass(name)).peekable();
    asked.peek()?;
    let is_of_hop = has_member(fields, &header::CONNECTION, "upgrade");
    is_of_hop.then(|| asked.map(str::to_owned).collect())
}

/// Returns whether a tunnel may carry the protocol: it has the form `name[/version]` and is not a
/// form of HTTP (RFC 9113, 3.1 has removed h2c; RFC 2817 would hide requests in TLS).
fn may_pass(protocol: &str) -> bool {
    let token = |text: &str| {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(fine)
    };
    let (name, version) = match protocol.split_once('/') {
        Some((name, version)) => (name, Some(version)),
        None => (protocol, None),
    };
    let is_http =
        ["h2c", "h2", "h3", "http", "tls"].iter().any(|http| name.eq_ignore_ascii_case(http));
    !is_http && token(name) && version.is_none_or(token)
}

/// Returns whether a request arrived as an extended CONNECT.
pub fn is_of_stream(parts: &Parts) -> bool {
    parts.extensions.get::<Protocol>().is_some()
}

impl Upgrade {
    /// Adds the fields that request the protocols to a request head for a server.
    pub fn ask(&self, fields: &mut impl EditFields) {
        if let Ok(protocols) = HeaderValue::try_from(self.protocols.join(", ")) {
            fields.remove_lines(&header::TE);
            fields.set_line(&header::CONNECTION, &HeaderValue::from_static("upgrade"));
            fields.set_line(&header::UPGRADE, &protocols);
        }
    }

    /// Returns the protocol to request in an extended CONNECT, which can name only one.
    pub fn of_extended_connect(&self) -> Option<&str> {
        self.protocols.first().filter(|_| self.fits_stream).map(String::as_str)
    }

    /// Returns the value of `Upgrade` in a 101 response, if every protocol in it was requested.
    pub fn chosen(&self, answer: &HeaderMap) -> Option<HeaderValue> {
        let mut chosen = list(answer, &header::UPGRADE).peekable();
        chosen.peek()?;
        let was_asked =
            |name: &str| self.protocols.iter().any(|asked| asked.eq_ignore_ascii_case(name));
        let chosen: Vec<_> = chosen.collect();
        let all = chosen.iter().all(|name| was_asked(name));
        all.then(|| HeaderValue::try_from(chosen.join(", ")).ok()).flatten()
    }

    /// Returns whether the client needs an HTTP/2 response, in which a 2xx changes the protocol.
    pub fn of_stream(&self) -> bool {
        self.of_stream
    }
}

/// Converts the head of an extended CONNECT to HTTP/1.1 form (RFC 8441, 5).
pub fn from_stream(parts: &mut Parts) {
    let Some(protocol) = parts.extensions.get::<Protocol>() else { return };
    let name = HeaderValue::from_bytes(protocol.as_ref());
    parts.method = Method::GET;
    // A name that is not a valid field value may not be forwarded: request nothing then.
    let Ok(name) = name else { return };
    let is_websocket = name.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes());
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(header::UPGRADE, name);
    if is_websocket {
        let nonce = [random().to_be_bytes(), random().to_be_bytes()].concat();
        if let Ok(key) = HeaderValue::try_from(STANDARD.encode(nonce)) {
            parts.headers.insert(KEY, key);
        }
    } else {
        parts.headers.remove(KEY);
    }
}

/// Converts the head of a 101 response to HTTP/2 form. `request` is the head of the request, as
/// [`from_stream`] produced it. Returns false if the server failed the WebSocket handshake.
pub fn to_stream(request: &HeaderMap, answer: &mut HeaderMap) -> bool {
    let accepted = answer.remove(ACCEPT);
    match request.get(KEY) {
        Some(key) => accepted.is_some_and(|accepted| accepted == accept(key)),
        None => true,
    }
}

/// Converts a server's response to an extended CONNECT to HTTP/1.1 form. `request` is the head that
/// requested `protocol`.
pub fn from_server(protocol: &str, request: &HeaderMap, answer: &mut HeaderMap) {
    answer.remove(header::CONTENT_LENGTH);
    answer.remove(ACCEPT);
    if let Ok(protocol) = HeaderValue::try_from(protocol) {
        answer.insert(header::UPGRADE, protocol);
    }
    if let Some(key) = request.get(KEY)
        && protocol.eq_ignore_ascii_case(WEBSOCKET)
    {
        answer.insert(ACCEPT, accept(key));
    }
}

/// Converts the fields of an upgrade request to those of an extended CONNECT.
pub fn to_server(fields: &mut HeaderMap) {
    fields.remove(KEY);
    // Neither side sends a body.
    fields.remove(header::CONTENT_LENGTH);
}

/// Returns the `Sec-WebSocket-Accept` value for a key (RFC 6455, 4.2.2).
fn accept(key: &HeaderValue) -> HeaderValue {
    let text = [key.as_bytes(), WEBSOCKET_GUID].concat();
    let sum = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text));
    // Base64 output is visible ASCII.
    HeaderValue::try_from(sum).unwrap_or(HeaderValue::from_static(""))
}

/// Returns whether a response to an extended CONNECT changes the protocol (RFC 8441, 4).
pub fn is_switch_of_stream(status: StatusCode) -> bool {
    status.is_success()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(version: Version, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().version(version).uri("/chat");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn asked(parts: &Parts, has_body: bool) -> Option<Upgrade> {
        let of_stream = is_of_stream(parts);
        asked_by((&parts.method, parts.version), of_stream, &parts.headers, has_body)
    }

    fn of(fields: &[(&str, &str)]) -> Option<Vec<String>> {
        asked(&parts(Version::HTTP_11, fields), false).map(|upgrade| upgrade.protocols)
    }

    #[test]
    fn what_is_asked_for() {
        let both = |connection, upgrade| of(&[("connection", connection), ("upgrade", upgrade)]);
        assert_eq!(both("Upgrade", "websocket").unwrap(), ["websocket"]);
        assert_eq!(both("keep-alive, uPgrade", "WebSocket, x/2").unwrap(), ["WebSocket", "x/2"]);
        // The upgrade is not requested of this hop, or not requested at all.
        assert_eq!(both("keep-alive", "websocket"), None);
        assert_eq!(of(&[("upgrade", "websocket")]), None);
        assert_eq!(of(&[("connection", "upgrade")]), None);
        for http in ["h2c", "H2C", "h2", "h3", "HTTP/2.0", "http/3", "TLS/1.0", "tls", "a b", "/"] {
            assert_eq!(both("upgrade", http), None, "{http}");
        }
        assert_eq!(both("upgrade, http2-settings", "h2c, foo").unwrap(), ["foo"]);
        let fields = [("connection", "upgrade"), ("upgrade", "websocket")];
        assert_eq!(asked(&parts(Version::HTTP_10, &fields), false), None);
        assert_eq!(asked(&parts(Version::HTTP_2, &fields), false), None);
        assert_eq!(asked(&parts(Version::HTTP_11, &fields), true), None);
    }

    #[test]
    fn only_what_was_asked_for_is_chosen() {
        let protocols = vec!["websocket".to_owned(), "x/2".to_owned()];
        let upgrade = Upgrade { protocols, fits_stream: false, of_stream: false };
        let chosen = |value: &str| {
            let answer = parts(Version::HTTP_11, &[("upgrade", value)]).headers;
            upgrade.chosen(&answer).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(chosen("WebSocket").unwrap(), "WebSocket");
        assert_eq!(chosen("x/2").unwrap(), "x/2");
        for other in ["h2c", "x", "websocket, h2c", "", ","] {
            assert_eq!(chosen(other), None, "{other}");
        }
        assert_eq!(upgrade.chosen(&HeaderMap::new()), None);
    }

    #[test]
    fn streams_have_the_form_of_http1_and_back() {
        let mut head = parts(Version::HTTP_2, &[("sec-websocket-protocol", "chat")]);
        head.method = Method::CONNECT;
        head.extensions.insert(Protocol::from_static("websocket"));
        from_stream(&mut head);
        let upgrade = asked(&head, false).unwrap();
        assert!(upgrade.of_stream() && head.method == Method::GET);
        assert_eq!(STANDARD.decode(&head.headers[KEY]).unwrap().len(), 16);
        let mut answer = HeaderMap::new();
        assert!(!to_stream(&head.headers, &mut answer.clone()));
        from_server("websocket", &head.headers, &mut answer);
        assert_eq!(upgrade.chosen(&answer).unwrap(), "websocket");
        assert!(to_stream(&head.headers, &mut answer) && !answer.contains_key(ACCEPT));
        // A protocol that may not be forwarded requests nothing.
        let mut head = parts(Version::HTTP_2, &[]);
        head.extensions.insert(Protocol::from_static("h2c"));
        from_stream(&mut head);
        assert_eq!(asked(&head, false), None);
    }

    /// Tests the example of RFC 6455, 1.3.
    #[test]
    fn accepts_as_websocket_has_it() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
