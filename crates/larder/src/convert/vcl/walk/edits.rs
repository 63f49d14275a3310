//! Edits of fields, cookies and URLs, and what is put into the key.

use crate::convert::cases::{Cases, both_also, merge};
use crate::convert::nginx::values::braced;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::{RuleDraft, Tests};
use crate::convert::vcl::edited_url::Left;
use crate::convert::vcl::idioms::{self, Edit};
use crate::convert::vcl::syntax::{Kind, Statement, Token};
use crate::convert::vcl::walk::Walk;

impl Walk<'_> {
    /// `if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; }`, where a text tells hits apart.
    pub(super) fn hits(&self, all: &[&Statement], live: &Cases, out: &mut Output) {
        let mut known = Vec::new();
        for one in all.iter().flat_map(|one| one.inner()) {
            let is_text = |token: &Token| token.kind == Kind::Text;
            let is_text = one.tokens.len() == 4 && one.tokens.get(3).is_some_and(is_text);
            match (one.word(0), one.word(1).strip_prefix("resp.http.")) {
                ("set", Some(field)) if is_text && known.contains(&field) => {}
                ("set", Some(field)) if is_text => {
                    known.push(field);
                    let reason = "the words of {outcome} are those of Cache-Status, such as hit";
                    out.note(&one.at(), one.word(1), reason);
                    for case in live {
                        let entry = format!("{field}: {{outcome}}");
                        self.rule("deliver", case, |rule| rule.add("client-set", entry), out);
                    }
                }
                // No stored response has a cookie.
                ("unset", Some(field)) if field.eq_ignore_ascii_case("set-cookie") => {}
                _ => out.lose(&one.at(), &one.text(), "hits are not counted"),
            }
        }
    }

    pub(super) fn unset(
        &mut self,
        name: &str,
        live: &Cases,
        out: &mut Output,
    ) -> Result<(), String> {
        let (key, field) = match name.split_once(".http.") {
            Some(("req" | "bereq", field)) => ("request-remove", field),
            Some(("beresp", field)) => ("answer-remove", field),
            Some(("resp", field)) => ("client-remove", field),
            _ => return Err("no equivalent of this variable".to_owned()),
        };
        if key == "request-remove" && field.eq_ignore_ascii_case("cookie") {
            self.edited.uncookied.extend(self.within.clone());
            merge(&mut self.edited.uncookied);
        } else if key == "request-remove" {
            self.own_field(field, None);
        }
        let lower = field.to_ascii_lowercase();
        if matches!(key, "answer-remove" | "client-remove") {
            self.edited.response_fields.insert(lower.clone());
        }
        match lower.as_str() {
            "set-cookie" if self.is_for_stored => {
                let add = |rule: &mut RuleDraft| rule.add("answer-ignore", "Set-Cookie");
                self.each("unset", live, false, add, out);
                return Ok(());
            }
            "via" | "age" if key == "client-remove" => {
                if live.iter().any(Tests::is_of_response) {
                    return Err("hidden for all responses, or none".to_owned());
                }
                self.each("unset", live, false, |rule| rule.add("hide", &*lower), out);
                return Ok(());
            }
            // Larder sends none of these.
            "x-varnish" => return Ok(()),
            _ if CONNECTION.contains(&lower.as_str()) => return Ok(()),
            _ => {}
        }
        self.is_repeated = self.is_behind_entry(key, &lower, live);
        self.each("unset", live, key == "answer-remove", |rule| rule.add(key, field), out);
        self.is_repeated = false;
        Ok(())
    }

    /// Returns whether an entry of `responses` edits the field before this edit, which has to be an
    /// entry then: those apply behind other edits.
    fn is_behind_entry(&mut self, key: &str, field: &str, live: &Cases) -> bool {
        if !key.starts_with("client-") {
            return false;
        }
        let is_behind = self.entry_fields.iter().any(|one| one == field);
        if live.iter().any(Tests::is_of_response) {
            self.entry_fields.push(field.to_owned());
        }
        is_behind
    }

    /// Notes that a request field is set or removed, so that tests behind it are not of the
    /// client's.
    fn own_field(&mut self, field: &str, cases: Option<&Cases>) {
        let field = field.to_ascii_lowercase();
        let old = self.edited.fields.get(&field).cloned().unwrap_or_else(|| Some(Vec::new()));
        let all = old.zip(cases).map(|(old, cases)| [old, cases.clone()].concat());
        self.edited.fields.insert(field, all);
    }

    pub(super) fn set(
        &mut self,
        name: &str,
        value: &[Token],
        live: &Cases,
        out: &mut Output,
    ) -> Result<(), String> {
        let first = value.first().map_or("", |token| token.text.as_str());
        match name {
            "req.backend_hint" => {
                let servers = self.backends.get(first).ok_or("there is no such backend")?;
                if *servers != self.backends.main {
                    let servers = list(servers);
                    self.each("backend", live, false, |rule| rule.set("upstream", &*servers), out);
                }
                Ok(())
            }
            "req.url" => self.url(value, live, out),
            "req.http.Cookie" | "req.http.cookie" => self.cookie(value, live, out),
            "beresp.do_gzip" => {
                out.set("compression.codings", list(&["gzip"]));
                Ok(())
            }
            // Bodies pass as they come, in all cases.
            "beresp.do_stream" => Ok(()),
            "beresp.do_esi" => {
                lose_esi(value, out);
                Ok(())
            }
            _ if name.starts_with("beresp.") && !name.contains(".http.") => {
                self.response(name, first, value.len(), live, out)
            }
            _ => self.field(name, value, live, out),
        }
    }

    /// An edit of the URL.
    fn url(&mut self, value: &[Token], live: &Cases, out: &mut Output) -> Result<(), String> {
        match idioms::of_url(value) {
            Some(Edit::QueryDrop(names)) => {
                let with = |rule: &mut RuleDraft| {
                    names.iter().for_each(|name| rule.add("query-drop", name.as_str()));
                };
                self.each("url", live, false, with, out);
                let named = names.iter().map(|name| format!("*{name}")).collect();
                let named = vec![Tests(vec![("query".to_owned(), named)])];
                let within = &self.within;
                let changed = both_also(within, &named).unwrap_or_else(|_| within.clone());
                self.edited.url.edit(&changed, Left::Less);
            }
            Some(Edit::QueryNone) => {
                self.each("url", live, false, |rule| rule.set("query-keep", "[]"), out);
                self.edited.url.edit(&self.within, Left::Path);
            }
            Some(Edit::QuerySort) => {
                self.each("url", live, false, |rule| rule.set("query-sort", "true"), out);
                self.edited.url.edit(&self.within, Left::Sorted);
            }
            Some(_) => {}
            None => {
                self.edited.url.edit(&self.within, Left::Unknown);
                return Err("no equivalent of this change".to_owned());
            }
        }
        Ok(())
    }

    fn cookie(&mut self, value: &[Token], live: &Cases, out: &mut Output) -> Result<(), String> {
        match idioms::of_cookie(value).ok_or("no equivalent of this change")? {
            Edit::CookieRemove(names) => {
                let with = |rule: &mut RuleDraft| {
                    names.iter().for_each(|name| rule.add("cookie-remove", name.as_str()));
                };
                self.each("cookies", live, false, with, out);
                self.removes_some = true;
            }
            Edit::CookieKeep(names) => {
                let with = |rule: &mut RuleDraft| {
                    names.iter().for_each(|name| rule.add("cookie-keep", name.as_str()));
                };
                self.each("cookies", live, false, with, out);
                self.kept.extend(names);
            }
            _ => {}
        }
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        value: &[Token],
        live: &Cases,
        out: &mut Output,
    ) -> Result<(), String> {
        let Some((message, field)) = name.split_once(".http.") else {
            return Err("no equivalent of this variable".to_owned());
        };
        let key = match message {
            "req" | "bereq" => "request-set",
            "beresp" => "answer-set",
            "resp" => "client-set",
            _ => return Err("no equivalent of this variable".to_owned()),
        };
        if matches!(key, "answer-set" | "client-set") {
            self.edited.response_fields.insert(field.to_ascii_lowercase());
        }
        if field.eq_ignore_ascii_case("x-forwarded-for") && key == "request-set" {
            return Ok(());
        }
        let is_esi = |token: &Token| token.text.contains("ESI");
        if field.eq_ignore_ascii_case("surrogate-capability") && value.iter().any(is_esi) {
            lose_esi(value, out);
            return Ok(());
        }
        // Rules and keys have the host without a port anyway.
        if field.eq_ignore_ascii_case("host") && idioms::removes_port(value) {
            return Ok(());
        }
        let Some(value) = template(value) else {
            if key == "request-set" {
                self.own_field(field, None);
            }
            return Err("no equivalent of this value".to_owned());
        };
        match (key, field.to_ascii_lowercase().as_str()) {
            ("request-set", "host") => {
                self.each("host", live, false, |rule| rule.set("set-host", text(&value)), out);
            }
            _ => {
                if key == "request-set" {
                    self.own_field(field, Some(live));
                }
                let lower = field.to_ascii_lowercase();
                self.is_repeated = self.is_behind_entry(key, &lower, live);
                let entry = format!("{field}: {value}");
                self.each("set", live, key == "answer-set", |rule| rule.add(key, &*entry), out);
                self.is_repeated = false;
            }
        }
        Ok(())
    }

    pub(super) fn hashed(&self, one: &Statement, live: &Cases, out: &mut Output) {
        let value = one.word(2);
        let is_single = one.tokens.len() == 4;
        let inner = one.tokens.get(2..one.tokens.len().saturating_sub(1)).unwrap_or_default();
        if let Some(cookie) = idioms::value_of_cookie(inner) {
            return self.each("hash", live, false, |rule| rule.add("key-cookies", &*cookie), out);
        }
        match value.strip_prefix("req.http.") {
            // Host and URL are in every key.
            _ if is_single && matches!(value, "req.url" | "server.ip" | "client.ip") => {
                if value == "client.ip" {
                    out.lose(&one.at(), &one.text(), "not part of the key: the cache is not used");
                    self.each("hash", live, false, |rule| rule.set("bypass", "true"), out);
                }
            }
            Some(field) if is_single && field.eq_ignore_ascii_case("host") => {}
            Some(field) if is_single && is_claimed(field) => {
                let why = "counts from proxies in forwarded.trust only: the cache is not used";
                out.lose(&one.at(), &one.text(), why);
                self.each("hash", live, false, |rule| rule.set("bypass", "true"), out);
            }
            Some(field) if is_single => {
                self.each("hash", live, false, |rule| rule.add("key-headers", field), out);
            }
            _ => {
                out.lose(&one.at(), &one.text(), "not part of the key: the cache is not used");
                self.each("hash", live, false, |rule| rule.set("bypass", "true"), out);
            }
        }
    }
}

