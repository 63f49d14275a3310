//! The server that a rule's text with variables names for each request.
//!
//! Guarantees: the key of a response determines its server, because only variables of the URL and
//! classes, which the key then has, may decide on it. Clients cannot choose a port, and a value
//! that is no host name names no server.

use std::net::IpAddr;

use upstream::settings::endpoint::Endpoint;
use upstream::settings::limits::UpstreamLimits;

use crate::message::scheme::Scheme;
use crate::message::template::{Piece, Stage, Template, Values, Variable};

/// Maximum length in bytes of a host name.
const HOST_MAX: usize = 253;

/// Text with variables for a server, such as `https://{capture.1}:8443`.
#[derive(Clone, Debug)]
pub struct ServerTemplate {
    /// `None`: the scheme of the request.
    scheme: Option<Scheme>,
    /// The host, and the port if a class has one.
    host: Template,
    port: PortChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortChoice {
    /// Port of the request's URL.
    OfRequest,
    /// Port that the host's class has, or the default of the scheme.
    OfScheme,
    Fixed(u16),
}

/// A server that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedServer {
    scheme: Scheme,
    /// In lower case, without a final dot.
    pub host: String,
    port: u16,
}

impl ServerTemplate {
    /// Parses a text: `{host}`, or a URL without a path.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<ServerTemplate, String> {
        if text == "{host}" {
            let host = Template::parse(text, Stage::Request)?;
            return Ok(ServerTemplate { scheme: None, host, port: PortChoice::OfRequest });
        }
        let wrong = |why: &str| format!("expected {why}, got {text:?}");
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Some(Scheme::Http), rest),
            Some(("https", rest)) => (Some(Scheme::Https), rest),
            Some(("{scheme}", rest)) => (None, rest),
            _ => return Err(wrong("http://, https:// or {scheme}:// before the variables")),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, PortChoice::Fixed(port.ok_or_else(|| wrong("a port from 1 to 65535"))?))
            }
            _ => (rest, PortChoice::OfScheme),
        };
        let host = Template::parse(host, Stage::Request)?;
        if host.texts().any(|text| text.contains(['/', '?', '#'])) {
            return Err(wrong("a server without a path, which set-path gives"));
        }
        if !host.texts().all(|text| text.bytes().all(is_of_name)) {
            return Err(wrong("a host name around the variables"));
        }
        if let Some(other) = host.variables().find(|variable| !is_in_key(variable)) {
            return Err(format!(
                "{other} does not name a server, since the key of responses does not have it: use \
                 {{host}}, {{capture.N}}, {{query.NAME}} or {{class.NAME}}"
            ));
        }
        Ok(ServerTemplate { scheme, host, port })
    }

    /// Returns the server for a request whose URL has this scheme and port; `None` if the values
    /// name none.
    pub(crate) fn server(
        &self,
        values: &impl Values,
        (scheme, port): (Scheme, u16),
    ) -> Option<NamedServer> {
        let (mut name, mut own_port) = (Vec::new(), None);
        for piece in self.host.pieces() {
            match piece {
                Piece::Text(text) => name.extend_from_slice(text.as_bytes()),
                Piece::Variable(variable) => {
                    let begin = name.len();
                    values.write(variable, &mut name);
                    if own_port.is_some() {
                        return None;
                    }
                    // The values of classes are the operator's.
                    let colon = name[begin..].iter().position(|byte| *byte == b':');
                    if let (Variable::Class(_), Some(at)) = (variable, colon) {
                        let port = name.split_off(begin + at + 1);
                        name.pop();
                        own_port = Some(port_of(&port)?);
                    }
                }
            }
        }
        let host = String::from_utf8(name).ok()?.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
        let is_name = host.bytes().all(is_of_name) && !host.split('.').any(str::is_empty);
        if !is_name || host.len() > HOST_MAX || host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let scheme = self.scheme.unwrap_or(scheme);
        let port = match (self.port, own_port) {
            (PortChoice::OfRequest, _) => port,
            (PortChoice::OfScheme, own_port) => own_port.unwrap_or(scheme.default_port()),
            (PortChoice::Fixed(port), None) => port,
            (PortChoice::Fixed(_), Some(_)) => return None,
        };
        Some(NamedServer { scheme, host, port })
    }
}

