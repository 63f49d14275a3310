//! The keys of a `[[rule]]` that act on the request itself: refusals, responses of our own, another
//! path or origin. Their translation for the proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Method, StatusCode};
use proxy::message::template::{Stage, Template};
use proxy::rules::access::HostPattern;
use proxy::rules::error_page::ErrorPage;
use proxy::rules::request_rules::{
    Actions, Follow, Location, Reply, ReplyBody, Rewrite, ServerTemplate, Timeouts, TriedName,
    TryRoot,
};
use semantics::{Pattern, StatusPattern, Url};

use crate::config::credentials::authorization;
use crate::config::origin_server::Server;
use crate::config::rule_condition::{Wrong, parse_all};
use crate::config::rule_guards::RuleGuards;
use crate::config::upstreams;

/// The status of a redirect that names none.
const FOUND: StatusCode = StatusCode::FOUND;

/// Largest file of a response.
const FILE_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct RuleActions {
    pub deny: bool,
    pub redirect: Option<String>,
    pub respond: Option<String>,
    pub allow_methods: Vec<String>,
    pub max_body: Option<u64>,
    pub remove_prefix: Option<String>,
    pub add_prefix: Option<String>,
    pub set_path: Option<String>,
    pub set_query: Option<String>,
    pub remove_query: Vec<String>,
    pub set_host: Option<String>,
    pub upstream: Vec<String>,
    pub allowed_hosts: Vec<String>,
    pub guards: RuleGuards,
    pub timeouts: Timeouts,
    pub next_upstream: Option<Vec<String>>,
    pub follow_redirects: u8,
    pub credentials: Option<String>,
    pub try_root: Option<PathBuf>,
    pub try_root_only: bool,
    pub try_files: Vec<String>,
    pub error_page: Vec<String>,
    pub error_page_for: ErrorPageFor,
}

/// The errors that pages replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorPageFor {
    /// Those of origin servers and of the proxy.
    #[default]
    All,
    /// Those of the proxy.
    Proxy,
}

