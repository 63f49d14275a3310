//! Actions of a rule on a request itself: it refuses it, answers it, or changes what the origin is
//! asked.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use net::address;
use semantics::Pattern;
use upstream::servers::group::Next;

use crate::message::template::{Piece, Stage, Template, Values, Variable};
use crate::rules::access::HostPattern;
use crate::rules::basic_auth::BasicAuth;
use crate::rules::limits::Limit;
use crate::rules::request_rules::server_template::ServerTemplate;
use crate::rules::request_rules::timeouts::Timeouts;

/// Actions of a rule on a request.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// True if the request is refused with 403.
    pub deny: bool,
    /// Response in place of the origin's.
    pub reply: Option<Reply>,
    /// Methods that are not refused with 405; empty for all.
    pub allow_methods: Vec<Method>,
    /// Maximum size in bytes of the request's body; a larger one is refused with 413.
    pub max_body: Option<u64>,
    /// Changes of the path and query that the origin is asked for, in order. The key has those that
    /// the client names.
    pub rewrites: Vec<Rewrite>,
    /// `Host` for the origin.
    pub host: Option<Template>,
    /// Site, perhaps a hidden one, whose origin is asked.
    pub upstream: Option<String>,
    /// The server of that site that a request names. It is one of `allowed_hosts`.
    pub server: Option<ServerTemplate>,
    /// Hosts of the URL, or of the server that the request names, for which it may be asked; empty
    /// for all. Others are refused with 403.
    pub allowed_hosts: Vec<HostPattern>,
    /// Limits, each of which must permit a request.
    pub limits: Vec<Arc<Limit>>,
    /// Users who may send requests; others get 401.
    pub basic_auth: Option<Arc<BasicAuth>>,
    /// Timeouts of origin servers.
    pub timeouts: Timeouts,
    /// When the request is sent to another server of the origin.
    pub next_server: Option<Next>,
    /// Redirects of the origin that the proxy follows.
    pub follow: Option<Follow>,
    /// `Authorization` for the origin in place of the client's, which the rule must remove.
    pub credentials: Option<HeaderValue>,
    /// Directory whose files are served in place of the origin's responses.
    pub try_root: Option<TryRoot>,
}

/// A directory whose files are served in place of the origin's responses.
#[derive(Clone, Debug)]
pub struct TryRoot {
    /// Hidden site of the directory.
    pub site: String,
    /// True if the origin is not asked for what the directory lacks.
    pub only: bool,
    /// Names tried in order; empty: the path that the origin is asked for, as a file.
    pub names: Vec<TriedName>,
}

/// A name that is tried in a directory.
#[derive(Clone, Debug)]
pub struct TriedName {
    path: Template,
    is_directory: bool,
}

impl TriedName {
    /// Parses a path with variables. One that ends with `/` names a directory, which has an index
    /// file, any other a file.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn parse(text: &str) -> Result<TriedName, String> {
        let path = Template::parse(text, Stage::Request)?;
        Ok(TriedName { path, is_directory: text.ends_with('/') })
    }

    /// Returns whether the name is that of a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Returns the path to ask the directory for when the client asks for `named`; `None` if it
    /// cannot be that of a file.
    pub(crate) fn of(&self, named: &str, values: &impl Values) -> Option<String> {
        let mut path = in_url(&self.path, values, b"?#");
        if !self.is_directory && path.ends_with('/') {
            return None;
        }
        if self.is_directory && !named.ends_with('/') {
            // The response is a redirect to the path with a slash.
            path.pop();
        }
        Some(path).filter(|path| path.starts_with('/'))
    }
}

/// Redirects that the proxy follows.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Maximum number of redirects for a request.
    pub most: u8,
    /// Hosts, other than the origin's own, to which redirects may lead.
    pub hosts: Vec<HostPattern>,
}

/// Response that a rule gives.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A redirect.
    Redirect(StatusCode, Location),
    /// A response with a body of a media type.
    Respond(StatusCode, HeaderValue, ReplyBody),
}

/// Body of a response that a rule gives.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyBody {
    /// A text with variables.
    Text(Template),
    /// The contents of a file.
    File(Bytes),
}

/// The target of a redirect. Only its configured text decides on the host, or the request's own.
#[derive(Clone, Debug)]
pub struct Location(Template);