/// Reports that pages are not put together.
fn lose_esi(value: &[Token], out: &mut Output) {
    let at = value.first().map(|token| token.at.clone()).unwrap_or_default();
    let reason = "pages are not put together from parts: the capability is not announced";
    out.lose_once(&at, "ESI", reason);
}

/// Returns whether Larder removes a field from requests of clients, other than that of the scheme.
fn is_claimed(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    semantics::claims::is_claim(&field) && field != "x-forwarded-proto"
}

/// Fields of connections, which rules do not edit.
const CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Returns a value of texts and variables.
pub(super) fn template(value: &[Token]) -> Option<String> {
    if idioms::removes_query(value) {
        return Some("{path}".to_owned());
    }
    let mut all = String::new();
    for token in value {
        match (&token.kind, token.text.as_str()) {
            (Kind::Text, text) => all.push_str(&braced(text)),
            (Kind::Sign, "+") => {}
            (Kind::Word, "client.ip") => all.push_str("{client_ip}"),
            (Kind::Word, "req.url" | "bereq.url") => all.push_str("{uri}"),
            (Kind::Word, "req.method" | "bereq.method") => all.push_str("{method}"),
            (Kind::Word, "req.xid" | "bereq.xid") => all.push_str("{request_id}"),
            (Kind::Word, word) => {
                match word.strip_prefix("be").unwrap_or(word).strip_prefix("req.http.")? {
                    "host" | "Host" => all.push_str("{host}"),
                    field => all.push_str(&format!("{{header.{}}}", field.to_ascii_lowercase())),
                }
            }
            _ => return None,
        }
    }
    (!all.is_empty()).then_some(all)
}