/// The origin that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleUpstream<'a> {
    /// The origin of a site.
    Site(&'a str),
    /// Servers of its own.
    Servers(&'a [String]),
    /// The server that a text with variables names.
    Template(&'a str),
}

impl RuleActions {
    /// Returns the actions as the proxy uses them; `None` if there are none. `rule` is the name of
    /// the rule. Reads the file of a response.
    pub fn to_proxy(&self, rule: &str) -> Result<Option<Arc<Actions>>, Wrong> {
        let method = |name: &String| Method::from_bytes(name.as_bytes());
        let methods = self.allow_methods.iter().map(method).collect::<Result<_, _>>();
        let hosts = parse_all::<HostPattern>("allowed-hosts", &self.allowed_hosts)?;
        let actions = Actions {
            deny: self.deny,
            reply: self.reply()?,
            allow_methods: methods.map_err(|error| ("allow-methods", error.to_string()))?,
            max_body: self.max_body,
            rewrites: self.rewrites()?,
            host: self.set_host.as_deref().map(host).transpose()?,
            server: self.server()?,
            upstream: self.upstream_site(rule)?,
            allowed_hosts: if self.upstream.is_empty() { Vec::new() } else { hosts.clone() },
            timeouts: self.timeouts,
            next_server: self.next_upstream.as_deref().map(upstreams::next),
            follow: (self.follow_redirects > 0)
                .then_some(Follow { most: self.follow_redirects, hosts }),
            credentials: (self.credentials.as_deref().map(authorization).transpose())
                .map_err(|why| ("credentials", why))?,
            try_root: self.try_root(rule)?,
            limits: self.guards.limit(rule)?.into_iter().collect(),
            basic_auth: self.guards.users()?,
        };
        Ok(Some(Arc::new(actions)).filter(|actions| !actions.is_empty()))
    }

    /// Returns whether the rule itself responds.
    pub fn is_answered(&self) -> bool {
        self.deny || self.redirect.is_some() || self.respond.is_some()
    }

    /// Returns the first key that only concerns requests to servers.
    pub fn first_for_servers(&self) -> Option<&'static str> {
        let Timeouts { connect, head, body } = self.timeouts;
        let keys = [
            ("connect-timeout", connect.is_some()),
            ("head-timeout", head.is_some()),
            ("body-timeout", body.is_some()),
            ("next-upstream", self.next_upstream.is_some()),
            ("follow-redirects", self.follow_redirects > 0),
            ("credentials", self.credentials.is_some()),
            ("try-root", self.try_root.is_some()),
        ];
        keys.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Returns the texts that may have variables.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        let RuleActions { redirect, respond, .. } = self;
        let texts = [redirect, respond].into_iter().flatten().chain(&self.error_page);
        texts.chain(self.made_texts().map(|(_, text)| text))
    }

    /// Returns the texts that may have variables and decide on what the origin is asked, with their
    /// keys.
    pub fn made_texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let keys = ["set-path", "set-query", "set-host"];
        let texts = [&self.set_path, &self.set_query, &self.set_host];
        let made =
            keys.into_iter().zip(texts).filter_map(|(key, text)| Some((key, text.as_ref()?)));
        let made = made.chain(self.try_files.iter().map(|text| ("try-files", text)));
        made.chain(self.server_text().map(|text| ("upstream", text)))
    }

    /// Returns the text with variables that names the server.
    fn server_text(&self) -> Option<&String> {
        self.upstream.first().filter(|text| text.contains('{'))
    }

    /// Returns the origin that the rule names.
    pub fn upstream(&self) -> Option<RuleUpstream<'_>> {
        match self.upstream.as_slice() {
            [] => None,
            [one] if one.contains('{') => Some(RuleUpstream::Template(one)),
            [one] if !one.contains(':') => Some(RuleUpstream::Site(one)),
            servers => Some(RuleUpstream::Servers(servers)),
        }
    }

    fn try_root(&self, rule: &str) -> Result<Option<TryRoot>, Wrong> {
        let names = self.try_files.iter().map(|text| tried_name(text));
        let names = names.collect::<Result<Vec<_>, _>>().map_err(|why| ("try-files", why))?;
        if !names.is_empty() && self.try_root.is_none() {
            return Err(("try-files", "expected try-root beside it".to_owned()));
        }
        let (site, only) = (files_of(rule), self.try_root_only);
        let made = self.try_root.as_ref().map(|_| TryRoot { site, only, names });
        if self.try_root_only && (made.is_none() || !self.upstream.is_empty()) {
            return Err((
                "try-root-only",
                "expected try-root beside it, and no upstream".to_owned(),
            ));
        }
        Ok(made)
    }

    /// Returns the name of the site whose origin is asked.
    fn upstream_site(&self, rule: &str) -> Result<Option<String>, Wrong> {
        let has_hosts = !self.allowed_hosts.is_empty();
        match self.upstream() {
            Some(RuleUpstream::Template(text)) if !has_hosts => {
                let text = format!("expected allowed-hosts beside {text:?}");
                return Err(("upstream", text));
            }
            None if has_hosts && self.follow_redirects == 0 => {
                let text = "expected upstream or follow-redirects beside it";
                return Err(("allowed-hosts", text.to_owned()));
            }
            _ => {}
        }
        if let Some(RuleUpstream::Servers(servers)) = self.upstream() {
            let wrong = servers.iter().find_map(|text| Server::parse(text).err());
            let wrong = wrong.or_else(|| upstreams::wrong_servers(servers));
            wrong.map_or(Ok(()), |why| Err(("upstream", why)))?;
        }
        Ok(self.upstream().map(|upstream| match upstream {
            RuleUpstream::Site(name) => name.to_owned(),
            RuleUpstream::Servers(_) | RuleUpstream::Template(_) => hidden_site(rule),
        }))
    }

    /// Returns the server that requests name.
    fn server(&self) -> Result<Option<ServerTemplate>, Wrong> {
        if let [_, _, ..] = self.upstream.as_slice()
            && let Some(text) = self.upstream.iter().find(|text| text.contains('{'))
        {
            return Err(("upstream", format!("expected no other server beside {text:?}")));
        }
        match self.upstream() {
            Some(RuleUpstream::Template(text)) => {
                ServerTemplate::parse(text).map(Some).map_err(|why| ("upstream", why))
            }
            _ => Ok(None),
        }
    }

    /// Returns the pages in place of errors. Reads their files.
    pub fn pages(&self) -> Result<Vec<ErrorPage>, Wrong> {
        let own_only = self.error_page_for == ErrorPageFor::Proxy;
        let page = |text: &String| error_page(text, own_only).map_err(|why| ("error-page", why));
        self.error_page.iter().map(page).collect()
    }

    /// Returns whether requests are refused that would be passed on otherwise.
    pub fn keeps_out(&self) -> bool {
        let code = self.respond.as_deref().and_then(status).map(|(status, _)| status.as_u16());
        let is_refusal = code.is_some_and(|code| code >= 400);
        self.deny || is_refusal || !self.allow_methods.is_empty() || self.guards.is_any()
    }

    fn reply(&self) -> Result<Option<Reply>, Wrong> {
        match (&self.redirect, &self.respond) {
            (Some(_), Some(_)) => {
                Err(("redirect", "expected either redirect or respond".to_owned()))
            }
            (Some(text), None) => redirect(text).map(Some).map_err(|why| ("redirect", why)),
            (None, Some(text)) => respond(text).map(Some).map_err(|why| ("respond", why)),
            (None, None) => Ok(None),
        }
    }

    fn rewrites(&self) -> Result<Vec<Rewrite>, Wrong> {
        let mut all = Vec::new();
        if let Some(prefix) = &self.remove_prefix {
            all.push(Rewrite::RemovePrefix(path("remove-prefix", prefix)?));
        }
        if let Some(prefix) = &self.add_prefix {
            all.push(Rewrite::AddPrefix(path("add-prefix", prefix)?));
        }
        if let Some(text) = &self.set_path {
            if !text.starts_with('{') {
                path("set-path", text)?;
            }
            all.push(Rewrite::SetPath(template("set-path", text)?));
        }
        if let Some(text) = &self.set_query {
            let text = text.strip_prefix('?').unwrap_or(text);
            all.push(Rewrite::SetQuery(template("set-query", text)?));
        }
        if !self.remove_query.is_empty() {
            let names = self.remove_query.iter().map(|text| Pattern::new(text)).collect();
            all.push(Rewrite::RemoveQuery(names));
        }
        Ok(all)
    }
}

