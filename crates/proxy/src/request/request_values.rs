//! Values of a request for the variables of templates.

use std::net::SocketAddr;

use http::StatusCode;
use http::header::{self, HeaderValue};
use http1::RequestHead;
use semantics::{Fields as _, value};

use crate::message::forwarded::Forwarded;
use crate::message::scheme::Scheme;
use crate::message::template::{Values, Variable, parameter, write_shown};
use crate::message::trace_context::TraceContext;
use crate::observe::outcome::Outcome;
use crate::observe::tls_facts::TlsFacts;
use crate::origin::target::Target;
use crate::rules::classes::ClassValues;
use crate::rules::request_rules::Rule;

/// Origin of a request: its client, and its id.
#[derive(Clone, Copy)]
pub(crate) struct Requester<'a> {
    /// The client, or a proxy that may be trusted to name its client.
    pub client: SocketAddr,
    pub forwarded: &'a Forwarded,
    pub tls: Option<&'a TlsFacts>,
    /// The address of the listener, as configured; `None` if it is not known.
    pub listener: Option<&'a str>,
    /// `None` if no setting needs it.
    pub id: Option<&'a HeaderValue>,
    /// `None` if the request belongs to no trace, or traces are forwarded unchanged.
    pub trace: Option<&'a TraceContext>,
}

impl<'a> Requester<'a> {
    /// Returns a requester of which no more than the address is known.
    pub fn at(client: SocketAddr, forwarded: &'a Forwarded) -> Requester<'a> {
        Requester { client, forwarded, tls: None, listener: None, id: None, trace: None }
    }
}

/// Values of a request, and of its response if that is known.
#[derive(Clone, Copy)]
pub(crate) struct RequestValues<'a> {
    pub from: Requester<'a>,
    pub head: &'a RequestHead,
    pub scheme: &'a str,
    pub host: &'a str,
    pub site: Option<&'a str>,
    pub rule: Option<&'a Rule>,
    /// The classes that the rule uses.
    pub classes: Option<&'a ClassValues>,
    /// Path and query in the form of the key, if values are to have that.
    pub normal: Option<&'a str>,
    pub response: Option<ResponseValues>,
}

/// Values of a response.
#[derive(Clone, Copy)]
pub(crate) struct ResponseValues {
    pub status: StatusCode,
    pub outcome: Outcome,
    pub age: Option<u64>,
}

impl<'a> RequestValues<'a> {
    /// Returns the values of a request to `target`. Its host is the one of the key, so that a value
    /// in a stored response does not depend on the alias that a client used.
    pub fn new(
        from: Requester<'a>,
        head: &'a RequestHead,
        target: &Target<'a>,
        rule: Option<(&'a Rule, &'a ClassValues)>,
    ) -> RequestValues<'a> {
        RequestValues {
            from,
            head,
            scheme: target.scheme.name(),
            host: target.place().0,
            site: target.site.name(),
            rule: rule.map(|(rule, _)| rule),
            classes: rule.map(|(_, classes)| classes),
            normal: None,
            response: None,
        }
    }

    /// Returns the values of a request whose target is not checked yet. `scheme` is the scheme of
    /// its URL if the URL names none.
    pub fn before_routing(
        from: Requester<'a>,
        head: &'a RequestHead,
        scheme: Scheme,
    ) -> RequestValues<'a> {
        let named = || head.fields.line(&header::HOST).and_then(value::text);
        let authority = head.target.authority().or_else(named).unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => authority,
        };
        let scheme = head.target.scheme().unwrap_or(scheme.name());
        let (site, rule, classes, response) = (None, None, None, None);
        RequestValues { from, head, scheme, host, site, rule, classes, normal: None, response }
    }

    fn cookie(&self, name: &str) -> Option<&'a [u8]> {
        let lines = self.head.fields.lines(&header::COOKIE);
        let mut cookies = lines.flat_map(|line| line.split(|byte| *byte == b';'));
        cookies.find_map(|cookie| {
            let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?;
            value.strip_prefix(b"=")
        })
    }

    /// Returns the name of the rule.
    pub fn rule_name(&self) -> Option<&'a str> {
        self.rule.and_then(Rule::shown_name)
    }

    fn uri(&self) -> &'a str {
        self.normal.unwrap_or(self.head.target.path_and_query())
    }

    fn path(&self) -> &'a str {
        let uri = self.uri();
        uri.split_once('?').map_or(uri, |(path, _)| path)
    }

    fn query(&self) -> &'a str {
        let uri = self.uri();
        uri.split_once('?').map_or("", |(_, query)| query)
    }

    /// Returns values that are texts; `None` for those that are written otherwise, or missing.
    fn text(&self, variable: &Variable) -> Option<&'a [u8]> {
        let text = match variable {
            Variable::Scheme => self.scheme,
            Variable::Method => self.head.method.as_str(),
            Variable::Path => self.path(),
            Variable::Query => self.query(),
            Variable::Uri => self.uri(),
            Variable::RequestId => return self.from.id.map(HeaderValue::as_bytes),
            Variable::TraceId => return self.from.trace.map(TraceContext::trace_id),
            Variable::SpanId => return self.from.trace.map(TraceContext::span_id),
            Variable::Site => self.site?,
            Variable::Rule => self.rule_name()?,
            Variable::TlsVersion => self.from.tls?.version,
            Variable::Cookie(name) => return self.cookie(name),
            Variable::Class(name) => self.classes?.get(name),
            Variable::Capture(number) => self.rule?.capture(self.path(), *number)?,
            _ => return None,
        };
        Some(text.as_bytes())
    }
}

