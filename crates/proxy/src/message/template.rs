//! Texts with variables, such as `{client_ip} got {outcome}`. A text is parsed once, when the
//! configuration is loaded, and written for each request.
//!
//! Values come from clients and origin servers. A value in a field cannot begin another field or
//! end the head: control characters become spaces (`Template::field_value`).

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use http::header::{HeaderName, HeaderValue};

/// Maximum length in bytes of a field value with variables; the rest is cut off.
const FIELD_VALUE_MAX: usize = 8 << 10;

/// Text with variables in braces; `{{` and `}}` stand for braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Variable(Variable),
}

/// Moment from which on a variable has a value. A text may use the variables of earlier moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The head of the request is read.
    Request,
    /// The head of the response is known.
    Response,
    /// The response has ended.
    End,
}

/// Variable of a [`Template`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Variable {
    ClientIp,
    ClientPort,
    Scheme,
    Host,
    Method,
    /// Path without query.
    Path,
    /// Query without `?`.
    Query,
    /// Path and query.
    Uri,
    RequestId,
    TraceId,
    SpanId,
    Site,
    Rule,
    TlsVersion,
    /// Field of the request; several lines are joined by commas.
    Header(HeaderName),
    /// Field of the response: its first line.
    ResponseHeader(HeaderName),
    /// Cookie of the request.
    Cookie(String),
    /// First parameter of the query with this name, decoded.
    Parameter(String),
    /// Value of the operator's class of this name.
    Class(String),
    /// Part of the path that the `*` of this number, from 1, in the rule's pattern stands for.
    Capture(usize),
    Status,
    /// Value of `Age` in seconds.
    Age,
    Outcome,
    /// Bytes sent.
    Bytes,
    /// Seconds until the end of the response.
    Duration,
    /// Seconds until the response began.
    FirstByte,
    /// Addresses of the servers that were asked.
    Upstream,
    /// Seconds from the first question to a server until the head of its response.
    UpstreamTime,
    /// Status of the last response of a server.
    UpstreamStatus,
    /// End of the request.
    Time,
}

/// Variables without an argument: the name, and when the value is known.
const PLAIN: [(&str, Variable, Stage); 24] = [
    ("client_ip", Variable::ClientIp, Stage::Request),
    ("client_port", Variable::ClientPort, Stage::Request),
    ("scheme", Variable::Scheme, Stage::Request),
    ("host", Variable::Host, Stage::Request),
    ("method", Variable::Method, Stage::Request),
    ("path", Variable::Path, Stage::Request),
    ("query", Variable::Query, Stage::Request),
    ("uri", Variable::Uri, Stage::Request),
    ("request_id", Variable::RequestId, Stage::Request),
    ("trace_id", Variable::TraceId, Stage::Request),
    ("span_id", Variable::SpanId, Stage::Request),
    ("site", Variable::Site, Stage::Request),
    ("rule", Variable::Rule, Stage::Request),
    ("tls_version", Variable::TlsVersion, Stage::Request),
    ("status", Variable::Status, Stage::Response),
    ("age", Variable::Age, Stage::Response),
    ("outcome", Variable::Outcome, Stage::Response),
    ("bytes", Variable::Bytes, Stage::End),
    ("duration", Variable::Duration, Stage::End),
    ("first_byte", Variable::FirstByte, Stage::End),
    ("upstream", Variable::Upstream, Stage::End),
    ("upstream_time", Variable::UpstreamTime, Stage::End),
    ("upstream_status", Variable::UpstreamStatus, Stage::End),
    ("time", Variable::Time, Stage::End),
];

/// Variables with an argument that all texts may have, as messages name them.
const WITH_ARGUMENT: &str = "{header.NAME}, {cookie.NAME}, {query.NAME}, {capture.N}";

/// Source of the values of variables.
pub(crate) trait Values {
    /// Appends the value, unescaped; appends nothing if there is none.
    fn write(&self, variable: &Variable, out: &mut Vec<u8>);
}

impl Template {
    /// Parses a text that is written at this stage. The error is a sentence.
    pub fn parse(text: &str, stage: Stage) -> Result<Template, String> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                plain.push_str(&rest[..1]);
                rest = after;
                continue;
            }
            let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let Some((name, after)) = inner else {
                return Err(format!(
                    "expected {{NAME}}, or {{{{ and }}}} for braces, got {rest:?}"
                ));
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Variable(Variable::parse(name, stage)?));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// Returns the variables in the text.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }

    /// Returns the text if it has no variables.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the pieces of the text between variables.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Variable(_) => None,
        })
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns whether the text is this variable and nothing else.
    pub(crate) fn is_only(&self, variable: &Variable) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Variable(only)] if only == variable)
    }

    /// Returns the bytes of the text.
    pub(crate) fn text(&self, values: &impl Values) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Variable(variable) => values.write(variable, &mut out),
            }
        }
        out
    }

    /// Returns the text as the value of a field, with spaces for control characters (RFC 9110,
    /// 5.5) and at most [`FIELD_VALUE_MAX`] bytes. Returns `None` if nothing is left.
    pub(crate) fn field_value(&self, values: &impl Values) -> Option<HeaderValue> {
        let mut out = self.text(values);
        out.truncate(FIELD_VALUE_MAX);
        for byte in out.iter_mut().filter(|byte| byte.is_ascii_control()) {
            *byte = b' ';
        }
        let value = out.trim_ascii();
        if value.is_empty() { None } else { HeaderValue::from_bytes(value).ok() }
    }
}