/// Returns the name of the site that has the servers of a rule.
pub fn hidden_site(rule: &str) -> String {
    format!("rule {rule}")
}

/// Returns the name of the site that has the files of a rule.
pub fn files_of(rule: &str) -> String {
    format!("files of rule {rule}")
}

fn template(key: &'static str, text: &str) -> Result<Template, Wrong> {
    Template::parse(text, Stage::Request).map_err(|why| (key, why))
}

/// Reads the value of `set-host`.
fn host(text: &str) -> Result<Template, Wrong> {
    let is_host = text.contains('{') || Url::new("http", text, "/").is_ok();
    match is_host {
        true => template("set-host", text),
        false => Err(("set-host", format!("expected host or host:port, got {text:?}"))),
    }
}

fn path(key: &'static str, text: &str) -> Result<String, Wrong> {
    let is_path = text.starts_with('/') && !text.contains(['?', '#', ' ']);
    match is_path && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => {
            let text = format!(
                "expected a path that begins with / and has other characters percent-encoded, got \
                 {text:?}"
            );
            Err((key, text))
        }
    }
}

/// Parses a name that is tried in the directory of `try-root`.
fn tried_name(text: &str) -> Result<TriedName, String> {
    if text.starts_with('=') {
        return Err(
            "a status has no effect here: expected try-root-only in place of =404".to_owned()
        );
    }
    let is_path = text.starts_with('/') || text.starts_with("{path}");
    if !is_path || text.contains(['?', '#', ' ', '$']) || text.split('/').any(|part| part == "..") {
        return Err(format!("expected a path that begins with / or {{path}}, got {text:?}"));
    }
    TriedName::parse(text)
}