impl Values for RequestValues<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
        if let Some(text) = self.text(variable) {
            return out.extend_from_slice(text);
        }
        match (variable, &self.response) {
            (Variable::ClientIp, _) => {
                let from = &self.from;
                write_shown(from.forwarded.client(from.client.ip(), &self.head.fields), out);
            }
            (Variable::ClientPort, _) => write_shown(self.from.client.port(), out),
            (Variable::Host, _) => out.extend(self.host.bytes().map(|b| b.to_ascii_lowercase())),
            (Variable::Header(name), _) => {
                for (number, line) in self.head.fields.lines(name).enumerate() {
                    let comma: &[u8] = if number == 0 { b"" } else { b", " };
                    out.extend_from_slice(comma);
                    out.extend_from_slice(line);
                }
            }
            (Variable::Parameter(name), _) => {
                out.extend_from_slice(parameter(self.query(), name).as_bytes());
            }
            (Variable::Status, Some(response)) => write_shown(response.status.as_u16(), out),
            (Variable::Outcome, Some(response)) => {
                out.extend_from_slice(response.outcome.text().as_bytes());
            }
            (Variable::Age, Some(ResponseValues { age: Some(age), .. })) => write_shown(age, out),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::message::template::{Stage, Template};

    #[test]
    fn values_are_those_of_request_and_response() {
        let mut head = RequestHead::default();
        let text = "GET /a/%0d%0a?b=1&c HTTP/1.1\r\nHost: A.test\r\nX-Two: 1\r\nX-Two: 2\r\n\
                    Cookie: idx=0; id=7; id=8\r\n\r\n";
        head.read(text.as_bytes(), text.len()).unwrap().unwrap();
        let id = HeaderValue::from_static("r1");
        let client = "[::ffff:192.0.2.1]:80".parse().unwrap();
        let response = ResponseValues {
            status: StatusCode::NOT_FOUND,
            outcome: Outcome::HitRam,
            age: Some(3),
        };
        let pages = Rule::new("pages".to_owned(), semantics::Settings::default());
        let values = RequestValues {
            from: Requester {
                client,
                forwarded: &Forwarded::default(),
                tls: None,
                listener: None,
                id: Some(&id),
                trace: None,
            },
            head: &head,
            scheme: "http",
            host: "A.test",
            site: None,
            rule: Some(&pages),
            classes: None,
            normal: None,
            response: Some(response),
        };
        for (text, expected) in [
            (
                "{client_ip}:{client_port} {scheme}://{host}{uri}",
                "192.0.2.1:80 http://a.test/a/%0d%0a?b=1&c",
            ),
            ("{method} {path} {query}", "GET /a/%0d%0a b=1&c"),
            ("{header.x-two} {cookie.id} {cookie.i}", "1, 2 7"),
            ("{query.b}{query.c}{query.d}{class.none}", "1"),
            ("{request_id} {rule} {capture.3}{site}{tls_version}.", "r1 pages ."),
            ("{status} {outcome} {age}", "404 HIT_RAM 3"),
        ] {
            let template = Template::parse(text, Stage::Response).unwrap();
            assert_eq!(template.field_value(&values).unwrap(), expected);
        }
    }
}