impl NamedServer {
    /// Returns the server as the client of its connections needs it.
    pub fn endpoint(&self, limits: &UpstreamLimits) -> Endpoint {
        let plain = Endpoint::plain(&self.host, self.port);
        match self.scheme {
            Scheme::Http => plain,
            Scheme::Https => {
                Endpoint { tls: Some(limits.tls.clone()), http2: limits.http2, ..plain }
            }
        }
    }
}

fn port_of(text: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(text).ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns whether the key of a response has the value. Classes of which it would not otherwise
/// have the value become part of it.
fn is_in_key(variable: &Variable) -> bool {
    matches!(
        variable,
        Variable::Host
            | Variable::Site
            | Variable::Capture(_)
            | Variable::Parameter(_)
            | Variable::Class(_)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Values of which each is this text.
    struct Same(&'static str);

    impl Values for Same {
        fn write(&self, _: &Variable, out: &mut Vec<u8>) {
            out.extend_from_slice(self.0.as_bytes());
        }
    }

    fn named(text: &str, value: &'static str) -> Option<String> {
        let template = ServerTemplate::parse(text).unwrap();
        let server = template.server(&Same(value), (Scheme::Http, 8000))?;
        Some(format!("{}://{}:{}", server.scheme.name(), server.host, server.port))
    }

    #[test]
    fn values_name_servers() {
        for (text, value, expected) in [
            ("{host}", "A.test", "http://a.test:8000"),
            ("http://{host}", "a.test.", "http://a.test:80"),
            ("{scheme}://{host}:8080", "a.test", "http://a.test:8080"),
            ("https://{capture.1}", "a.test", "https://a.test:443"),
            ("https://{query.to}.test:8443", "a_b-1", "https://a_b-1.test:8443"),
            ("http://{class.mirror}", "a.test:81", "http://a.test:81"),
        ] {
            assert_eq!(named(text, value).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn values_that_are_no_host_names_name_no_server() {
        let odd = [
            "", ".", "..", "a..b", ".a", "a:81", "a@b", "u:p@a", "a/b", "a?b", "a#b", "a b",
            "a\r\nb", "a%2eb", "[::1]", "::1", "10.0.0.1", "a\0", "é", "a\\b",
        ];
        for value in odd {
            assert_eq!(named("http://{capture.1}", value), None, "{value:?}");
        }
        for value in ["a:", "a:0", "a:+1", "a:99999", "a:b", ":80", "a:80:80"] {
            assert_eq!(named("http://{class.a}", value), None, "{value:?}");
        }
        assert_eq!(named("http://{class.a}:80", "a:80"), None);
        assert_eq!(named("http://{class.a}{class.b}", "a:80"), None);
        assert_eq!(named("http://{class.a}.test", "a:80").as_deref(), Some("http://a.test:80"));
        let long: &'static str = Box::leak("a".repeat(300).into_boxed_str());
        assert_eq!(named("http://{host}", long), None);
    }

    #[test]
    fn wrong_texts_are_refused() {
        for (text, words) in [
            ("{capture.1}", "expected http://, https:// or {scheme}://"),
            ("ftp://{host}", "expected http://, https:// or {scheme}://"),
            ("{class.scheme}://{host}", "expected http://, https:// or {scheme}://"),
            ("http://{host}/path", "expected a server without a path"),
            ("http://{host}?a", "expected a server without a path"),
            ("http://{host}{uri}", "{uri} does not name a server"),
            ("http://{header.x-to}", "{header.x-to} does not name a server"),
            ("http://{client_ip}", "{client_ip} does not name a server"),
            ("http://u@{host}", "expected a host name around"),
            ("http://{host}:0", "expected a port from 1 to 65535"),
            ("http://{host}:99999", "expected a port from 1 to 65535"),
            ("http://{host}:{capture.1}", "expected a host name around"),
            ("http://{nothing}", "{nothing} is not a variable"),
        ] {
            let told = ServerTemplate::parse(text).unwrap_err();
            assert!(told.contains(words), "{text}: {told}");
        }
    }
}