/// Splits a text at its status, if it begins with one.
fn status(text: &str) -> Option<(StatusCode, &str)> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_number = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    Some((is_number.then(|| word.parse().ok()).flatten()?, rest.trim_start()))
}

fn redirect(text: &str) -> Result<Reply, String> {
    let (status, location) = status(text).unwrap_or((FOUND, text));
    if ![301, 302, 303, 307, 308].contains(&status.as_u16()) {
        return Err(format!(
            "expected a status 301, 302, 303, 307 or 308, got {}",
            status.as_u16()
        ));
    }
    Ok(Reply::Redirect(status, Location::parse(location)?))
}

fn respond(text: &str) -> Result<Reply, String> {
    let Some((status, rest)) = status(text).filter(|(status, _)| status.as_u16() >= 200) else {
        return Err(format!("expected a status and a text or @FILE (\"200 ok\"), got {text:?}"));
    };
    if !rest.is_empty() && has_no_body(status) {
        return Err(format!("expected no text, which a {} does not have", status.as_u16()));
    }
    let (kind, body) = text_or_file(rest, Stage::Request)?;
    Ok(Reply::Respond(status, kind, body))
}

/// Parses `404 @404.html` or `5xx 503 sorry`: the errors, the status of the page, the page.
fn error_page(text: &str, own_only: bool) -> Result<ErrorPage, String> {
    let (of, rest) = text.split_once(' ').unwrap_or((text, ""));
    let of = of.parse::<StatusPattern>().ok().filter(|of| match of {
        StatusPattern::Status(status) => status.as_u16() >= 400,
        StatusPattern::Class(digit) => *digit >= 4,
    });
    let Some(of) = of else {
        return Err(format!(
            "expected the status or class of an error and a text or @FILE (\"404 @lost.html\"), \
             got {text:?}"
        ));
    };
    let (status, rest) = match status(rest.trim_start()) {
        Some((status, rest)) => (Some(status), rest),
        None => (None, rest.trim_start()),
    };
    if status.is_some_and(|status| status.as_u16() < 200 || has_no_body(status)) {
        return Err(format!("expected a status of a response with a body, got {text:?}"));
    }
    let (kind, body) = text_or_file(rest, Stage::Response)?;
    Ok(ErrorPage { of, own_only, status, kind, body })
}

fn has_no_body(status: StatusCode) -> bool {
    [204, 205, 304].contains(&status.as_u16())
}

/// Returns whether a text is an HTML page. One with variables is not, as clients decide on those.
pub fn is_html(text: &str) -> bool {
    let begin: String = text.trim_start().chars().take(9).collect();
    let begin = begin.to_ascii_lowercase();
    let has_variables = text.replace("{{", "").contains('{');
    !has_variables && (begin.starts_with("<html") || begin == "<!doctype")
}

/// Returns a text with variables, or the contents of the file that it names, with its media type.
fn text_or_file(text: &str, stage: Stage) -> Result<(HeaderValue, ReplyBody), String> {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let Some(file) = text.strip_prefix('@') else {
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        let kind = if is_html(text) { html } else { plain };
        return Ok((kind, ReplyBody::Text(Template::parse(text, stage)?)));
    };
    let why = |error: &dyn std::fmt::Display| format!("{file}: {error}");
    let length = fs::metadata(file).map_err(|error| why(&error))?;
    if !length.is_file() || length.len() > FILE_MAX {
        return Err(why(&"expected a file of at most 1M"));
    }
    let bytes = fs::read(file).map_err(|error| why(&error))?;
    let kind = files::usual_type_of(Path::new(file)).parse().unwrap_or(plain);
    Ok((kind, ReplyBody::File(bytes.into())))
}

#[cfg(test)]
mod tests {
    use super::is_html;

    #[test]
    fn pages_without_variables_are_html() {
        assert!(is_html("<!DOCTYPE html><p>") && is_html("\n<html><style>a {{ b }}</style>"));
        assert!(!is_html("<p>") && !is_html("<html>{uri}") && !is_html("sorry"));
    }
}