/// Change of a path and query.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// Removes a prefix of the path, if it has it.
    RemovePrefix(String),
    /// Puts a prefix before the path.
    AddPrefix(String),
    /// Replaces the path; the query stays.
    SetPath(Template),
    /// Replaces the query.
    SetQuery(Template),
    /// Removes parameters whose names match.
    RemoveQuery(Vec<Pattern>),
}

impl Actions {
    /// Returns whether nothing is done.
    pub fn is_empty(&self) -> bool {
        !self.keeps_out()
            && self.max_body.is_none()
            && self.reply.is_none()
            && self.rewrites.is_empty()
            && self.host.is_none()
            && self.upstream.is_none()
            && self.timeouts == Timeouts::default()
            && self.next_server.is_none()
            && self.follow.is_none()
            && self.credentials.is_none()
            && self.try_root.is_none()
    }

    /// Returns whether paths are made of the one that the client names.
    pub(crate) fn makes_paths(&self) -> bool {
        let tries = self.try_root.as_ref().is_some_and(|root| !root.names.is_empty());
        tries || !self.rewrites.is_empty()
    }

    /// Returns whether no origin is asked, so that nothing is stored.
    pub(super) fn is_answered(&self) -> bool {
        self.deny || self.reply.is_some()
    }

    /// Returns whether requests are refused that would be passed on otherwise.
    pub(super) fn keeps_out(&self) -> bool {
        let is_refusal = matches!(&self.reply, Some(Reply::Respond(status, ..))
            if status.is_client_error() || status.is_server_error());
        self.deny || is_refusal || !self.allow_methods.is_empty() || self.guards()
    }

    /// Returns whether requests must be admitted: by limits, or by a name and password.
    pub(crate) fn guards(&self) -> bool {
        !self.deny && (!self.limits.is_empty() || self.basic_auth.is_some())
    }

    /// Returns these actions and those of a later rule taken together.
    pub(super) fn then(&self, later: &Actions) -> Actions {
        let methods =
            if later.allow_methods.is_empty() { &self.allow_methods } else { &later.allow_methods };
        let of_origin = if later.upstream.is_some() { later } else { self };
        Actions {
            deny: self.deny || later.deny,
            reply: later.reply.as_ref().or(self.reply.as_ref()).cloned(),
            allow_methods: methods.clone(),
            max_body: later.max_body.or(self.max_body),
            rewrites: [&self.rewrites[..], &later.rewrites].concat(),
            host: later.host.as_ref().or(self.host.as_ref()).cloned(),
            upstream: of_origin.upstream.clone(),
            server: of_origin.server.clone(),
            allowed_hosts: of_origin.allowed_hosts.clone(),
            timeouts: self.timeouts.then(later.timeouts),
            next_server: later.next_server.as_ref().or(self.next_server.as_ref()).cloned(),
            follow: later.follow.as_ref().or(self.follow.as_ref()).cloned(),
            credentials: later.credentials.as_ref().or(self.credentials.as_ref()).cloned(),
            try_root: later.try_root.as_ref().or(self.try_root.as_ref()).cloned(),
            limits: [&self.limits[..], &later.limits].concat(),
            basic_auth: later.basic_auth.as_ref().or(self.basic_auth.as_ref()).cloned(),
        }
    }

    /// Returns whether a method is allowed; GET includes HEAD.
    pub(crate) fn allows(&self, method: &Method) -> bool {
        let methods = &self.allow_methods;
        let is_head = *method == Method::HEAD && methods.contains(&Method::GET);
        methods.is_empty() || is_head || methods.contains(method)
    }