impl Variable {
    /// Parses the text between braces.
    fn parse(name: &str, stage: Stage) -> Result<Variable, String> {
        if let Some((_, variable, known)) = PLAIN.iter().find(|(known, ..)| *known == name) {
            return match *known <= stage {
                true => Ok(variable.clone()),
                false => Err(format!(
                    "{{{name}}} is not known yet when this text is written; {}",
                    Known(stage)
                )),
            };
        }
        let argument = name.split_once('.').and_then(|(kind, argument)| match kind {
            "header" => argument.parse().ok().map(Variable::Header),
            "cookie" if is_token(argument) => Some(Variable::Cookie(argument.to_owned())),
            "query" if !argument.is_empty() => Some(Variable::Parameter(argument.to_owned())),
            "response" if stage == Stage::End => {
                argument.parse().ok().map(Variable::ResponseHeader)
            }
            // Classes are known only where a rule is.
            "class" if stage < Stage::End => Some(Variable::Class(argument.to_owned())),
            "capture" => argument.parse().ok().filter(|n| *n > 0).map(Variable::Capture),
            _ => None,
        });
        argument.ok_or_else(|| {
            let known = Known(stage);
            format!("{{{name}}} is not a variable; {known}; {{{{ stands for a brace")
        })
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::Header(name) => write!(f, "{{header.{name}}}"),
            Variable::ResponseHeader(name) => write!(f, "{{response.{name}}}"),
            Variable::Cookie(name) => write!(f, "{{cookie.{name}}}"),
            Variable::Parameter(name) => write!(f, "{{query.{name}}}"),
            Variable::Class(name) => write!(f, "{{class.{name}}}"),
            Variable::Capture(number) => write!(f, "{{capture.{number}}}"),
            plain => {
                let named = PLAIN.iter().find(|(_, known, _)| known == plain);
                write!(f, "{{{}}}", named.map_or("", |(name, ..)| name))
            }
        }
    }
}

/// Returns whether a text can be the name of a cookie.
fn is_token(text: &str) -> bool {
    text.parse::<HeaderName>().is_ok()
}

/// Returns the decoded value of the first parameter of a query with this name; empty without one.
pub(crate) fn parameter<'q>(query: &'q str, name: &str) -> Cow<'q, str> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(known, _)| known == name).map_or(Cow::Borrowed(""), |(_, value)| value)
}

/// List of the variables that are known at a stage.
struct Known(Stage);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("known are ")?;
        for (name, ..) in PLAIN.iter().filter(|(_, _, known)| *known <= self.0) {
            write!(f, "{{{name}}}, ")?;
        }
        let own = if self.0 == Stage::End { "{response.NAME}" } else { "{class.NAME}" };
        write!(f, "{WITH_ARGUMENT}, {own}")
    }
}

/// Appends a value as it is displayed.
pub(crate) fn write_shown(value: impl fmt::Display, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Values that are their variables' names, except for that of one cookie.
    struct Named(Vec<u8>);

    impl Values for Named {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
            match variable {
                Variable::Cookie(_) => out.extend_from_slice(&self.0),
                Variable::Header(name) => out.extend_from_slice(name.as_str().as_bytes()),
                Variable::Query => {}
                other => write_shown(format_args!("{other:?}"), out),
            }
        }
    }

    fn value(text: &str, cookie: &[u8]) -> Option<HeaderValue> {
        let template = Template::parse(text, Stage::Response).unwrap();
        template.field_value(&Named(cookie.to_owned()))
    }

    #[test]
    fn variables_are_replaced() {
        let written = |text: &str| value(text, b"c").unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            written("a {client_ip}{{b}} {header.X-A}/{capture.2}"),
            "a ClientIp{b} x-a/Capture(2)"
        );
        assert_eq!(written("plain"), "plain");
        assert_eq!(written("{cookie.id}{query}"), "c");
        assert_eq!(value("{query} ", b""), None);
        let fixed = |text| Template::parse(text, Stage::Request).unwrap().fixed().is_some();
        assert_eq!([fixed(""), fixed("a{{"), fixed("{uri}")], [true, true, false]);
    }

    #[test]
    fn a_value_cannot_end_its_field_and_is_bounded() {
        let hostile = value("a: {cookie.id}", b"x\r\nSet-Cookie: y\0\x7f\xff").unwrap();
        assert_eq!(hostile.as_bytes(), b"a: x  Set-Cookie: y  \xff");
        assert_eq!(value("{cookie.id}", &[b'x'; 100_000]).unwrap().len(), FIELD_VALUE_MAX);
    }

    #[test]
    fn wrong_texts_are_refused_with_the_known_variables() {
        for (text, stage, words) in [
            ("{nope}", Stage::Request, "{nope} is not a variable; known are {client_ip}"),
            ("{status}", Stage::Request, "{status} is not known yet"),
            ("{bytes}", Stage::Response, "{bytes} is not known yet"),
            ("{", Stage::End, "expected {NAME}"),
            ("a}", Stage::End, "expected {NAME}"),
            ("{header.}", Stage::End, "not a variable"),
            ("{header.a b}", Stage::End, "not a variable"),
            ("{cookie.a=b}", Stage::End, "not a variable"),
            ("{capture.0}", Stage::End, "not a variable"),
            ("{\"a\": 1}", Stage::End, "{{ stands for a brace"),
        ] {
            let error = Template::parse(text, stage).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
