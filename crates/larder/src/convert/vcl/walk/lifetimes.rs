//! Lifetimes of responses.

use crate::convert::cases::{CLASSES, Cases, STATUS};
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::{NOT_STATUSES, RuleDraft, Tests};
use crate::convert::units_of_others::{shorter, time};
use crate::convert::vcl::syntax::{Statement, Token};
use crate::convert::vcl::walk::Walk;

impl Walk<'_> {
    /// Reads `if (beresp.ttl < 5m) { set beresp.ttl = 5m; }`, and the same of `beresp.grace`.
    pub(super) fn bounds(
        &mut self,
        tokens: &[Token],
        inner: &[&Statement],
        rest: &Cases,
        out: &mut Output,
    ) -> bool {
        let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        let (["(", name, "<", least, ")"], [set]) = (&words[..], inner) else { return false };
        let is_set = set.word(0) == "set" && set.tokens.len() == 4;
        if !is_set || set.word(1) != *name || set.word(3) != *least {
            return false;
        }
        match (*name, time(least)) {
            // A grace that the response states is its own.
            ("beresp.grace", Some(_)) => {
                let reason = "a grace that the response states stays as it is";
                out.note(&set.at(), name, reason);
                self.response(name, least, 1, rest, out).is_ok()
            }
            // Behind a test of what is not stored, the bound is not for that.
            ("beresp.ttl", Some(value)) if !self.keeps_stated => {
                self.each("ttl", rest, false, |rule| rule.set("min-ttl", text(&value)), out);
                true
            }
            _ => false,
        }
    }

    /// Lifetimes of a response.
    pub(super) fn response(
        &mut self,
        name: &str,
        first: &str,
        count: usize,
        live: &Cases,
        out: &mut Output,
    ) -> Result<(), String> {
        let is_off = name == "beresp.uncacheable";
        if is_off && first != "true" {
            return Ok(());
        }
        let value = if is_off { Some("0s".to_owned()) } else { time(first) };
        let value = value.filter(|_| count == 1).ok_or("expected a duration")?;
        // How long Varnish remembers that a response is not stored.
        if self.uncacheable == *live && matches!(name, "beresp.ttl" | "beresp.grace") {
            return Ok(());
        }
        if is_off {
            self.uncacheable.clone_from(live);
        }
        let has_status = *live != self.storable && live.iter().any(|case| self.is_for_some(case));
        let whole = vec![Tests::default()];
        let is_grace = matches!(name, "beresp.grace" | "beresp.keep");
        let live = if *live == self.storable && is_grace { &whole } else { live };
        match name {
            "beresp.uncacheable" | "beresp.ttl"
                if value == "0s" && live.iter().all(|case| case.get(STATUS).is_none()) =>
            {
                let mut all = live.iter().filter(|case| case.0.len() == 1);
                let all = all.find_map(|case| case.get(NOT_STATUSES));
                self.stored = all.cloned().or(self.stored.take());
                self.each("not stored", live, false, |rule| rule.set("store", "false"), out);
            }
            "beresp.uncacheable" | "beresp.ttl" => {
                if value == "0s" {
                    let of = live.iter().filter_map(|case| case.get(STATUS));
                    self.unstored.extend(of.flatten().cloned());
                }
                live.iter().for_each(|case| self.lifetime(case, &value, out));
            }
            _ if has_status => return Err("a status does not decide on this".to_owned()),
            "beresp.grace" => {
                let healthy = self.hints.healthy_grace.as_deref().unwrap_or(first);
                let healthy = time(shorter(healthy, first)).ok_or("expected a duration")?;
                // What is stale is fetched, whether the server answers or not.
                let value = if healthy == "0s" { &healthy } else { &value };
                let with = |rule: &mut RuleDraft| {
                    rule.set("stale-while-revalidate", text(&healthy));
                    for key in ["stale-if-error", "stale-when-unreachable"] {
                        rule.set(key, text(value));
                    }
                };
                self.each("grace", live, false, with, out);
            }
            "beresp.keep" => {
                self.each("keep", live, false, |rule| rule.set("keep", text(&value)), out);
            }
            _ => return Err("no equivalent of this variable".to_owned()),
        }
        Ok(())
    }

    /// Returns whether a case is for some of the responses that may be stored.
    fn is_for_some(&self, case: &Tests) -> bool {
        case.0.iter().any(|(key, values)| match key.as_str() {
            // What is left out is not stored.
            STATUS if self.stored.is_some() => {
                !self.stored.iter().flatten().all(|one| values.contains(one))
            }
            STATUS => CLASSES.iter().any(|class| {
                ![values, &self.unstored].iter().any(|list| list.iter().any(|one| one == class))
            }),
            NOT_STATUSES => !values.iter().all(|status| self.unstored.contains(status)),
            key => key.starts_with("responses."),
        })
    }

    /// Pushes the lifetime of the statuses of a case. The list of a later rule replaces that of an
    /// earlier one, so it is pushed with what the earlier one says of other statuses.
    fn lifetime(&mut self, case: &Tests, value: &str, out: &mut Output) {
        let all = crate::convert::vcl::STORED.map(str::to_owned).to_vec();
        let statuses = case.get(STATUS).unwrap_or(&all).clone();
        if case.is_of_response() || self.has_entry.get() {
            let with = |rule: &mut RuleDraft| match value {
                "0s" => rule.set("store", "false"),
                value => rule.set("ttl", text(value)),
            };
            let mut case = case.clone();
            case.0.retain(|(key, _)| key != STATUS);
            case.0.push((STATUS.to_owned(), statuses));
            return self.rule("ttl", &case, with, out);
        }
        let mut when = case.clone();
        when.0.retain(|(key, _)| key != STATUS);
        let times: Vec<String> =
            statuses.iter().map(|status| format!("{status} {value}")).collect();
        let is_other = |time: &&String| {
            let status = time.split(' ').next().unwrap_or_default();
            !statuses.iter().any(|one| one == status)
        };
        let mut pushed = vec![(when.clone(), times.clone())];
        for (earlier, old) in &self.ttls {
            let Some(joined) = earlier.and(&when).filter(|joined| !joined.is_never()) else {
                continue;
            };
            let rest = old.iter().filter(is_other).cloned();
            let all: Vec<String> = times.iter().cloned().chain(rest).collect();
            match pushed.iter_mut().find(|(known, _)| *known == joined) {
                Some((_, old)) => *old = all,
                None => pushed.push((joined, all)),
            }
        }
        let key = if self.keeps_stated { "default-ttl" } else { "ttl" };
        for (when, times) in &pushed {
            self.rule("ttl", when, |rule| rule.set(key, list(times)), out);
        }
        if self.ttls.len() < 64 {
            self.ttls.extend(pushed);
        }
    }
}