    /// Returns whether the origin is asked for a host, with or without brackets.
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        let mut hosts = self.allowed_hosts.iter();
        self.allowed_hosts.is_empty() || hosts.any(|pattern| pattern.matches(address::bare(host)))
    }

    /// Returns whether a host is listed itself, rather than as one below another.
    pub(crate) fn lists_host(&self, host: &str) -> bool {
        let mut exact = self.allowed_hosts.iter().filter(|pattern| !pattern.is_for_all_below());
        exact.any(|pattern| pattern.matches(host))
    }

    /// Returns the allowed methods as the value of `Allow`.
    pub(crate) fn allow(&self) -> HeaderValue {
        let names: Vec<&str> = self.allow_methods.iter().map(Method::as_str).collect();
        HeaderValue::try_from(names.join(", ")).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns path and query for the origin, from those that the client names. Bytes that no URL
    /// has are percent-encoded.
    pub(crate) fn rewritten(&self, target: &str, values: &impl Values) -> String {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let (mut path, mut query) = (path.to_owned(), query.map(str::to_owned));
        for rewrite in &self.rewrites {
            match rewrite {
                Rewrite::RemovePrefix(prefix) => path = without_prefix(&path, prefix),
                Rewrite::AddPrefix(prefix) => {
                    path = format!("{}{path}", prefix.strip_suffix('/').unwrap_or(prefix));
                }
                Rewrite::SetPath(template) => path = in_url(template, values, b"?#"),
                Rewrite::SetQuery(template) => query = Some(in_url(template, values, b"#&+;")),
                Rewrite::RemoveQuery(names) => query = query.map(|query| without(&query, names)),
            }
        }
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        match query.filter(|query| !query.is_empty()) {
            Some(query) => format!("{path}?{query}"),
            None => path,
        }
    }
}

/// Removes a prefix from a path: whole segments, unless the prefix ends within one.
fn without_prefix(path: &str, prefix: &str) -> String {
    let bare = prefix.strip_suffix('/').unwrap_or(prefix);
    match path.strip_prefix(bare) {
        Some("") => "/".to_owned(),
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        _ => path.to_owned(),
    }
}

/// Returns a query without the parameters whose names match.
fn without(query: &str, names: &[Pattern]) -> String {
    let name = |part: &str| part.split('=').next().unwrap_or(part).to_owned();
    let is_kept = |part: &&str| {
        let name = name(part);
        !names.iter().any(|pattern| pattern.matches(name.as_bytes()))
    };
    query.split('&').filter(is_kept).collect::<Vec<_>>().join("&")
}

/// Returns a text with variables as a part of a URL. Of the values, bytes that a URL cannot have
/// and those of `also` are percent-encoded.
fn in_url(template: &Template, values: &impl Values, also: &[u8]) -> String {
    let mut out = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Variable(variable) => {
                let mut value = Vec::new();
                values.write(variable, &mut value);
                let also = match variable {
                    Variable::Uri | Variable::Query => b"",
                    _ => also,
                };
                let is_plain = |byte: u8| byte.is_ascii_graphic() && !also.contains(&byte);
                out.push_str(&http1::percent_encoded(&value, is_plain));
            }
        }
    }
    out
}

impl Location {
    /// Parses a URL or a path with variables.
    ///
    /// # Errors
    ///
    /// A sentence: it is neither, or a variable other than `{host}` could decide on the host.
    pub fn parse(text: &str) -> Result<Location, String> {
        let template = Template::parse(text, Stage::Request)?;
        let lower = text.to_ascii_lowercase();
        let after_scheme = ["http://", "https://", "{scheme}://"].iter().find_map(|scheme| {
            lower.strip_prefix(scheme).map(|rest| &text[text.len() - rest.len()..])
        });
        let is_safe = match after_scheme {
            // What follows the host's last character must end it.
            Some(rest) => {
                let rest = rest.replacen("{host}", "", 1);
                let end = rest.find(['/', '?', '{']).unwrap_or(rest.len());
                let tail = &rest[end..];
                !tail.starts_with('{') || tail.starts_with("{path}") || tail.starts_with("{uri}")
            }
            None => {
                text.starts_with("{path}")
                    || text.starts_with("{uri}")
                    || (text.starts_with('/') && !text.starts_with("//"))
            }
        };
        match is_safe {
            true => Ok(Location(template)),
            false => Err(format!(
                "expected a URL or a path in which no variable but {{host}} decides on the host \
                 (\"https://www.example.com{{uri}}\"), got {text:?}"
            )),
        }
    }

    /// Returns the text with variables.
    pub(super) fn template(&self) -> &Template {
        &self.0
    }

    /// Returns the location for a request.
    pub(crate) fn value(&self, values: &impl Values) -> Option<HeaderValue> {
        let text = in_url(&self.0, values, b"");
        // A browser reads two slashes at the beginning as the beginning of a host.
        let is_separator = |character| matches!(character, '/' | '\\');
        let text = match text.starts_with(is_separator) {
            true => format!("/{}", text.trim_start_matches(is_separator)),
            false => text,
        };
        HeaderValue::try_from(text).ok()
    }
}

