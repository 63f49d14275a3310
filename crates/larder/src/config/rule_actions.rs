//! The keys of a `[[rule]]` that act on the request itself: refusals, responses of our own, another
//! path or origin. Their translation for the proxy.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Method, StatusCode};
use proxy::message::template::{Stage, Template};
use proxy::rules::access::HostPattern;
use proxy::rules::request_rules::{Actions, Location, Reply, ReplyBody, Rewrite};
use semantics::Pattern;

use crate::config::origin_server::Server;
use crate::config::rule_condition::{Wrong, parse_all};
use crate::config::upstreams;

/// The value of `upstream` that stands for the server that the request's host names.
const HOST: &str = "{host}";

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
}

/// The origin that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleUpstream<'a> {
    /// The origin of a site.
    Site(&'a str),
    /// Servers of its own.
    Servers(&'a [String]),
    /// The server that the request's host names.
    Host,
}

impl RuleActions {
    /// Returns the actions as the proxy uses them; `None` if there are none. `rule` is the name of
    /// the rule. Reads the file of a response.
    pub fn to_proxy(&self, rule: &str) -> Result<Option<Arc<Actions>>, Wrong> {
        let method = |name: &String| Method::from_bytes(name.as_bytes());
        let methods = self.allow_methods.iter().map(method).collect::<Result<_, _>>();
        let actions = Actions {
            deny: self.deny,
            reply: self.reply()?,
            allow_methods: methods.map_err(|error| ("allow-methods", error.to_string()))?,
            max_body: self.max_body,
            rewrites: self.rewrites()?,
            host: self.set_host.as_deref().map(|text| template("set-host", text)).transpose()?,
            upstream: self.upstream_site(rule)?,
            allowed_hosts: parse_all::<HostPattern>("allowed-hosts", &self.allowed_hosts)?,
        };
        Ok(Some(Arc::new(actions)).filter(|actions| !actions.is_empty()))
    }

    /// Returns the texts that may have variables.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        let RuleActions { redirect, respond, .. } = self;
        [redirect, respond].into_iter().flatten().chain(self.made_texts().map(|(_, text)| text))
    }

    /// Returns the texts that may have variables and decide on what the origin is asked, with their
    /// keys.
    pub fn made_texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let keys = ["set-path", "set-query", "set-host"];
        let texts = [&self.set_path, &self.set_query, &self.set_host];
        keys.into_iter().zip(texts).filter_map(|(key, text)| Some((key, text.as_ref()?)))
    }

    /// Returns the origin that the rule names.
    pub fn upstream(&self) -> Option<RuleUpstream<'_>> {
        match self.upstream.as_slice() {
            [] => None,
            [one] if one == HOST => Some(RuleUpstream::Host),
            [one] if !one.contains(':') => Some(RuleUpstream::Site(one)),
            servers => Some(RuleUpstream::Servers(servers)),
        }
    }

    /// Returns the name of the site whose origin is asked.
    fn upstream_site(&self, rule: &str) -> Result<Option<String>, Wrong> {
        let has_hosts = !self.allowed_hosts.is_empty();
        match self.upstream() {
            Some(RuleUpstream::Host) if !has_hosts => {
                let text = format!("expected allowed-hosts beside \"{HOST}\"");
                return Err(("upstream", text));
            }
            None if has_hosts => {
                return Err(("allowed-hosts", "expected upstream beside it".to_owned()));
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
            RuleUpstream::Servers(_) | RuleUpstream::Host => hidden_site(rule),
        }))
    }

    /// Returns whether requests are refused that would be passed on otherwise.
    pub fn keeps_out(&self) -> bool {
        let code = self.respond.as_deref().and_then(status).map(|(status, _)| status.as_u16());
        self.deny || !self.allow_methods.is_empty() || code.is_some_and(|code| code >= 400)
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

fn template(key: &'static str, text: &str) -> Result<Template, Wrong> {
    Template::parse(text, Stage::Request).map_err(|why| (key, why))
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
    if !rest.is_empty() && [204, 205, 304].contains(&status.as_u16()) {
        return Err(format!("expected no text, which a {} does not have", status.as_u16()));
    }
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let Some(file) = rest.strip_prefix('@') else {
        let body = ReplyBody::Text(Template::parse(rest, Stage::Request)?);
        return Ok(Reply::Respond(status, plain, body));
    };
    let why = |error: &dyn std::fmt::Display| format!("{file}: {error}");
    let length = fs::metadata(file).map_err(|error| why(&error))?;
    if !length.is_file() || length.len() > FILE_MAX {
        return Err(why(&"expected a file of at most 1M"));
    }
    let bytes = fs::read(file).map_err(|error| why(&error))?;
    let kind = files::usual_type_of(Path::new(file)).parse().unwrap_or(plain);
    Ok(Reply::Respond(status, kind, ReplyBody::File(bytes.into())))
}