impl ReplyBody {
    /// Returns the bytes for a request.
    pub(crate) fn bytes(&self, values: &impl Values) -> Bytes {
        match self {
            ReplyBody::File(bytes) => bytes.clone(),
            ReplyBody::Text(template) => {
                let mut out = Vec::new();
                for piece in template.pieces() {
                    match piece {
                        Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                        Piece::Variable(variable) => values.write(variable, &mut out),
                    }
                }
                out.into()
            }
        }
    }
}

/// Fields of a response that a rule gives, beside those of every such response.
pub(crate) fn reply_fields(reply: &Reply, values: &impl Values) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if let Reply::Redirect(_, location) = reply
        && let Some(location) = location.value(values)
    {
        fields.insert(http::header::LOCATION, location);
    }
    fields
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Fixed(&'static [(Variable, &'static str)]);

    impl Values for Fixed {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) {
            let found = self.0.iter().find(|(known, _)| known == variable);
            out.extend_from_slice(found.map_or("", |(_, value)| value).as_bytes());
        }
    }

    #[test]
    fn paths_are_rewritten_in_order() {
        let template = |text| Template::parse(text, Stage::Request).unwrap();
        let values = Fixed(&[
            (Variable::Capture(1), "a b?c"),
            (Variable::Uri, "/x?y"),
            (Variable::Path, "/x"),
        ]);
        let prefix = |prefix: &str| Rewrite::RemovePrefix(prefix.to_owned());
        for (rewrites, target, expected) in [
            (vec![prefix("/api")], "/api/x?q", "/x?q"),
            (vec![prefix("/api/")], "/api", "/"),
            (vec![prefix("/api")], "/apis/x", "/apis/x"),
            (vec![Rewrite::AddPrefix("/v2/".into())], "/x", "/v2/x"),
            (vec![prefix("/a"), Rewrite::AddPrefix("/b".into())], "/a/x?1", "/b/x?1"),
            (vec![Rewrite::SetPath(template("/n/{capture.1}"))], "/x?q", "/n/a%20b%3Fc?q"),
            (vec![Rewrite::SetPath(template("x"))], "/", "/x"),
            (vec![Rewrite::SetQuery(template("u={path}&v=1"))], "/x?q", "/x?u=/x&v=1"),
            (vec![Rewrite::SetQuery(template(""))], "/x?q", "/x"),
            (vec![Rewrite::RemoveQuery(vec![Pattern::new("utm_*")])], "/?utm_a=1&b&c=", "/?b&c="),
            (vec![Rewrite::RemoveQuery(vec![Pattern::new("*")])], "/?a=1", "/"),
        ] {
            let actions = Actions { rewrites, ..Actions::default() };
            assert_eq!(actions.rewritten(target, &values), expected, "{target}");
        }
    }

    #[test]
    fn no_client_decides_on_the_host_of_a_redirect() {
        for text in [
            "https://www.example.com{uri}",
            "https://{host}{path}",
            "{scheme}://{host}/{capture.1}",
            "https://{host}:8443{uri}",
            "/new/{capture.1}",
            "{path}/",
            "http://x.example/?from={header.x}",
        ] {
            assert!(Location::parse(text).is_ok(), "{text}");
        }
        for text in [
            "{header.x}",
            "https://{header.x}/",
            "https://{capture.1}.example.com/",
            "https://www.example.com{capture.1}",
            "https://www.example.com{query}",
            "//{host}/",
            "javascript:x",
            "{unknown}",
            "",
        ] {
            assert!(Location::parse(text).is_err(), "{text}");
        }
        let value = |text: &str, values| {
            let value = Location::parse(text).unwrap().value(&values).unwrap();
            value.to_str().unwrap().to_owned()
        };
        assert_eq!(
            value("{path}/", Fixed(&[(Variable::Path, "//evil.example")])),
            "/evil.example/"
        );
        let capture = Fixed(&[(Variable::Capture(1), "/\\evil.example\r\nX: y")]);
        assert_eq!(value("/{capture.1}", capture), "/evil.example%0D%0AX:%20y");
    }
}
